"""What a job is asked to be, trait by trait, and where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from inspect import Parameter
from typing import Any, NamedTuple

from django.conf import settings
from django.utils.timezone import is_naive

from django_claimq.compat import Task
from django_claimq.definition import ClaimqTask
from django_claimq.durations import shown
from django_claimq.exceptions import ClaimqError
from django_claimq.keys import LiteralKey, make_key
from django_claimq.masking import MASK
from django_claimq.models.job import Job
from django_claimq.payload import sensitive_in
from django_claimq.signatures import bound, parameters, signature
from django_claimq.subjects import Subject
from django_claimq.typed import codec_of

# Seconds by which a job's time may differ from the one that is asked for.
_TOLERANCE = 5.0


class Trait(NamedTuple):
    """One thing that a job has to be. `actual` raises LookupError where it has no such thing."""

    label: str
    expected: Any
    actual: Callable[[Job], Any]
    holds: Callable[[Job], bool]
    # Whether the values of a job, or of any job, must not be shown.
    is_secret: Callable[[Job | None], bool] = lambda job: False

    @property
    def wanted(self) -> str:
        return f"{self.label}: {MASK if self.is_secret(None) else shown(self.expected)}"


def unmet(job: Job, traits: Iterable[Trait]) -> int:
    """How many of them the job has not."""
    return sum(not trait.holds(job) for trait in traits)


def compared(job: Job, traits: Iterable[Trait]) -> list[str]:
    """A line for each trait: what the job is, and what it is not but should be."""
    lines = []
    for trait in traits:
        holds, secret = trait.holds(job), trait.is_secret(job)
        try:
            actual = MASK if secret else shown(trait.actual(job))
        except LookupError:
            actual = "missing"
        wanted = "" if holds else f", not {MASK if secret else shown(trait.expected)}"
        lines.append(f"{'  ' if holds else '! '}{trait.label}: {actual}{wanted}")
    return lines


def traits_of_arguments(task: Task[..., Any], args: Any, kwargs: Any) -> list[Trait]:
    """Raises TypeError for arguments that no call of the task could have."""
    if isinstance(args, str) or not isinstance(args, Sequence | None):
        raise TypeError(f"args is a list of arguments, not {shown(args)}")
    if not isinstance(kwargs, Mapping | None):
        raise TypeError(f"kwargs is a dict of arguments, not {shown(kwargs)}")
    return [
        _argument(task, name, value)
        for name, value in _asked(task, args or (), kwargs or {}).items()
    ]


def traits_of_options(task: Task[..., Any], asked: Mapping[str, Any]) -> list[Trait]:
    """Those of the columns that are asked for, which is not those that are None."""
    return [
        _OPTIONS.get(name, _column)(name, value)
        for name, value in asked.items()
        if value is not None
    ]


def known_arguments(task: Task[..., Any]) -> Callable[[Job], list[str]]:
    """For jobs of which no argument is asked for: a line that shows them all."""

    def lines(job: Job) -> list[str]:
        stored = _arguments(task, job)[0].items()
        return [
            f"  {name}: {MASK if _is_secret(task, name, job) else shown(value)}"
            for name, value in stored
        ]

    return lines


def _argument(task: Task[..., Any], name: str, expected: Any) -> Trait:
    def holds(job: Job) -> bool:
        stored, decoded = _arguments(task, job)
        return any(name in found and _same(expected, found[name]) for found in (decoded, stored))

    return Trait(
        name,
        expected,
        lambda job: _arguments(task, job)[0][name],
        holds,
        lambda job: _is_secret(task, name, job),
    )


def _column(name: str, expected: Any) -> Trait:
    return Trait(
        name,
        expected,
        lambda job: getattr(job, name),
        lambda job: bool(expected == getattr(job, name)),
    )


def _unique_key(name: str, expected: Any) -> Trait:
    if isinstance(expected, str):  # Too long a key is stored in short.
        expected = make_key(LiteralKey(expected), lambda: None, False, (), {})
    return _column(name, expected)


def _tags(name: str, expected: Any) -> Trait:
    if isinstance(expected, str):
        raise TypeError(f"tags is a list, such as [{expected!r}]")
    wanted = list(expected)
    return Trait(
        name, wanted, lambda job: job.tags, lambda job: all(tag in job.tags for tag in wanted)
    )


def _state(name: str, expected: Any) -> Trait:
    states = [expected] if isinstance(expected, str) else list(expected)
    return Trait(name, expected, lambda job: job.state, lambda job: job.state in states)


def _subject(name: str, expected: Any) -> Trait:
    try:
        subject = Subject.of(expected)
    except ValueError as error:
        raise ValueError(f"subject {error}") from None

    def actual(job: Job) -> Subject | None:
        return Subject(job.subject_type, job.subject_id or "") if job.subject_type else None

    return Trait(name, subject, actual, lambda job: actual(job) == subject)


def _run_after(name: str, expected: Any) -> Trait:
    if not isinstance(expected, datetime | timedelta):
        raise TypeError(f"run_after is a datetime or a timedelta, not {shown(expected)}")
    if isinstance(expected, datetime) and settings.USE_TZ and is_naive(expected):
        raise ValueError(f"run_after must be aware, as timezone.now() is, not {expected!r}")

    def actual(job: Job) -> Any:
        is_delay = isinstance(expected, timedelta)
        return job.run_after - job.enqueued_at if is_delay else job.run_after

    return Trait(
        name,
        expected,
        actual,
        lambda job: abs((actual(job) - expected).total_seconds()) <= _TOLERANCE,
    )


_OPTIONS: Mapping[str, Callable[[str, Any], Trait]] = {
    "unique_key": _unique_key,
    "tags": _tags,
    "state": _state,
    "subject": _subject,
    "run_after": _run_after,
}


def _asked(task: Task[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """By the names of the parameters, so that it does not matter how they were passed."""
    context = [None] * int(task.takes_context)
    try:
        call = signature(task.func).bind_partial(*context, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.module_path}{signature(task.func)}: {error}") from None
    return _spread(task, call.arguments)


def _arguments(task: Task[..., Any], job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """As they are stored, and as the task would get them."""
    stored = _named(task, job.args, job.kwargs)
    if not (isinstance(task, ClaimqTask) and task.typed):
        return stored, stored
    try:
        codec = codec_of(task.func, task.takes_context)
        args, kwargs = codec.decode(job.args, job.kwargs, missing_as_none=True)
    except (ClaimqError, TypeError, ValueError):  # Stored by other code.
        return stored, stored
    return stored, _named(task, args, kwargs)


def _named(task: Task[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        found = bound(task.func, task.takes_context, args, kwargs)
    except TypeError:  # Stored by other code.
        return {"args": args, "kwargs": kwargs}
    return _spread(task, found)


def _spread(task: Task[..., Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """With what **kwargs has taken by its own names, and *args by that of its parameter."""
    values: dict[str, Any] = {}
    for name, parameter in parameters(task.func, task.takes_context).items():
        if name not in found:
            continue
        if parameter.kind is Parameter.VAR_KEYWORD:
            values |= found[name]
        elif parameter.kind is not Parameter.VAR_POSITIONAL or found[name]:
            values[name] = found[name]
    return values


def _is_secret(task: Task[..., Any], name: str, job: Job | None) -> bool:
    own = tuple(task.sensitive) if isinstance(task, ClaimqTask) else ()
    secret = {*own, *sensitive_in(job.metadata if job is not None else None)}
    if not secret:
        return False
    known = parameters(task.func, task.takes_context)
    if name not in known and name in ("args", "kwargs"):
        return True  # They no longer fit the task.
    if name in known and known[name].kind is Parameter.VAR_POSITIONAL:
        return not secret <= known.keys() - {name}
    return name in secret


def _same(expected: Any, actual: Any) -> bool:
    return bool(expected == actual) or bool(_plain(expected) == _plain(actual))


def _plain(value: Any) -> Any:
    """With lists for tuples, as JSON has them."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
