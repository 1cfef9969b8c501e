"""`claimq cancel` and `claimq prune`."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any
from uuid import UUID

from django.db.models import Q

from django_claimq.conf import Options
from django_claimq.management.claimq.subcommand import Answer, Subcommand
from django_claimq.models import Job
from django_claimq.queueing.pruning import prune
from django_claimq.states import UNCLAIMED, State


def _add_ids(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", type=_job_id, metavar="ID")


def _cancel(options: Options, *, ids: list[UUID]) -> Answer:
    jobs = Job.objects.using(options.database)
    answers = {str(id): _cancel_one(jobs.filter(id=id)) for id in dict.fromkeys(ids)}
    text = "\n".join(f"{id} {answer}" for id, answer in answers.items())
    is_done = set(answers.values()) <= {"cancelled", "asked to stop"}
    return Answer(text, answers, 0 if is_done else 1)


def _prune(options: Options) -> Answer:
    pruned = prune(options.database, options.retention)
    return Answer(f"Pruned {pruned} finished jobs", {"pruned": pruned})


def _cancel_one(job: Any) -> str:
    if job.cancel():
        # A worker may have begun it since; what the row says now is the answer.
        running = job.filter(~Q(state__in=UNCLAIMED) & ~Q(state=State.CANCELLED)).exists()
        return "asked to stop" if running else "cancelled"
    row = job.values_list("state", "cancel_requested_at").first()
    if row is None:
        return "does not exist"
    state, requested_at = row
    if state == State.RUNNING and requested_at is not None:
        return "asked to stop"
    return f"is {state} already"


def _job_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not the id of a job") from None


SUBCOMMANDS = (
    Subcommand(
        "cancel", "End waiting jobs, ask running ones to stop, by their ids", _cancel, _add_ids
    ),
    Subcommand(
        "prune",
        "Delete finished jobs whose RETENTION is over, as workers do by themselves",
        _prune,
    ),
)
