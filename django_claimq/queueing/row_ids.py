"""Ids that the database makes, one for each row of an INSERT ... SELECT."""

from __future__ import annotations

from typing import Any

from django.db.models import Func, UUIDField

# Of the row, from 1.
_NUMBER = "row_number() OVER ()"


class Uuid7(Func):
    """A UUID of version 7 for each row, in the order of the rows.

    Where the server has no function for it: the milliseconds of the statement, as 30 bits the
    number of the row, and 44 bits of chance.
    """

    output_field = UUIDField()
    arity = 0

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        if connection.pg_version >= 180000:
            return "uuidv7()", []
        milliseconds = "floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
        parts = (
            f"lpad(to_hex({milliseconds}), 12, '0')",
            "'7'",
            f"lpad(to_hex({_NUMBER} >> 18 & 4095), 3, '0')",
            f"to_hex(8 + ({_NUMBER} >> 16 & 3))",
            f"lpad(to_hex({_NUMBER} & 65535), 4, '0')",
            "right(gen_random_uuid()::text, 11)",
        )
        return f"({' || '.join(parts)})::uuid", []

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        parts = (
            "CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)",
            f"{_NUMBER} >> 18 & 4095",
            f"8 + ({_NUMBER} >> 16 & 3)",
            f"{_NUMBER} & 65535",
        )
        text = f"printf(%s, {', '.join(parts)}) || lower(substr(hex(randomblob(6)), 2))"
        return text, ["%012x7%03x%x%04x"]

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        parts = (
            "LPAD(HEX(FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)), 12, '0')",
            "'7'",
            f"LPAD(HEX({_NUMBER} >> 18 & 4095), 3, '0')",
            f"HEX(8 + ({_NUMBER} >> 16 & 3))",
            f"LPAD(HEX({_NUMBER} & 65535), 4, '0')",
            "LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 11)",
        )
        return f"LOWER(CONCAT({', '.join(parts)}))", []
