from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from django_claimq.flags import BadFlags, config_for
from django_claimq.models import Job
from django_claimq.queueing.pruning import prune
from django_claimq.states import UNCLAIMED, State


class Command(BaseCommand):
    help = "Look after the jobs from the command line."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
        cancel = commands.add_parser(
            "cancel", help="End waiting jobs, ask running ones to stop, by their ids"
        )
        cancel.add_argument("ids", nargs="+", type=_job_id, metavar="ID")
        prune = commands.add_parser(
            "prune",
            help="Delete finished jobs whose RETENTION is over, as workers do by themselves",
        )
        for parser in (cancel, prune):
            parser.add_argument("--backend", default="default", help="Alias in TASKS")
            parser.add_argument("--format", choices=["text", "json"], default="text")

    def handle(self, *, command: str, **flags: Any) -> None:
        try:
            getattr(self, f"_{command}")(**flags)
        except BadFlags as error:
            raise CommandError(str(error), returncode=2) from None

    def _cancel(self, *, ids: list[UUID], backend: str, format: str, **flags: Any) -> None:
        jobs = Job.objects.using(config_for(backend).database)
        answers = {str(id): _cancel_one(jobs.filter(id=id)) for id in dict.fromkeys(ids)}
        if format == "json":
            self.stdout.write(json.dumps(answers, indent=2))
        else:
            for id, answer in answers.items():
                self.stdout.write(f"{id} {answer}")
        if not set(answers.values()) <= {"cancelled", "asked to stop"}:
            raise SystemExit(1)

    def _prune(self, *, backend: str, format: str, **flags: Any) -> None:
        options = config_for(backend)
        pruned = prune(options.database, options.retention)
        text = (
            json.dumps({"pruned": pruned}) if format == "json" else f"Pruned {pruned} finished jobs"
        )
        self.stdout.write(text)


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
