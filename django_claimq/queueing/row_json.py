"""Values of rows as JSON, made by the database as Python would write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from django.db.models import (
    BigIntegerField,
    BooleanField,
    Expression,
    Field,
    FloatField,
    Func,
    GenericIPAddressField,
    JSONField,
    TextField,
    UUIDField,
    Value,
)
from django.db.models.expressions import Col
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Cast

# Characters of anything but a text.
_SHORT = 50
# What one character may become: \u001f.
_ESCAPED = 6


def as_json(name: str, source: Any) -> Expression:
    """The column of that name as a part of JSON; `source` is the expression that it holds.

    Raises ValueError, with what is wrong, for what JSON would change.
    """
    return _made(_JSON, name, source)


def as_text(name: str, source: Any) -> Expression:
    """The same for a text: that of a primary key."""
    return _made(_TEXT, name, source)


def longest(source: Any) -> float:
    """The most bytes that it may take as JSON."""
    if isinstance(source, Value) and isinstance(source.value, str):
        return _ESCAPED * len(source.value) + 2
    field = _field_of(source)
    if field.get_internal_type() not in {*_TEXTS, "JSONField"}:
        return _SHORT
    # What functions make may be longer, and that of a TextField is for forms alone.
    is_limited = isinstance(source, Col) and not isinstance(field, TextField)
    length = getattr(field, "max_length", None) if is_limited else None
    return math.inf if length is None else _ESCAPED * length + 2


class JsonSize(Func):
    """How many bytes a JSON value has as text."""

    output_field = BigIntegerField()
    arity = 1

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "octet_length((%(expressions)s)::text)"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "length(CAST(%(expressions)s AS blob))"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, function="LENGTH", **extra)


class Column(Expression):
    """A column of the rows that jobs are made of, by its name there."""

    def __init__(self, name: str, output_field: Field[Any, Any]) -> None:
        super().__init__(output_field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return connection.ops.quote_name(self.name), []


class _JsonOfText(Func):
    """A text that is JSON, as a part of other JSON."""

    output_field = JSONField()
    arity = 1

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s)::jsonb", **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, function="json", **extra)

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        # MariaDB takes JSON for text unless it comes from one of its functions.
        template = "JSON_EXTRACT(%(expressions)s, '$')"
        return self.as_sql(compiler, connection, template=template, **extra)


class _BooleanText(Func):
    """Words also where the engine has numbers for them."""

    output_field = TextField()
    template = (
        "CASE WHEN %(expressions)s THEN 'true' WHEN NOT %(expressions)s THEN 'false' ELSE NULL END"
    )
    arity = 1

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "(%(expressions)s)::boolean::text"
        return self.as_sql(compiler, connection, template=template, **extra)


class _JsonFloat(Func):
    """All digits, and a fraction even where it is 0. Infinity and NaN are an error."""

    output_field = JSONField()
    arity = 1

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "((%(expressions)s)::text::numeric + 0.0)::text::jsonb"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        # Doubled twice: for this template and for the parameters of the statement.
        text = "CASE WHEN %(expressions)s IS NOT NULL THEN printf('%%%%!.17g', %(expressions)s) END"
        return self.as_sql(compiler, connection, template=f"json({text})", **extra)

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="%(expressions)s", **extra)


class _UuidText(Func):
    """With its dashes also where the engine keeps them as text without."""

    output_field = TextField()
    arity = 1
    _parts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s)::text", **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        parts = [f"substr(%(expressions)s, {start}, {size})" for start, size in self._parts]
        return self.as_sql(compiler, connection, template=" || '-' || ".join(parts), **extra)

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        plain = "REPLACE(%(expressions)s, '-', '')"
        parts = [f"SUBSTR({plain}, {start}, {size})" for start, size in self._parts]
        joined = ", '-', ".join(parts)
        template = f"LOWER(CONCAT({joined}))"
        return self.as_sql(compiler, connection, template=template, **extra)


def _made(makers: _Makers, name: str, source: Any) -> Expression:
    field = _field_of(source)
    # What it comes out of the database as is not what it is to Python.
    is_converted = hasattr(field, "from_db_value") and not isinstance(field, JSONField)
    if is_converted or (maker := makers.get(field.get_internal_type())) is None:
        raise ValueError(f"is a {type(field).__name__}, which is no JSON")
    if isinstance(field, JSONField) and _takes_a_part(source):
        raise ValueError("is a part of a JSONField; KT(...) would be its text")
    return maker(name)


def _field_of(source: Any) -> Any:
    field = source.output_field
    while field.is_relation:
        field = field.target_field
    return field


def _takes_a_part(source: Any) -> bool:
    # SQLite answers "true" for a text and for a boolean alike.
    return any(isinstance(one, KeyTransform) for one in source.flatten())


_Makers = dict[str, Callable[[str], Expression]]

_NUMBERS = [
    *(f"{size}IntegerField" for size in ("", "Small", "Big")),
    *(f"Positive{size}IntegerField" for size in ("", "Small", "Big")),
    *(f"{size}AutoField" for size in ("", "Small", "Big")),
]
_TEXTS = ["CharField", "TextField", "SlugField", "FileField", "FilePathField"]
_BOTH: _Makers = {
    **dict.fromkeys(_TEXTS, lambda name: Cast(Column(name, TextField()), TextField())),
    "UUIDField": lambda name: _UuidText(Column(name, UUIDField())),
}
_JSON: _Makers = {
    **_BOTH,
    **dict.fromkeys(_NUMBERS, lambda name: Column(name, BigIntegerField())),
    "GenericIPAddressField": lambda name: Column(name, GenericIPAddressField()),
    "BooleanField": lambda name: _JsonOfText(_BooleanText(Column(name, BooleanField()))),
    "FloatField": lambda name: _JsonFloat(Column(name, FloatField())),
    "JSONField": lambda name: _JsonOfText(Column(name, JSONField())),
}
_TEXT: _Makers = {
    **_BOTH,
    **dict.fromkeys(_NUMBERS, lambda name: Cast(Column(name, BigIntegerField()), TextField())),
}
