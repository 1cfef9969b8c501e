"""What a person says who makes or changes a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_claimq.admin import configured, schedule_arguments, text
from django_claimq.admin.schedule_times import upcoming, wall_time, zone_of
from django_claimq.arguments import bind, encode_arguments
from django_claimq.compat import InvalidTask, Task
from django_claimq.durations import EARLIEST, LATEST, LONGEST, humanise, seconds
from django_claimq.exceptions import ClaimqError
from django_claimq.lookup import find_task
from django_claimq.models.schedule import Schedule
from django_claimq.queueing import database
from django_claimq.recurrence import Recurrence

_WHEN = ("cron", "every", "at")
_TIMES = ("at", "starts_at", "ends_at")
_GROUPS = (
    (_("What"), ("name", "task", "args", "kwargs", "queue_name", "priority", "enabled")),
    (_("When: one of the first three"), (*_WHEN, "zone", "starts_at", "ends_at")),
    (_("How exactly"), ("jitter", "catch_up", "catch_up_max")),
)
_JSON = forms.Textarea(attrs={"rows": 4, "class": "vLargeTextField", "spellcheck": "false"})
_TEXT = {"class": "vTextField"}


class WallTimeField(forms.DateTimeField):
    """A time as clocks show it: naive, whatever the time zone of the project."""

    widget = forms.DateTimeInput(
        attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S"
    )

    def prepare_value(self, value: Any) -> Any:
        return value

    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(UTC):
            found = super().to_python(value)
        return found and found.replace(tzinfo=None)


class ScheduleForm(forms.Form):
    """`preview`: the first slots of what it says, where that can be told; None where not.

    Parameters:
        row: the schedule to change, with its texts; None for a new one.
        secrets: what not to show of the arguments of the row.
        shows_arguments: whether they may be seen and changed.
    """

    name = forms.CharField(label=_("Name"), max_length=200, widget=forms.TextInput(attrs=_TEXT))
    task = forms.ChoiceField(
        label=_("Task"), help_text=_("Those that code declares with @schedulable or @schedule.")
    )
    args = forms.CharField(
        label=_("Positional arguments"),
        required=False,
        widget=_JSON,
        help_text=_("A list as JSON, such as [7, “mail”] with straight quotes."),
    )
    kwargs = forms.CharField(
        label=_("Named arguments"),
        required=False,
        widget=_JSON,
        help_text=_("An object as JSON."),
    )
    queue_name = forms.ChoiceField(label=_("Queue"), required=False)
    priority = forms.IntegerField(
        label=_("Priority"),
        required=False,
        help_text=_("From -100 to 100; empty for the task's own."),
    )
    enabled = forms.BooleanField(label=_("Enabled"), required=False, initial=True)

    cron = forms.CharField(
        label=_("Cron expression"),
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs=_TEXT),
        help_text=_("Minute, hour, day of the month, month, day of the week: 30 4 * * MON-FRI."),
    )
    every = forms.CharField(
        label=_("Every"),
        required=False,
        max_length=50,
        help_text=_("An interval, such as 15m, 12h, 1d or 1h30m."),
    )
    at = WallTimeField(label=_("Once at"), required=False)
    zone = forms.ChoiceField(label=_("Time zone"), help_text=_("Of all times here."))
    starts_at = WallTimeField(label=_("Starts at"), required=False)
    ends_at = WallTimeField(label=_("Ends at"), required=False)

    jitter = forms.CharField(
        label=_("Jitter"),
        initial="0s",
        max_length=50,
        help_text=_("Each job begins up to so long after its slot, by chance."),
    )
    catch_up = forms.ChoiceField(
        label=_("Slots missed"),
        choices=Schedule.CatchUp.choices,
        initial=Schedule.CatchUp.LATEST,
        help_text=_("What becomes of slots that came while no worker ran."),
    )
    catch_up_max = forms.IntegerField(
        label=_("At most"),
        min_value=1,
        max_value=1000,
        initial=100,
        help_text=_("Jobs for missed slots at once, where all are enqueued."),
    )

    def __init__(
        self,
        data: Any,
        row: Any = None,
        *,
        secrets: schedule_arguments.Secrets | None = None,
        shows_arguments: bool = True,
    ) -> None:
        self.row = row
        self.preview: list[datetime] | None = None
        self.now = datetime.now(UTC)
        super().__init__(data, initial=_initial(row, secrets) if row else None)
        choices: dict[str, Any] = {
            "task": [(path, path) for path in sorted(configured.schedulable_paths())],
            "queue_name": [("", _("the task's own")), *((q, q) for q in configured.queue_names())],
            "zone": [(zone, zone) for zone in sorted(available_timezones())],
        }
        for name, found in choices.items():
            self.fields[name].choices = found  # type: ignore[attr-defined]
        self.fields["zone"].initial = settings.TIME_ZONE
        hidden = [*(["name"] if row else []), *([] if shows_arguments else ["args", "kwargs"])]
        for name in hidden:
            del self.fields[name]

    def groups(self) -> Iterator[tuple[Any, list[forms.BoundField]]]:
        for title, names in _GROUPS:
            yield title, [self[name] for name in names if name in self.fields]

    @property
    def shown_zone(self) -> str:
        """That in which the preview is shown."""
        cleaned = getattr(self, "cleaned_data", {})
        return str(cleaned.get("zone", settings.TIME_ZONE))

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not name.isprintable():
            raise ValidationError(gettext("A name has no invisible characters: leave them out."))
        if Schedule.objects.using(configured.database()).filter(name=name).exists():
            raise ValidationError(gettext("There is a schedule of this name. Write another."))
        return name

    def clean_every(self) -> float | None:
        every: str = self.cleaned_data["every"]
        return _duration(every) if every else None

    def clean_jitter(self) -> float:
        return _duration(self.cleaned_data["jitter"])

    def clean_args(self) -> Any:
        return self._json("args", list)

    def clean_kwargs(self) -> Any:
        return self._json("kwargs", dict)

    def clean(self) -> dict[str, Any]:
        for name in _TIMES:
            self._try(name, lambda name=name: self._place(name))  # type: ignore[misc]
        self._clean_when()
        if "task" in self.cleaned_data:
            self._try("task", self._clean_task)
        return self.cleaned_data

    def applied(self) -> Schedule:
        """The row as the form wants it. Only for a form that is valid."""
        schedule = self.row or Schedule(name=self.cleaned_data["name"])
        values = {**self.cleaned_data, "queue_name": self.cleaned_data["queue_name"] or None}
        for name in _TIMES:
            moment = values[name]
            values[name] = moment and database.moment(configured.database(), moment.timestamp())
        for name, value in values.items():
            setattr(schedule, name, value)
        schedule.backend = self._backend
        return schedule

    def _json(self, name: str, kind: Any) -> Any:
        raw: str = self.cleaned_data[name].replace("\r\n", "\n")
        if self.row is not None and raw == self.initial[name].strip():
            return schedule_arguments.stored(self.row, name)
        return schedule_arguments.parsed(raw, kind)

    def _place(self, name: str) -> None:
        """Make a time one of the zone. Raises ValueError."""
        value, zone = self.cleaned_data.get(name), self.cleaned_data.get("zone")
        if value is None or zone is None:
            return
        moment = value.replace(tzinfo=zone_of(zone))
        if not EARLIEST.replace(tzinfo=None) < value < LATEST.replace(tzinfo=None):
            raise ValueError(gettext("Write a time between 1970 and 9998."))
        self.cleaned_data[name] = moment.astimezone(UTC)
        if wall_time(self.cleaned_data[name], zone) != value:
            skipped = gettext("Clocks in %s leave out this time. Write an hour later.")
            raise ValueError(skipped % zone)

    def _clean_when(self) -> None:
        """Make sure of one way to say when, and look ahead."""
        empty = (None, "")
        given = [
            name
            for name in _WHEN
            if name in self.errors or self.cleaned_data.get(name) not in empty
        ]
        if len(given) != 1:
            name = given[1] if given else "cron"
            one = gettext("Write one of these: a cron expression, an interval, or a time.")
            self.add_error(name, one)
            return
        when = given[0]
        if not {when, "zone", "starts_at", "ends_at"} & set(self.errors):
            self._try(when, lambda: self._look_ahead(when))

    def _look_ahead(self, when: str) -> None:
        names = (*_WHEN, "zone", "starts_at", "ends_at")
        given: dict[str, Any] = {name: self.cleaned_data.get(name) for name in names}
        recurrence = Recurrence(**given)
        starts_at, ends_at = recurrence.starts_at, recurrence.ends_at
        if starts_at and ends_at and ends_at < starts_at:
            self.add_error("ends_at", gettext("This is before the start. Write a later time."))
            return
        self.preview = upcoming(recurrence, self.now)
        if not self.preview and self.cleaned_data["enabled"]:
            raise ValueError(
                gettext("No slot of it is still to come. Write a later time, or do not enable it.")
            )

    def _clean_task(self) -> None:
        task = find_task(self.cleaned_data["task"])
        alias = self.row.backend if self.row is not None else task.backend
        self._backend = configured.backend_for(alias)
        self._try("task", lambda: task.using(backend=self._backend))
        for name in ("queue_name", "priority"):
            value = self.cleaned_data.get(name)
            if value not in (None, "") and "task" not in self.errors:
                changes: Any = {"backend": self._backend, name: value}
                self._try(name, lambda changes=changes: task.using(**changes))  # type: ignore[misc]
        if {"args", "kwargs"} <= self.cleaned_data.keys():
            self._clean_arguments(task, self.cleaned_data["args"], self.cleaned_data["kwargs"])

    def _clean_arguments(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        limit = configured.options_by_backend()[self._backend].max_payload
        options: Any = {"task": task.module_path, "limit": limit}
        place = "args" if args and not kwargs else "kwargs"
        names: Sequence[str] = ()

        def fit() -> None:
            nonlocal names
            names = bind(task, args, kwargs)

        self._try(place, fit)
        if place not in self.errors:
            self._try("args", lambda: encode_arguments(args, {}, names=names, **options))
        if not {"args", "kwargs"} & set(self.errors):
            self._try("kwargs", lambda: encode_arguments(args, kwargs, names=names, **options))

    def _try(self, name: str, check: Callable[[], object]) -> None:
        """Give the field what the check raises as its error."""
        try:
            check()
        except (ClaimqError, InvalidTask, ImproperlyConfigured, ValueError, OverflowError) as error:
            self.add_error(name if name in self.fields else None, str(error))


def _initial(row: Any, secrets: schedule_arguments.Secrets | None) -> dict[str, Any]:
    names = ("task", "zone", "catch_up", "catch_up_max", "priority", "enabled")
    return {
        "cron": text.visible(row.cron),
        **{name: getattr(row, name) for name in names},
        **{name: wall_time(getattr(row, name), row.zone) for name in _TIMES},
        **schedule_arguments.to_edit(row, secrets),
        "queue_name": row.queue_name or "",
        "every": "" if row.every is None else _humanised(row.every),
        "jitter": _humanised(row.jitter),
    }


def _humanised(length: float) -> str:
    """As the form reads it; whatever else a column may hold as it is."""
    return humanise(length) if 0 <= length < LONGEST else str(length)


def _duration(raw: str) -> float:
    try:
        return seconds(raw)
    except ValueError:
        message = gettext("This is not a duration. Write one such as 90s, 15m, 12h, 7d or 1h30m.")
        raise ValidationError(message) from None
