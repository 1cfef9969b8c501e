"""What holds other values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from django_claimq.durations import shown
from django_claimq.typed.conversion import Conversion, Misfit, check_kind, wrong_json, wrong_kind
from django_claimq.typed.loading import Rows

_Parts: TypeAlias = "Iterable[tuple[Any, Conversion, Any]]"


class _Holder(Conversion):
    """What holds others. Both kinds of parts have a key, a conversion and a value each."""

    def parts(self, value: Any) -> _Parts:
        raise NotImplementedError

    def stored_parts(self, stored: Any) -> _Parts:
        raise NotImplementedError

    def pack(self, found: list[tuple[Any, Any]]) -> Any:
        """JSON of keys and their JSON."""
        return [one for _, one in found]

    def build(self, found: list[tuple[Any, Any]]) -> Any:
        """A value of keys and their values."""
        raise NotImplementedError

    def where(self, key: Any) -> str:
        return f"[{shown(key)}]"

    def encode(self, value: Any) -> Any:
        return self.pack(
            [(key, self._at(key, of.encode, one)) for key, of, one in self.parts(value)]
        )

    def decode(self, stored: Any, rows: Rows) -> Any:
        found = [
            (key, self._at(key, of.decode, one, rows)) for key, of, one in self.stored_parts(stored)
        ]
        return self.build(found)

    def want(self, stored: Any, rows: Rows) -> None:
        for key, of, one in self.stored_parts(stored):
            self._at(key, of.want, one, rows)

    def _at(self, key: Any, convert: Any, *given: Any) -> Any:
        try:
            return convert(*given)
        except Misfit as misfit:
            misfit.path = self.where(key) + misfit.path
            raise


class Items(_Holder):
    """list[X], tuple[X, ...], set[X], frozenset[X]."""

    def __init__(self, kind: type, of: Conversion) -> None:
        self._kind = kind
        self._of = of

    def parts(self, value: Any) -> _Parts:
        check_kind(value, self._kind, f"{self._kind.__name__}(value)")
        return ((index, self._of, one) for index, one in enumerate(value))

    def stored_parts(self, stored: Any) -> _Parts:
        if not isinstance(stored, list):
            raise wrong_json(stored, self._kind)
        return ((index, self._of, one) for index, one in enumerate(stored))

    def pack(self, found: list[tuple[Any, Any]]) -> Any:
        items = [one for _, one in found]
        # The order of a set differs from process to process; that of its JSON does not.
        return sorted(items, key=repr) if self._kind in (set, frozenset) else items

    def build(self, found: list[tuple[Any, Any]]) -> Any:
        try:
            return self._kind(one for _, one in found)
        except TypeError as error:  # In a set: lists and dicts.
            raise Misfit(f"what is stored cannot be in a {self._kind.__name__} ({error})") from None


class FixedTuple(_Holder):
    """tuple[X, Y]."""

    def __init__(self, of: Sequence[Conversion]) -> None:
        self._of = of

    def parts(self, value: Any) -> _Parts:
        check_kind(value, tuple, "tuple(value)")
        if len(value) != len(self._of):
            raise Misfit(f"{len(value)} items instead of {len(self._of)}", "Pass as many")
        return zip(range(len(value)), self._of, value, strict=True)

    def stored_parts(self, stored: Any) -> _Parts:
        if not isinstance(stored, list) or len(stored) != len(self._of):
            raise Misfit(f"what is stored is no tuple of {len(self._of)}")
        return zip(range(len(stored)), self._of, stored, strict=True)

    def build(self, found: list[tuple[Any, Any]]) -> Any:
        return tuple(one for _, one in found)


class Values(_Holder):
    """dict[str, X]. What keys there may be is checked with all other JSON."""

    def __init__(self, of: Conversion) -> None:
        self._of = of

    def parts(self, value: Any) -> _Parts:
        check_kind(value, dict, "dict(value)")
        return ((key, self._of, one) for key, one in value.items())

    def stored_parts(self, stored: Any) -> _Parts:
        if not isinstance(stored, dict):
            raise wrong_json(stored, dict)
        return ((key, self._of, one) for key, one in stored.items())

    def pack(self, found: list[tuple[Any, Any]]) -> Any:
        return dict(found)

    def build(self, found: list[tuple[Any, Any]]) -> Any:
        return dict(found)


class Record(_Holder):
    """A dataclass or a NamedTuple: a dict by the names of its fields.

    A field that is not stored has its default, so that fields may be added.
    """

    #: Set once they are known: a record may hold others of its own kind.
    fields: Mapping[str, Conversion]
    #: The names of those that have no default.
    required: frozenset[str]

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def where(self, key: Any) -> str:
        return f".{key}"

    def parts(self, value: Any) -> _Parts:
        # One of a subclass would come back without what that has more.
        if type(value) is not self._kind:
            raise wrong_kind(value, self._kind, f"{self._kind.__name__}(...)")
        return ((name, of, getattr(value, name)) for name, of in self.fields.items())

    def stored_parts(self, stored: Any) -> _Parts:
        if not isinstance(stored, dict):
            raise wrong_json(stored, self._kind)
        if unknown := sorted(stored.keys() - self.fields.keys()):
            name = self._kind.__name__
            raise Misfit(f"{name} has no field {', '.join(map(shown, unknown))}, which is stored")
        if missing := sorted(self.required - stored.keys()):
            raise Misfit(f"{', '.join(missing)} of {self._kind.__name__} is not stored")
        return ((name, self.fields[name], one) for name, one in stored.items())

    def pack(self, found: list[tuple[Any, Any]]) -> Any:
        return dict(found)

    def build(self, found: list[tuple[Any, Any]]) -> Any:
        try:
            return self._kind(**dict(found))
        except (TypeError, ValueError) as error:
            raise Misfit(f"{self._kind.__name__} cannot be made of what is stored") from error
