"""django-claimq itself, with the settings that it comes with."""

from __future__ import annotations

import sys

from benchmarks.peers.base import Variant
from benchmarks.peers.django_peer import DjangoPeer


class Claimq(DjangoPeer):
    name = "claimq"
    distributions = ("django-claimq", "Django", "psycopg")
    apps = ("django_claimq",)
    backend = "django_claimq.backend.ClaimqBackend"
    variants = {
        "default": Variant(
            "`claimq_worker --processes N` as it comes, signals on, its log in a file; "
            "CONN_MAX_AGE=None",
            jobs=100_000,
            bulk_jobs=100_000,
        ),
        "quiet": Variant(
            "as the default, but `--verbosity 0`: no lines for jobs",
            jobs=100_000,
            measures=frozenset({"drain"}),
            processes=(1, 2),
            options={"flags": ["--verbosity=0"]},
        ),
        "create": Variant(
            "the same row by a bare `Job.objects.create`, to compare the enqueue with",
            jobs=1_000,
            measures=frozenset({"enqueue"}),
        ),
        "sqlite": Variant(
            "as the default, on SQLite (WAL, synchronous=NORMAL, IMMEDIATE)",
            jobs=10_000,
            store="sqlite",
            measures=frozenset({"drain"}),
            processes=(1, 2),
        ),
    }
    remaining_sql = (
        "SELECT count(*) FROM claimq_job "
        "WHERE state IN ('SCHEDULED', 'READY', 'RUNNING', 'WAITING')"
    )

    def enqueue(self, number: int) -> None:
        from benchmarks.jobs.claimq import noop

        if self.context.variant == "create":
            from django_claimq.models import Job

            Job.objects.create(task=noop.module_path, args=[number], kwargs={})
        else:
            noop.enqueue(number)

    def bulk(self, count: int, start: int = 0) -> None:
        from benchmarks.jobs.claimq import noop
        from django_claimq import enqueue_many

        enqueue_many([(noop, (number,), {}) for number in range(start, start + count)])

    def worker_commands(self) -> list[list[str]]:
        flags = [f"--processes={self.context.processes}", *self.variant.options.get("flags", ())]
        return [[sys.executable, "-m", "django", "claimq_worker", *flags]]
