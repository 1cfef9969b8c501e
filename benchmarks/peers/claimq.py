"""django-claimq itself, with the settings that it comes with."""

from __future__ import annotations

import sys

from benchmarks.peers.base import Variant
from benchmarks.peers.django_peer import DjangoPeer

# What there are to make jobs of: enough for --scale 10.
_ROWS = 1_100_000


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
        "from": Variant(
            "`enqueue_from` a table of numbers, beside the calls for many",
            jobs=1_000,
            measures=frozenset({"bulk"}),
        ),
        "bulk_create": Variant(
            "the same rows by a bare `Job.objects.bulk_create`, 1,000 at a time",
            jobs=1_000,
            measures=frozenset({"bulk"}),
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

    def prepare(self) -> None:
        super().prepare()
        if self.context.variant == "from":
            from benchmarks.jobs.rows import fill

            fill(_ROWS)

    def enqueue(self, number: int) -> None:
        from benchmarks.jobs.claimq import noop

        if self.context.variant == "create":
            from django_claimq.models import Job

            Job.objects.create(task=noop.module_path, args=[number], kwargs={})
        else:
            noop.enqueue(number)

    def bulk(self, count: int, start: int = 0) -> None:
        from benchmarks.jobs.claimq import noop
        from django_claimq import enqueue_from, enqueue_many

        numbers = range(start, start + count)
        if self.context.variant == "from":
            from benchmarks.jobs.rows import Row

            rows = Row.objects.filter(number__gte=start, number__lt=start + count)
            assert enqueue_from(noop, rows, ["number"]) == count
        elif self.context.variant == "bulk_create":
            from django_claimq.models import Job

            jobs = [Job(task=noop.module_path, args=[number], kwargs={}) for number in numbers]
            Job.objects.bulk_create(jobs, batch_size=1_000)
        else:
            enqueue_many([(noop, (number,), {}) for number in numbers])

    def worker_commands(self) -> list[list[str]]:
        flags = [f"--processes={self.context.processes}", *self.variant.options.get("flags", ())]
        return [[sys.executable, "-m", "django", "claimq_worker", *flags]]
