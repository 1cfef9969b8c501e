"""What a run leaves in its row: results and tracebacks, fit to be stored anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django_claimq.compat import normalize_json
from django_claimq.flaws import MAX_DEPTH, first_unstorable, suspicious, unexplained

# Keys of Job.metadata.
_VERSION = "claimq_version"
_SENSITIVE = "claimq_sensitive"

#: The key of the dict that stands for a result which could not be stored.
MARKER = "__claimq__"

# Without ASCII escapes the text is as long as the database stores it, a lone surrogate fails to
# encode, and "\u0000" can only be a NUL (or a text about one).
encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_result(value: Any, *, limit: int) -> Any:
    """Turn what a task returned into what its row stores.

    Tuples become lists, bytes become text, keys become strings. What a database refuses or what
    is too large becomes {"__claimq__": "unstorable", "reason": "..."}.

    Parameters:
        value: the return value.
        limit: the most bytes of JSON (MAX_RESULT).

    Raises TypeError or ValueError for types that JSON does not have.
    """
    try:
        plain = normalize_json(value)
    except RecursionError:
        return unstorable("it is nested too deeply or contains itself")
    try:
        text = encoder.encode(plain)
        length = len(text.encode())
        if length > limit:
            return unstorable(f"{length:,} bytes as JSON, over {limit:,} (MAX_RESULT)")
        decoded = json.loads(text)
    except (ValueError, RecursionError) as error:
        return unstorable(str(first_unstorable(plain) or unexplained(error)))
    if suspicious(text, decoded, MAX_DEPTH) and (flaw := first_unstorable(decoded)):
        return unstorable(str(flaw))
    return decoded


def described(
    metadata: Mapping[str, Any], version: int, sensitive: Sequence[str]
) -> dict[str, Any]:
    """The metadata of a job with what has to be known of its arguments."""
    known: dict[str, Any] = {_VERSION: version} if version > 1 else {}
    if sensitive:
        known[_SENSITIVE] = list(sensitive)
    return {**metadata, **known}


def version_of(metadata: Any) -> int:
    """Of the arguments of the job with this metadata."""
    version = metadata.get(_VERSION, 1) if isinstance(metadata, Mapping) else 1
    return version if isinstance(version, int) else 1


def sensitive_in(metadata: Any) -> tuple[str, ...]:
    """The names of the arguments of the job with this metadata that must not be shown."""
    names = metadata.get(_SENSITIVE) if isinstance(metadata, Mapping) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()


def decode(text: str) -> Any:
    """Read the JSON text of a row. Raises ValueError for text that cannot be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("The JSON text is nested too deeply to be read.") from None


def clean_text(text: str, limit: int = 10_000) -> str:
    r"""Make a text storable in every database: used for tracebacks.

    NUL and lone surrogates are written as \x00 and \udcff. Too long a text loses its middle, with
    a line that says how much; of the rest, a quarter is the start and three quarters the end.

    Parameters:
        text: any text.
        limit: the most characters of the answer, 100 or more. Default 10,000.
    """
    text = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    kept = max(limit - 60, 0)  # the rest is for the line about the cut
    head, tail = kept // 4, len(text) - (kept - kept // 4)
    return f"{text[:head]}\n[... {tail - head:,} characters cut ...]\n{text[tail:]}"


def unstorable(reason: str) -> dict[str, str]:
    return {MARKER: "unstorable", "reason": clean_text(reason, 500)}
