"""The one reader of the settings: OPTIONS and the environment, into one frozen dataclass."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from django_claimq.backoff import Backoff, Exponential
from django_claimq.durations import humanise, shown
from django_claimq.option_parsers import (
    DAY,
    NOT_FROM_ENVIRONMENT,
    PARSERS,
    RETENTION,
    Problem,
    Refused,
    from_environment,
)
from django_claimq.scheduling import Declared

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
    #: Seconds between two heartbeats; below half of the lease, so that one may get lost. Where
    #: only a lease below 30 s is set, a third of it. Stale jobs are rescued in the same period.
    heartbeat: float = 10.0
    #: Whether workers rescue stale jobs, at start-up and continuously.
    recover_stale: bool = True
    #: Seconds between two looks for due jobs when nothing wakes the worker.
    poll_interval: float = 1.0
    #: Whether PostgreSQL's LISTEN wakes the worker, besides polling.
    listen: bool = True
    #: Alias in DATABASES to LISTEN on, where DATABASE goes through a transaction pooler that
    #: cannot; None for DATABASE itself.
    listen_database: str | None = None
    #: How many jobs one worker process runs on threads at the same time.
    concurrency: int = 4
    #: How many jobs of `async def` tasks it runs beside them; None for as many as CONCURRENCY.
    async_concurrency: int | None = None
    #: Seconds that running jobs have to finish when the worker is told to stop.
    shutdown_timeout: float = 25.0
    #: Seconds that code which ran past its timeout has to end by itself. Then the attempt is
    #: settled as timed out all the same, and the worker process is replaced.
    stop_grace: float = 10.0
    #: Seconds that a worker waits for a database that has gone away before it exits with 75.
    database_grace: float = 300.0
    #: Seconds that finished jobs are kept, per state; None keeps them for ever.
    retention: Mapping[str, float | None] = field(default_factory=lambda: dict(RETENTION))
    #: Seconds after a job was due until it is FAILED because no worker knows its task.
    unknown_task_grace: float = DAY
    #: The largest arguments of one job, in bytes of JSON.
    max_payload: int = 1_000_000
    #: The largest result of one job, in bytes of JSON.
    max_result: int = 1_000_000
    #: Recurring jobs, by their names.
    schedules: Mapping[str, Declared] = field(default_factory=dict)
    #: Names of arguments whose values are never shown.
    redact: tuple[str, ...] = ()
    #: Whether Django's admin has pages for the queue; off only if all backends say so.
    admin: bool = True

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
    sources = dict.fromkeys(map(str.upper, PARSERS), "default")
    for name, value, source in _given(raw, environ, problems):
        try:
            text = source != "OPTIONS"
            values[name] = _parse(name, from_environment(name, value) if text else value)
            sources[name.upper()] = source
        except Refused as refused:
            problems.append(refused.problem)
    if "lease" in values and "heartbeat" not in values:
        values["heartbeat"] = min(Options().heartbeat, values["lease"] / 3)
    options = _with_safe_heartbeat(Options(**values), problems)
    return Reading(options, tuple(problems), sources)


def _given(
    raw: object, environ: Mapping[str, str], problems: list[Problem]
) -> list[tuple[str, Any, str]]:
    """Name, value and source of all that is set, in rising order of precedence."""
    given = []
    if isinstance(raw, Mapping):
        for key, value in raw.items():
            if isinstance(key, str) and key.isupper() and key.lower() in PARSERS:
                given.append((key.lower(), value, "OPTIONS"))
            else:
                problems.append(_unknown(key))
    else:
        hint = 'Write "OPTIONS": {"MAX_ATTEMPTS": 5}.'
        problems.append(Problem("OPTIONS", f"OPTIONS is {shown(raw)}, not a dict.", hint))
    for name in PARSERS:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if name not in NOT_FROM_ENVIRONMENT and environ.get(variable):
            given.append((name, environ[variable], f"{variable} in the environment"))
    return given


def _unknown(key: object) -> Problem:
    known = [name.upper() for name in PARSERS]
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
    except Refused as refused:
        problems.append(refused.problem)
        return replace(options, heartbeat=options.lease / 3)
    return options


def _check_heartbeat(heartbeat: float, lease: float) -> None:
    if heartbeat >= lease / 2:
        message = f"HEARTBEAT {humanise(heartbeat)} is not below half of LEASE {humanise(lease)}."
        hint = f"Set HEARTBEAT to {humanise(lease / 3)}, or LEASE to {humanise(heartbeat * 3)}."
        raise Refused("HEARTBEAT", message, hint)


def _parse(name: str, value: object) -> Any:
    if name not in PARSERS:
        problem = _unknown(name)
        raise Refused(problem.option, problem.message, problem.hint)
    return PARSERS[name](name.upper(), value)
