"""`claimq import-schedules`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from django.db import connections

from django_claimq import scheduling
from django_claimq.arguments import bind, encode_arguments
from django_claimq.compat import InvalidTask, InvalidTaskBackend, Task
from django_claimq.conf import Options
from django_claimq.durations import shown
from django_claimq.exceptions import ClaimqError
from django_claimq.lookup import find_task
from django_claimq.management.claimq import celery_beat, django_q2
from django_claimq.management.claimq.foreign import Foreign
from django_claimq.management.claimq.subcommand import Answer, Subcommand
from django_claimq.models import Schedule
from django_claimq.queueing import firing, schedules

_SOURCES: dict[str, Any] = {"celery-beat": celery_beat, "django-q2": django_q2}
# What is the matter with one schedule; the others are imported.
_REFUSALS = (ClaimqError, InvalidTask, InvalidTaskBackend, ValueError, TypeError, OverflowError)


class _Names(NamedTuple):
    """What tasks and queues are called here, by what they are called there."""

    tasks: Mapping[str, str]
    queues: Mapping[str, str]


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--from", dest="source", required=True, choices=sorted(_SOURCES))
    parser.add_argument(
        "--map",
        dest="tasks",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="The task to enqueue instead of OLD; @FILE for a file of such lines",
    )
    parser.add_argument(
        "--map-queue",
        dest="queues",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="The same for queues",
    )
    parser.add_argument("--database", metavar="ALIAS", help="Where their tables are")
    parser.add_argument("--disabled", action="store_true", help="Leave all of them turned off")
    parser.add_argument("--dry-run", action="store_true", help="Only show what would be done")


def _import_schedules(
    options: Options,
    *,
    source: str,
    tasks: Sequence[str],
    queues: Sequence[str],
    database: str | None,
    disabled: bool,
    dry_run: bool,
) -> Answer:
    names = _Names(_mapping("--map", tasks), _mapping("--map-queue", queues))
    scheduling.discover()
    scheduling.all_declared(options.schedules)
    there = set(Schedule.objects.using(options.database).values_list("name", flat=True))
    found = []
    for name, convert in _found(source, database or options.database):
        told: dict[str, Any] = {"name": name, "outcome": "there already"}
        if name not in there:
            try:
                foreign = convert()
                schedule = _converted(options, foreign, names)
                schedule.enabled = foreign.enabled and not disabled
                told |= _told(foreign, schedule, dry_run=dry_run)
                if not dry_run:
                    schedules.changed(options.database, schedule)
                there.add(name)
            except _REFUSALS as error:
                told |= {"outcome": "refused", "why": str(error)}
        found.append(told)
    refused = any(told["outcome"] == "refused" for told in found)
    text = "\n".join(map(_as_text, found)) or "There are no schedules to import."
    return Answer(text, found, int(refused))


def _found(source: str, using: str) -> Iterator[tuple[str, Callable[[], Foreign]]]:
    program = _SOURCES[source]
    if using not in connections:
        raise ValueError(f"--database {using}: that is none of {', '.join(connections)}")
    for row in program.read(using):
        yield program.name_of(row), partial(program.convert, using, row)


def _converted(options: Options, foreign: Foreign, names: _Names) -> Schedule:
    """The row that it becomes. Raises what a wrong call raises, and ValueError."""
    path = names.tasks.get(foreign.task, foreign.task)
    if path not in scheduling.allowed_paths():
        raise ValueError(
            f"no task {path} is declared as schedulable: put @schedulable above its @task, or "
            f"name the one to enqueue by --map {foreign.task}=shop.tasks.clean"
        )
    task = find_task(path)
    values = {**foreign.values, "queue_name": _queue(task, foreign.values["queue_name"], names)}
    one = scheduling.parse({"name": foreign.name, "task": path, **values})
    schedule = schedules.row_of(options.database, task.backend, one)
    firing.task_of(options.database, schedule)
    positions = bind(task, one.args, one.kwargs)
    encode_arguments(
        one.args, dict(one.kwargs), task=path, names=positions, limit=options.max_payload
    )
    if one.recurrence.after(datetime.now(UTC)) is None:
        raise ValueError("its last time has passed: there is nothing to import")
    return schedule


def _queue(task: Task[..., Any], theirs: str | None, names: _Names) -> str | None:
    queue = names.queues.get(theirs, theirs) if theirs else None
    known = sorted(task.get_backend().queues)
    if queue and known and queue not in known:
        raise ValueError(
            f"its queue {queue!r} is not in QUEUES: add it there, or name another by "
            f"--map-queue {theirs}={known[0]}"
        )
    return queue


def _told(foreign: Foreign, schedule: Schedule, *, dry_run: bool) -> dict[str, Any]:
    return {
        "outcome": "would be imported" if dry_run else "imported",
        "task": schedule.task,
        "when": schedule.recurrence.explain(),
        "enabled": schedule.enabled,
        "left_out": list(foreign.left_out),
    }


def _as_text(told: Mapping[str, Any]) -> str:
    head = f"{shown(told['name'])} {told['outcome']}"
    if told["outcome"] == "refused":
        return f"{head}: {told['why']}"
    if told["outcome"] == "there already":
        return head
    off = "" if told["enabled"] else ", turned off"
    left_out = f"\n    without its {', '.join(told['left_out'])}" if told["left_out"] else ""
    return f"{head}{off}\n    {told['when']}: {told['task']}{left_out}"


def _mapping(flag: str, pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in _lines(flag, pairs):
        old, equals, new = (part.strip() for part in pair.partition("="))
        if not (old and equals and new):
            raise ValueError(f"{flag} {pair}: write OLD=NEW")
        found[old] = new
    return found


def _lines(flag: str, pairs: Sequence[str]) -> Iterator[str]:
    for pair in pairs:
        if not pair.startswith("@"):
            yield pair
            continue
        try:
            lines = Path(pair[1:]).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{flag} {pair} cannot be read: {error}") from None
        yield from (line for line in lines if line.strip() and not line.startswith("#"))


SUBCOMMANDS = (
    Subcommand(
        "import-schedules",
        "Make schedules of those of django-celery-beat or django-q2",
        _import_schedules,
        _add_arguments,
    ),
)
