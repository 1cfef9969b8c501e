"""Arguments that may be what the annotations of a task say, and not only JSON.

What is stored is plain JSON without tags; the annotations say how to read it back.
"""

from django_claimq.typed.codec import Codec, codec_of, flaws_of

__all__ = ["Codec", "codec_of", "flaws_of"]
