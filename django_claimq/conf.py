"""The one reader of the settings: OPTIONS and the environment, into one frozen dataclass."""

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from django.conf import settings
from django.utils.module_loading import import_string

from django_claimq import durations
from django_claimq.backoff import Backoff, Exponential
from django_claimq.durations import humanise, shown

DAY = 86_400.0
ENVIRONMENT_PREFIX = "CLAIMQ_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of one queue. Durations are seconds, sizes are bytes."""

    #: Alias in DATABASES that holds the queue's tables.
    database: str = "default"
    #: How often a job is run before it is FAILED, unless its task says otherwise.
    max_attempts: int = 3
    #: How long to wait before the next attempt, unless the task says otherwise.
    backoff: Backoff = field(default_factory=Exponential)
    #: The absolute limit of one attempt, in seconds; None for no limit.
    timeout: float | None = 1800.0
    #: How long a claim lasts without a heartbeat, in seconds. A dead worker's jobs wait this long.
    lease: float = 30.0
    #: Seconds between two heartbeats; below half of the lease, so that one may get lost.
    heartbeat: float = 10.0
    #: Whether a worker with a fixed id rescues stale jobs before it starts.
    recover_stale: bool = True
    #: Seconds between two looks for due jobs when nothing wakes the worker.
    poll_interval: float = 1.0
    #: Whether PostgreSQL's LISTEN wakes the worker, besides polling.
    listen: bool = True
    #: How many jobs one worker process runs at the same time.
    concurrency: int = 4
    #: Seconds that running jobs have to finish when the worker is told to stop.
    shutdown_timeout: float = 25.0
    #: Seconds that finished jobs are kept, per state; None keeps them for ever.
    retention: Mapping[str, float | None] = field(
        default_factory=lambda: {"successful": 7 * DAY, "cancelled": 7 * DAY, "failed": 30 * DAY}
    )
    #: Seconds after a job was due until it is FAILED because no worker knows its task.
    unknown_task_grace: float = DAY
    #: The largest arguments of one job, in bytes of JSON.
    max_payload: int = 1_000_000
    #: The largest result of one job, in bytes of JSON.
    max_result: int = 1_000_000
    #: Recurring jobs: name to definition.
    schedules: Mapping[str, Any] = field(default_factory=dict)
    #: Names of arguments whose values are never shown.
    redact: tuple[str, ...] = ()

    def override(self, **changes: Any) -> Self:
        """Return a copy with other values, as the command line gives them.

        Parameters:
            changes: option names in lower case; None leaves an option as it is.

        Raises ValueError, naming the option, for an unknown name or a value that does not hold.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        parsed = {name: _parse(name, value) for name, value in given.items()}
        result = replace(self, **parsed)
        _check_heartbeat(result.heartbeat, result.lease)
        return result


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in the settings.

    `option` is the key as written, `message` what is wrong, `hint` what to write instead.
    """

    option: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What the settings say.

    `options` has defaults in place of values that do not hold, `problems` lists these, `sources`
    tells for every option ("LEASE") where its value is from: "default", "OPTIONS" or
    "CLAIMQ_LEASE in the environment".
    """

    options: Options
    problems: tuple[Problem, ...]
    sources: Mapping[str, str]


def read(raw: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Reading:
    """Read the settings of one queue; the environment goes before OPTIONS.

    Parameters:
        raw: TASKS[alias]["OPTIONS"].
        environ: the environment variables; CLAIMQ_LEASE and so on. An empty one counts as unset.

    Never raises for content: what is wrong is in the answer's `problems`.
    """
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    sources = dict.fromkeys(map(str.upper, _PARSERS), "default")
    for name, value, source in _given(raw, environ, problems):
        try:
            text = source != "OPTIONS"
            values[name] = _parse(name, _from_environment(name, value) if text else value)
            sources[name.upper()] = source
        except _Refused as refused:
            problems.append(refused.problem)
    options = _with_safe_heartbeat(Options(**values), problems)
    return Reading(options, tuple(problems), sources)


class _Refused(ValueError):
    """A value that does not hold; the message says what is wrong and what to write instead."""

    def __init__(self, option: str, message: str, hint: str) -> None:
        super().__init__(f"{message} {hint}")
        self.problem = Problem(option, message, hint)


def _given(
    raw: object, environ: Mapping[str, str], problems: list[Problem]
) -> list[tuple[str, Any, str]]:
    """Name, value and source of all that is set, in rising order of precedence."""
    given = []
    if isinstance(raw, Mapping):
        for key, value in raw.items():
            if isinstance(key, str) and key.isupper() and key.lower() in _PARSERS:
                given.append((key.lower(), value, "OPTIONS"))
            else:
                problems.append(_unknown(key))
    else:
        hint = 'Write "OPTIONS": {"MAX_ATTEMPTS": 5}.'
        problems.append(Problem("OPTIONS", f"OPTIONS is {shown(raw)}, not a dict.", hint))
    for name in _PARSERS:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if name not in _NOT_FROM_ENVIRONMENT and environ.get(variable):
            given.append((name, environ[variable], f"{variable} in the environment"))
    return given


def _unknown(key: object) -> Problem:
    known = [name.upper() for name in _PARSERS]
    option = key if isinstance(key, str) else shown(key)
    if option.upper() in known:
        hint = f"Write it in upper case: {option.upper()}."
    elif near := difflib.get_close_matches(option.upper(), known, n=1):
        hint = f"Did you mean {near[0]}?"
    else:
        hint = f"The options are {', '.join(known)}."
    return Problem(option, f"OPTIONS has no option {option}.", hint)


def _with_safe_heartbeat(options: Options, problems: list[Problem]) -> Options:
    try:
        _check_heartbeat(options.heartbeat, options.lease)
    except _Refused as refused:
        problems.append(refused.problem)
        return replace(options, heartbeat=options.lease / 3)
    return options


def _check_heartbeat(heartbeat: float, lease: float) -> None:
    if heartbeat >= lease / 2:
        message = f"HEARTBEAT {humanise(heartbeat)} is not below half of LEASE {humanise(lease)}."
        hint = f"Set HEARTBEAT to {humanise(lease / 3)}, or LEASE to {humanise(heartbeat * 3)}."
        raise _Refused("HEARTBEAT", message, hint)


def _parse(name: str, value: object) -> Any:
    if name not in _PARSERS:
        problem = _unknown(name)
        raise _Refused(problem.option, problem.message, problem.hint)
    return _PARSERS[name](name.upper(), value)


# From the environment everything is text.

_WORDS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _from_environment(name: str, text: str) -> object:
    parser, word = _PARSERS[name], text.strip().lower()
    if parser is _switch:
        return _WORDS.get(word, text)
    if parser is _count:
        return int(word) if word.isdecimal() and len(word) < 20 else text
    if name == "timeout" and word == "none":
        return None
    return text


# One parser per kind of option: (option as written, value) to value, raises _Refused.

_Parser = Callable[[str, Any], Any]


def _database(option: str, value: object) -> str:
    if isinstance(value, str) and value in settings.DATABASES:
        return value
    aliases = ", ".join(map(repr, settings.DATABASES))
    message = f"{option} is {shown(value)}, which is no alias in DATABASES."
    raise _Refused(option, message, f"Write one of {aliases}.")


_MOST = 32_767  # what a small integer column holds


def _count(option: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST:
        return value
    message = f"{option} is {shown(value)}, not a whole number from 1 to {_MOST}."
    raise _Refused(option, message, "Write a number such as 4.")


def _switch(option: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    message = f"{option} is {shown(value)}, which is neither yes nor no."
    raise _Refused(option, message, "Write True or False (in the environment 1 or 0).")


def _duration(option: str, value: object) -> float:
    try:
        return durations.seconds(value)
    except ValueError:
        message = f"{option} is {shown(value)}, not a duration."
        raise _Refused(option, message, f"Write {durations.DURATION_FORMS}.") from None


def _positive_duration(option: str, value: object) -> float:
    if result := _duration(option, value):
        return result
    message = f"{option} is {shown(value)}, it must be more than 0."
    raise _Refused(option, message, f"Write {durations.DURATION_FORMS}.")


def _duration_or_none(option: str, value: object) -> float | None:
    return None if value is None else _positive_duration(option, value)


def _size(option: str, value: object) -> int:
    try:
        result = durations.size(value)
    except ValueError:
        result = 0
    if result:
        return result
    message = f"{option} is {shown(value)}, not a size of at least 1 byte."
    raise _Refused(option, message, f"Write {durations.SIZE_FORMS}.")


def _backoff(option: str, value: object) -> Backoff:
    hint = "Write Exponential(), Linear(...), Steps([...]), a function, or a dotted path to one."
    if isinstance(value, str):
        try:
            value = import_string(value)
        except Exception as error:  # importing runs foreign code
            message = f"{option} {shown(value)} cannot be imported: {error}."
            raise _Refused(option, message, hint) from error
    if isinstance(value, type):
        message = f"{option} is the class {value.__qualname__}, not an object made of it."
        raise _Refused(option, message, hint)
    if callable(value):
        return value
    raise _Refused(option, f"{option} is {shown(value)}, which cannot be called.", hint)


def _retention(option: str, value: object) -> dict[str, float | None]:
    result: dict[str, float | None] = dict(Options().retention)
    if not isinstance(value, Mapping):
        hint = 'Write {"successful": "7d", "cancelled": "7d", "failed": "30d"}.'
        raise _Refused(option, f"{option} is {shown(value)}, not a dict.", hint)
    for state, kept in value.items():
        if state not in result:
            hint = f"The states are {', '.join(result)}."
            raise _Refused(option, f"{option} has no state {shown(state)}.", hint)
        result[state] = None if kept is None else _duration(option, kept)
    return result


def _schedules(option: str, value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    hint = 'Write {"name of the schedule": {...}}.'
    raise _Refused(option, f"{option} is {shown(value)}, not a dict.", hint)


def _redact(option: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    message = f"{option} is {shown(value)}, not a list of argument names."
    raise _Refused(option, message, 'Write a list such as ["password", "token"].')


_PARSERS: dict[str, _Parser] = {
    "database": _database,
    "max_attempts": _count,
    "backoff": _backoff,
    "timeout": _duration_or_none,
    "lease": _positive_duration,
    "heartbeat": _positive_duration,
    "recover_stale": _switch,
    "poll_interval": _positive_duration,
    "listen": _switch,
    "concurrency": _count,
    "shutdown_timeout": _duration,
    "retention": _retention,
    "unknown_task_grace": _duration,
    "max_payload": _size,
    "max_result": _size,
    "schedules": _schedules,
    "redact": _redact,
}
_NOT_FROM_ENVIRONMENT = {"retention", "schedules", "redact"}
