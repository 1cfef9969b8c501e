"""What a person may do to jobs: guarded set operations, and how the admin speaks of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.admin.models import CHANGE, DELETION
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_claimq.admin import configured
from django_claimq.compat import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY
from django_claimq.models.querysets import JobQuerySet
from django_claimq.states import ALIVE, FINISHED, UNCLAIMED, State


@dataclass(frozen=True)
class Verb:
    """One of them.

    `name`: as in `has_<name>_permission`, and of its action: `<name>_selected`.
    `apply`: what it does, given the value of `field` if it has one; returns how many held.
    `states`: those in which it may hold.
    `label`, `submit`: of its action, and of the button that confirms it.
    `log`: for the admin's log; `{value}` stands for the value.
    `held`, `refused`: sentences for a count, with `%(count)s`, and `%(states)s` for the latter.
    `field`: makes the form field of the value that it asks for.
    `always_asks`: whether it is to be confirmed however few the jobs are.
    `newest_first`: where of two jobs only one can have it, whether the newer one has.
    `flag`: of its entries in the log.
    """

    name: str
    apply: Callable[[JobQuerySet, Any], int]
    states: Collection[State]
    label: Any
    submit: Any
    log: str
    held: Callable[[int], str]
    refused: Callable[[int], str]
    field: Callable[[], forms.Field] | None = None
    always_asks: bool = False
    newest_first: bool = False
    flag: int = CHANGE

    @property
    def asks(self) -> bool:
        return self.always_asks or self.field is not None


def _queue_field() -> forms.Field:
    names = configured.queue_names()
    if not names:  # Any name will do.
        return forms.CharField(label=_("Queue"), max_length=100)
    return forms.ChoiceField(label=_("Queue"), choices=[(name, name) for name in names])


def _priority_field() -> forms.Field:
    return forms.IntegerField(
        label=_("Priority"),
        min_value=TASK_MIN_PRIORITY,
        max_value=TASK_MAX_PRIORITY,
        initial=0,
        help_text=_("-100 to 100, higher first."),
    )


REQUEUE = Verb(
    name="requeue",
    apply=lambda jobs, value: jobs.requeue(),
    states=FINISHED,
    label=_("Requeue selected %(verbose_name_plural)s"),
    submit=_("Requeue"),
    log="Requeued.",
    held=lambda count: ngettext(
        "%(count)s job was requeued.", "%(count)s jobs were requeued.", count
    ),
    refused=lambda count: ngettext(
        "%(count)s job was left as it is (%(states)s): only finished jobs can be requeued, "
        "and of those with the same unique key only one.",
        "%(count)s jobs were left as they are (%(states)s): only finished jobs can be requeued, "
        "and of those with the same unique key only one.",
        count,
    ),
    newest_first=True,
)
CANCEL = Verb(
    name="cancel",
    apply=lambda jobs, value: jobs.cancel(),
    states=ALIVE,
    label=_("Cancel selected %(verbose_name_plural)s"),
    submit=_("Cancel these jobs"),
    log="Cancelled, or asked to stop.",
    held=lambda count: ngettext(
        "%(count)s job was cancelled or, if running, asked to stop.",
        "%(count)s jobs were cancelled or, if running, asked to stop.",
        count,
    ),
    refused=lambda count: ngettext(
        "%(count)s job was left as it is (%(states)s): it has finished or was asked to stop "
        "before.",
        "%(count)s jobs were left as they are (%(states)s): they have finished or were asked to "
        "stop before.",
        count,
    ),
)
RUN = Verb(
    name="run",
    apply=lambda jobs, value: jobs.run_now(),
    states=(State.SCHEDULED,),
    label=_("Run selected %(verbose_name_plural)s now"),
    submit=_("Run now"),
    log="Made due at once.",
    held=lambda count: ngettext("%(count)s job is due now.", "%(count)s jobs are due now.", count),
    refused=lambda count: ngettext(
        "%(count)s job was left as it is (%(states)s): only scheduled jobs can be run now.",
        "%(count)s jobs were left as they are (%(states)s): only scheduled jobs can be run now.",
        count,
    ),
)
MOVE = Verb(
    name="move",
    apply=lambda jobs, value: jobs.move(value),
    states=UNCLAIMED,
    label=_("Move selected %(verbose_name_plural)s to another queue"),
    submit=_("Move"),
    log="Moved to the queue {value}.",
    held=lambda count: ngettext("%(count)s job was moved.", "%(count)s jobs were moved.", count),
    refused=lambda count: ngettext(
        "%(count)s job was left as it is (%(states)s): only jobs that have not begun can be moved.",
        "%(count)s jobs were left as they are (%(states)s): only jobs that have not begun can be "
        "moved.",
        count,
    ),
    field=_queue_field,
)
REPRIORITISE = Verb(
    name="reprioritise",
    apply=lambda jobs, value: jobs.reprioritise(value),
    states=UNCLAIMED,
    label=_("Change the priority of selected %(verbose_name_plural)s"),
    submit=_("Change the priority"),
    log="Given priority {value}.",
    held=lambda count: ngettext(
        "%(count)s job has the new priority.", "%(count)s jobs have the new priority.", count
    ),
    refused=lambda count: ngettext(
        "%(count)s job was left as it is (%(states)s): only jobs that have not begun can be "
        "given another priority.",
        "%(count)s jobs were left as they are (%(states)s): only jobs that have not begun can be "
        "given another priority.",
        count,
    ),
    field=_priority_field,
)
REMOVE = Verb(
    name="remove",
    apply=lambda jobs, value: jobs.remove(),
    states=tuple(state for state in State if state != State.RUNNING),
    label=_("Delete selected %(verbose_name_plural)s"),
    submit=_("Delete"),
    log="Deleted.",
    held=lambda count: ngettext(
        "%(count)s job was deleted.", "%(count)s jobs were deleted.", count
    ),
    refused=lambda count: ngettext(
        "%(count)s job was left as it is (%(states)s): cancel it first.",
        "%(count)s jobs were left as they are (%(states)s): cancel them first.",
        count,
    ),
    always_asks=True,
    flag=DELETION,
)

VERBS = {verb.name: verb for verb in (REQUEUE, CANCEL, RUN, MOVE, REPRIORITISE, REMOVE)}
