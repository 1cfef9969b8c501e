"""What a schedule calls its task with: shown without what is secret, and read from a form."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext

from django_claimq.admin import json_view, text
from django_claimq.admin.configured import redacted_names
from django_claimq.admin.secrets import secret_positions
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import TaskNotFound
from django_claimq.lookup import find_task
from django_claimq.masking import MASK


@dataclass(frozen=True, slots=True)
class Secrets:
    """Casefolded names whose values are masked, and the positional arguments that are."""

    names: frozenset[str]
    _task: str

    @classmethod
    def of(cls, schedule: Any, allowed: Collection[str]) -> Secrets | None:
        """None where the task is not known: then everything may be secret."""
        if schedule.task not in allowed:  # It is not to be imported.
            return None
        try:
            task = find_task(schedule.task)
        except TaskNotFound:
            return None
        own = task.sensitive if isinstance(task, ClaimqTask) else ()
        names = redacted_names(schedule.backend) | {name.casefold() for name in own}
        return cls(names, schedule.task)

    @property
    def positions(self) -> Iterable[bool]:
        return secret_positions(self._task, self.names) if self.names else []


def with_texts(schedules: QuerySet[Any]) -> QuerySet[Any]:
    """The rows with `args_text` and `kwargs_text`, since JSON may be such that none can read it."""
    texts = {f"{name}_text": Cast(name, TextField()) for name in ("args", "kwargs")}
    found: QuerySet[Any] = schedules.defer("args", "kwargs").annotate(**texts)
    return found


def shown(schedule: Any, secrets: Secrets | None) -> dict[str, str]:
    """Both as HTML."""
    if secrets is None:
        return {"args": MASK, "kwargs": MASK}
    return {
        "args": json_view.rendered(
            "claimq-args", schedule.args_text, secrets.names, secrets.positions
        ),
        "kwargs": json_view.rendered("claimq-kwargs", schedule.kwargs_text, secrets.names),
    }


def to_edit(schedule: Any, secrets: Secrets | None) -> dict[str, str]:
    """Both as a form shows them; what is left as it is there stays as it is in the row."""
    if secrets is None:
        return {"args": MASK, "kwargs": MASK}
    return {
        "args": text.pretty(schedule.args_text, secrets.names, secrets.positions),
        "kwargs": text.pretty(schedule.kwargs_text, secrets.names),
    }


def stored(schedule: Any, name: str) -> Any:
    """One of both as it is in the row. Raises ValidationError for what cannot be read."""
    raw = getattr(schedule, f"{name}_text")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise ValidationError(gettext("What is stored cannot be read. Write it anew.")) from None


def parsed(raw: str, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """A list or an object from its JSON; empty for nothing. Raises ValidationError."""
    example = '["a", 7]' if kind is list else '{"name": "a"}'
    try:
        value = json.loads(raw) if raw.strip() else kind()
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else gettext("out of bounds")
        message = gettext("This is no JSON (%(why)s). Write %(example)s.")
        raise ValidationError(message % {"why": why, "example": example}) from None
    if not isinstance(value, kind):
        wanted = gettext("a list") if kind is list else gettext("an object")
        message = gettext("This is not %(wanted)s. Write one, such as %(example)s.")
        raise ValidationError(message % {"wanted": wanted, "example": example})
    if MASK in json.dumps(value):
        raise ValidationError(gettext("Write the value in place of %s.") % MASK)
    return value
