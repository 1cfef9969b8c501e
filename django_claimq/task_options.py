"""The options of a task: what each may be, and what contradicts what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal, TypedDict, get_args

from django_claimq.backoff import Backoff
from django_claimq.durations import Duration, seconds, size
from django_claimq.keys import KeyMaker, LiteralKey, check_key_maker, names_in
from django_claimq.signatures import Parameter, accepts, parameters
from django_claimq.subjects import Subject

MAX_ATTEMPTS_LIMIT = 32_767
LEAST_MEMORY = 64_000_000
# Seconds that fit into the column: 68 years.
_LONGEST_RETENTION = 2_147_483_647

OnCrash = Literal["retry", "fail"]
OnConflict = Literal["return", "raise", "replace"]
OnMissing = Literal["fail", "cancel", "none"]
OnSubjectDelete = Literal["keep", "cancel"]
#: Called with the version of a stored payload, its args and its kwargs; answers both as the
#: task takes them now.
Upcast = Callable[[int, list[Any], dict[str, Any]], tuple[Sequence[Any], dict[str, Any]]]


class Unset(Enum):
    UNSET = "the backend's default"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


class TaskOptions(TypedDict, total=False):
    """What `task` takes beyond Django's own; `ClaimqTask` explains each."""

    max_attempts: int | None
    backoff: Backoff | None
    retry_on: Sequence[type[BaseException]] | type[BaseException]
    fail_on: Sequence[type[BaseException]] | type[BaseException]
    on_crash: OnCrash
    timeout: Duration | Unset | None
    isolate: bool
    memory_limit: int | str | None
    atomic: bool
    expires: Duration | None
    unique_key: KeyMaker | None
    on_conflict: OnConflict
    unique_for: Duration | None
    typed: bool
    on_missing: OnMissing
    version: int
    upcast: Upcast | None
    sensitive: Sequence[str]
    on_subject_delete: OnSubjectDelete
    retention: Duration | Unset | None
    tags: Sequence[str]


def parse(task: Any, name: str, value: Any) -> Any:
    """The value of an option as the task keeps it. Raises ValueError, to follow its name."""
    return _PARSERS[name](task, value)


def contradiction(task: Any) -> tuple[str, str] | None:
    """The option, and why it does not go with another one; None if all go together."""
    for option, holds, problem in _RULES:
        if not holds(task):
            return option, problem(task)
    return None


def _max_attempts(task: Any, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a whole number from 1, not {value!r}")
    if value > MAX_ATTEMPTS_LIMIT:
        raise ValueError(f"must be at most {MAX_ATTEMPTS_LIMIT}, not {value}")
    return value


def _backoff(task: Any, value: Any) -> Any:
    if not callable(value):
        raise ValueError(f"must be callable as Exponential() is, not {value!r}")
    return value


def _exceptions(task: Any, value: Any) -> tuple[type[BaseException], ...]:
    classes = (value,) if isinstance(value, type) else value
    if not isinstance(classes, list | tuple | set | frozenset):
        raise ValueError(f"must be a list of exception classes, not {value!r}")
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise ValueError(f"{one!r} is no exception class")
    return tuple(classes)


def _switch(task: Any, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be True or False, not {value!r}")
    return value


def _one_of(choices: Any) -> Callable[[Any, Any], Any]:
    words = get_args(choices)

    def parse(task: Any, value: Any) -> Any:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(map(repr, words))}, not {value!r}")
        return value

    return parse


def _timeout(task: Any, value: Any) -> Any:
    if value is None:
        return None
    if (limit := seconds(value)) == 0:
        raise ValueError("must be longer than 0; None means no limit")
    return limit


def _memory_limit(task: Any, value: Any) -> int:
    if (limit := size(value)) < LEAST_MEMORY:
        raise ValueError(f"must be at least 64MB, what Python and Django need; not {value!r}")
    return limit


def _period(task: Any, value: Any) -> float:
    if (period := seconds(value)) == 0:
        raise ValueError("must be longer than 0")
    return period


def _expires(task: Any, value: Any) -> Any:
    return value if isinstance(value, datetime) else _period(task, value)


def _retention(task: Any, value: Any) -> Any:
    return None if value is None else min(int(seconds(value)), _LONGEST_RETENTION)


def _unique_key(task: Any, value: Any) -> Any:
    check_key_maker(task.func, task.takes_context, value)
    return value


def _version(task: Any, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a whole number from 1, not {value!r}")
    return value


def _upcast(task: Any, value: Any) -> Any:
    if not callable(value):
        raise ValueError(f"must be a function of (version, args, kwargs), not {value!r}")
    return value


def _names(task: Any, value: Any) -> tuple[str, ...]:
    names = _texts(task, value)
    for name in names:
        if not accepts(task.func, task.takes_context, name):
            raise ValueError(f"{name!r} is no argument of the task")
        parameter = parameters(task.func, task.takes_context).get(name)
        if parameter is not None and parameter.kind is Parameter.VAR_KEYWORD:
            raise ValueError(f"{name!r} takes any keywords: name those that are sensitive")
    return names


def _texts(task: Any, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"must be a list of strings, not {value!r}")
    return tuple(value)


def _subject(task: Any, value: Any) -> Subject:
    return Subject.of(value)


_PARSERS: dict[str, Callable[[Any, Any], Any]] = {
    "max_attempts": _max_attempts,
    "backoff": _backoff,
    "retry_on": _exceptions,
    "fail_on": _exceptions,
    "on_crash": _one_of(OnCrash),
    "timeout": _timeout,
    "isolate": _switch,
    "memory_limit": _memory_limit,
    "atomic": _switch,
    "expires": _expires,
    "unique_key": _unique_key,
    "on_conflict": _one_of(OnConflict),
    "unique_for": _period,
    "typed": _switch,
    "on_missing": _one_of(OnMissing),
    "version": _version,
    "upcast": _upcast,
    "sensitive": _names,
    "subject": _subject,
    "on_subject_delete": _one_of(OnSubjectDelete),
    "retention": _retention,
    "tags": _texts,
}


def _in_both(task: Any) -> set[type]:
    return {*task.retry_on} & {*task.fail_on}


# (option, whether it goes with the others, what is wrong if not)
_RULES: tuple[tuple[str, Callable[[Any], bool], Callable[[Any], str]], ...] = (
    (
        "memory_limit",
        lambda task: task.memory_limit is None or task.isolate,
        lambda task: "needs isolate=True, a process to be limited",
    ),
    (
        "fail_on",
        lambda task: not _in_both(task),
        lambda task: (
            f"{', '.join(sorted(one.__name__ for one in _in_both(task)))} is in retry_on too: "
            "leave it in one of them"
        ),
    ),
    (
        "retry_on",
        lambda task: task.max_attempts != 1 or not task.retry_on,
        lambda task: "max_attempts=1 leaves nothing to retry: raise it, or leave retry_on out",
    ),
    (
        "unique_for",
        lambda task: task.unique_for is None or task.on_conflict != "replace",
        lambda task: (
            "drops what comes within the period, on_conflict='replace' takes it instead: "
            "leave one of them out"
        ),
    ),
    (
        "unique_key",
        lambda task: not {*task.sensitive} & {*names_in(task.unique_key)},
        lambda task: (
            "would show a sensitive argument: make it with a function that answers a hash of it"
        ),
    ),
    (
        "version",
        lambda task: task.version == 1 or task.upcast is not None,
        lambda task: (
            "jobs of older versions may be stored: say with upcast=... what becomes of theirs"
        ),
    ),
    (
        "upcast",
        lambda task: task.upcast is None or task.version > 1,
        lambda task: "is only called for versions before that of the task: say version=2",
    ),
    (
        "on_missing",
        lambda task: task.on_missing == "fail" or task.typed,
        lambda task: "is about rows among typed arguments: say typed=True",
    ),
)

__all__ = [
    "UNSET",
    "LiteralKey",
    "OnConflict",
    "OnCrash",
    "OnMissing",
    "OnSubjectDelete",
    "TaskOptions",
    "Unset",
    "Upcast",
    "contradiction",
    "parse",
]
