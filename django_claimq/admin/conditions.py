"""What narrows the list of jobs, and how far back a list is read that no index bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import (
    BooleanField,
    Case,
    Count,
    F,
    Func,
    Q,
    QuerySet,
    SmallIntegerField,
    Sum,
    TextField,
    Value,
    When,
)

# How many of the newest jobs are looked at where no index finds those that are asked for.
WINDOW = 100_000


@dataclass(frozen=True, slots=True)
class Condition:
    """`has_index`: whether an index finds the jobs, so that their number bounds the work.

    `is_large`: whether that number may be large all the same, as that of a backlog. `is_by_queue`:
    whether that index goes by queue, `is_queue`: whether it is a queue that is asked for.
    `is_common`: whether so many jobs fulfil it that some are soon found without.
    """

    q: Q
    has_index: bool = False
    is_large: bool = False
    is_by_queue: bool = False
    is_queue: bool = False
    is_common: bool = False


NOTHING = Condition(Q(pk__in=[]), has_index=True)


def start_of_window(jobs: QuerySet[Any], conditions: Iterable[Condition]) -> UUID | None:
    """The id beyond which jobs are too old to be looked at; None where all are.

    `jobs`: all of them.
    """
    narrowing = list(conditions)
    is_bounded = any(one.has_index and not one.is_large for one in narrowing)
    goes_by_queue = any(one.is_by_queue for one in narrowing)
    others = [one for one in narrowing if not (one.is_large or (goes_by_queue and one.is_queue))]
    if is_bounded or all(one.is_common for one in others):
        return None
    newest = jobs.order_by("-id").values_list("id", flat=True)
    return newest[WINDOW : WINDOW + 1].first()


def are_mixed(conditions: Iterable[Condition]) -> bool:
    """Whether an index finds the jobs for some of them, but not for all."""
    return len({one.has_index for one in conditions}) == 2


def count(jobs: QuerySet[Any], conditions: Iterable[Condition], most: int) -> tuple[int, int]:
    """How many of the jobs fulfil all, and how many were looked at: no more than `most`.

    Only those are looked at that an index finds, in its own order.
    """
    narrowing = list(conditions)
    indexed = jobs.filter(*[one.q for one in narrowing if one.has_index]).order_by()
    other = Q(*[one.q for one in narrowing if not one.has_index])
    fulfils = Case(When(other, then=1), default=0, output_field=SmallIntegerField())
    looked_at = indexed.annotate(fulfils=fulfils).values("pk", "fulfils")[:most]
    totals = looked_at.aggregate(all=Count("pk"), found=Sum("fulfils"))
    return totals["found"] or 0, totals["all"]


class HasElement(Func):
    """Whether a text is among the elements of a JSON array."""

    output_field = BooleanField()

    def __init__(self, column: str, element: str) -> None:
        super().__init__(F(column), Value(json.dumps([element]), output_field=TextField()))

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "(%(expressions)s::jsonb)"
        return self.as_sql(compiler, connection, template=template, arg_joiner=" @> ", **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "EXISTS (SELECT 1 FROM JSON_EACH(%(expressions)s, '$[0]'))"
        joiner = ") WHERE value = JSON_EXTRACT("
        return self.as_sql(compiler, connection, template=template, arg_joiner=joiner, **extra)

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="JSON_CONTAINS(%(expressions)s)", **extra)
