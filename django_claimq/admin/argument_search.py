"""Jobs by the value of an argument: arg.user_id:42."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import F, JSONField, Q
from django.db.models.fields.json import KeyTransform, KeyTransformExact
from django.utils.translation import gettext

from django_claimq.admin import configured
from django_claimq.admin.conditions import Condition
from django_claimq.admin.text import word
from django_claimq.definition import defined
from django_claimq.signatures import positional

_PATH = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_SENSITIVE = "metadata__claimq_sensitive"


def condition(path: str, value: str, sees_payload: bool) -> Condition:
    """Jobs that were given the value, as a keyword or at the place that their task has for it.

    Parameters:
        path: the name of the argument, and keys within it: "user_id", "order.items.0".
        value: as JSON or as text; "42" finds the number and the text.
        sees_payload: whether the person who asks may see arguments.

    Raises ValueError, saying what to do, for what cannot be or must not be asked.
    """
    if not sees_payload:
        raise ValueError(gettext("arg. needs the permission to view arguments."))
    if not _PATH.fullmatch(path):
        raise ValueError(gettext("Write arg.name:value, such as arg.user_id:42."))
    name, *keys = path.split(".")
    _refuse_hidden((name, *keys))
    values = _readings(value)
    is_keyword = _is_one_of(["kwargs", name, *keys], values) & _is_open([name, *keys])
    at_place = Q()
    for (place, sensitive), tasks in _places(name).items():
        # What a job calls sensitive is looked up by the places of its task as it is now.
        is_same = (
            Q(**{_SENSITIVE: list(sensitive)})
            if sensitive
            else Q(**{f"{_SENSITIVE}__isnull": True})
        )
        at_place |= _is_one_of(["args", place, *keys], values) & Q(task__in=tasks) & is_same
    return Condition(is_keyword | at_place)


def _refuse_hidden(names: Sequence[str]) -> None:
    sensitive = {name.casefold() for task in defined.values() for name in task.sensitive}
    hidden = sensitive | configured.redacted_names("")
    for name in names:
        if name.casefold() in hidden:
            raise ValueError(
                gettext("%s is hidden by REDACT or sensitive=, so it cannot be searched for.")
                % word(name, 40)
            )


def _readings(value: str) -> list[Any]:
    """As text, and as the number or other plain JSON that it may be."""
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return [value]
    # Not lists and dicts: a guess at a whole one would tell what is hidden within it.
    is_plain = isinstance(read, bool | int) or (isinstance(read, float) and math.isfinite(read))
    return [value, read] if is_plain else [value]


def _is_one_of(path: Sequence[Any], values: Sequence[Any]) -> Q:
    column, *keys = path
    found: Any = F(column)
    for key in keys:
        found = KeyTransform(key, found, output_field=JSONField())
    answer = Q()
    for value in values:
        answer |= Q(KeyTransformExact(found, value))
    return answer


def _is_open(names: Sequence[str]) -> Q:
    """Jobs that do not call any of the names sensitive."""
    answer = Q(**{f"{_SENSITIVE}__isnull": True})
    listed = Q()
    for name in names:
        listed |= Q(**{f"{_SENSITIVE}__icontains": json.dumps(name)})
    return answer | ~listed


def _places(name: str) -> dict[tuple[int, tuple[str, ...]], list[str]]:
    """Where known tasks have the argument, by its place and by what they call sensitive."""
    found = defaultdict(list)
    for path, task in defined.items():
        names = positional(task.func, task.takes_context)
        if name in names:
            found[names.index(name), tuple(task.sensitive)].append(path)
    return found
