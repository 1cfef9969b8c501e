"""One parser for each kind of option; `conf` puts them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from django_claimq import durations, scheduling
from django_claimq.backoff import Backoff
from django_claimq.durations import shown
from django_claimq.scheduling import Declared

DAY = 86_400.0
RETENTION: Mapping[str, float | None] = {
    "successful": 7 * DAY,
    "cancelled": 7 * DAY,
    "failed": 30 * DAY,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in the settings.

    `option` is the key as written, `message` what is wrong, `hint` what to write instead.
    """

    option: str
    message: str
    hint: str


class Refused(ValueError):
    """A value that does not hold; the message says what is wrong and what to write instead."""

    def __init__(self, option: str, message: str, hint: str) -> None:
        super().__init__(f"{message} {hint}")
        self.problem = Problem(option, message, hint)


# (option as written, value) to value; raises Refused.
Parser = Callable[[str, Any], Any]


def _database(option: str, value: object) -> str:
    if isinstance(value, str) and value in settings.DATABASES:
        return value
    aliases = ", ".join(map(repr, settings.DATABASES))
    message = f"{option} is {shown(value)}, which is no alias in DATABASES."
    raise Refused(option, message, f"Write one of {aliases}.")


def _database_or_none(option: str, value: object) -> str | None:
    return None if value is None else _database(option, value)


_MOST = 32_767  # what a small integer column holds


def _count(option: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST:
        return value
    message = f"{option} is {shown(value)}, not a whole number from 1 to {_MOST}."
    raise Refused(option, message, "Write a number such as 4.")


def _count_or_none(option: str, value: object) -> int | None:
    return None if value is None else _count(option, value)


def _switch(option: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    message = f"{option} is {shown(value)}, which is neither yes nor no."
    raise Refused(option, message, "Write True or False (in the environment 1 or 0).")


def _duration(option: str, value: object) -> float:
    try:
        return durations.seconds(value)
    except ValueError:
        message = f"{option} is {shown(value)}, not a duration."
        raise Refused(option, message, f"Write {durations.DURATION_FORMS}.") from None


def _positive_duration(option: str, value: object) -> float:
    if result := _duration(option, value):
        return result
    message = f"{option} is {shown(value)}, it must be more than 0."
    raise Refused(option, message, f"Write {durations.DURATION_FORMS}.")


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
    raise Refused(option, message, f"Write {durations.SIZE_FORMS}.")


def _backoff(option: str, value: object) -> Backoff:
    hint = "Write Exponential(), Linear(...), Steps([...]), a function, or a dotted path to one."
    if isinstance(value, str):
        try:
            value = import_string(value)
        except Exception as error:  # importing runs foreign code
            message = f"{option} {shown(value)} cannot be imported: {error}."
            raise Refused(option, message, hint) from error
    if isinstance(value, type):
        message = f"{option} is the class {value.__qualname__}, not an object made of it."
        raise Refused(option, message, hint)
    if callable(value):
        return value
    raise Refused(option, f"{option} is {shown(value)}, which cannot be called.", hint)


def _retention(option: str, value: object) -> dict[str, float | None]:
    result: dict[str, float | None] = dict(RETENTION)
    if not isinstance(value, Mapping):
        hint = 'Write {"successful": "7d", "cancelled": "7d", "failed": "30d"}.'
        raise Refused(option, f"{option} is {shown(value)}, not a dict.", hint)
    for state, kept in value.items():
        if state not in result:
            hint = f"The states are {', '.join(result)}."
            raise Refused(option, f"{option} has no state {shown(state)}.", hint)
        result[state] = None if kept is None else _duration(option, kept)
    return result


_SCHEDULE = '{"clean up": {"task": "shop.tasks.clean", "cron": "30 4 * * *"}}'


def _schedules(option: str, value: object) -> dict[str, Declared]:
    hint = f"Write {_SCHEDULE}."
    if not isinstance(value, Mapping):
        raise Refused(option, f"{option} is {shown(value)}, not a dict.", hint)
    made = {}
    for name, values in value.items():
        if not isinstance(name, str) or not isinstance(values, Mapping):
            raise Refused(option, f"{option}[{shown(name)}] is {shown(values)}, not a dict.", hint)
        try:
            made[name] = scheduling.parse({"name": name, "task": None, **values})
        except ValueError as error:
            raise Refused(option, f"{option}: {error}", hint) from None
    return made


def _redact(option: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    message = f"{option} is {shown(value)}, not a list of argument names."
    raise Refused(option, message, 'Write a list such as ["password", "token"].')


PARSERS: dict[str, Parser] = {
    "database": _database,
    "max_attempts": _count,
    "backoff": _backoff,
    "timeout": _duration_or_none,
    "lease": _positive_duration,
    "heartbeat": _positive_duration,
    "recover_stale": _switch,
    "poll_interval": _positive_duration,
    "listen": _switch,
    "listen_database": _database_or_none,
    "concurrency": _count,
    "async_concurrency": _count_or_none,
    "shutdown_timeout": _duration,
    "stop_grace": _duration,
    "database_grace": _positive_duration,
    "retention": _retention,
    "unknown_task_grace": _duration,
    "max_payload": _size,
    "max_result": _size,
    "schedules": _schedules,
    "redact": _redact,
    "admin": _switch,
}
NOT_FROM_ENVIRONMENT = {"retention", "schedules", "redact"}


# From the environment everything is text.

_WORDS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def from_environment(name: str, text: str) -> object:
    """Turn the text of a variable into what the option's parser takes."""
    parser, word = PARSERS[name], text.strip().lower()
    if parser is _switch:
        return _WORDS.get(word, text)
    if parser in (_count, _count_or_none):
        return int(word) if word.isdecimal() and len(word) < 20 else text
    if name == "timeout" and word == "none":
        return None
    return text
