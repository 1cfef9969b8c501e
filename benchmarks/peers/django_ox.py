"""django-ox: a backend of Django's Tasks framework on the ORM."""

from __future__ import annotations

from benchmarks.peers.base import Variant
from benchmarks.peers.django_peer import DjangoPeer

FLAGS = ["--concurrency=4", "--interval=0.1", "--verbosity=0"]


class DjangoOx(DjangoPeer):
    name = "django-ox"
    distributions = ("django-ox", "Django", "psycopg")
    apps = ("django_ox",)
    backend = "django_ox.backend.OxBackend"
    variants = {
        "tuned": Variant(
            "`ox_worker --concurrency 4 --interval 0.1 --verbosity 0`; CONN_MAX_AGE=None",
            jobs=2_500,
            options={"command": ["ox_worker", *FLAGS]},
        ),
    }
    remaining_sql = "SELECT count(*) FROM django_ox_oxtask WHERE status IN ('READY', 'RUNNING')"

    def enqueue(self, number: int) -> None:
        from benchmarks.jobs.django_tasks import noop

        noop.enqueue(number)

    def bulk(self, count: int, start: int = 0) -> None:
        from django_ox.bulk import enqueue_many

        from benchmarks.jobs.django_tasks import noop

        enqueue_many(noop, [((number,), {}) for number in range(start, start + count)])
