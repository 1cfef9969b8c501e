"""django-tasks-db: the database backend by the author of Django's Tasks framework."""

from __future__ import annotations

from benchmarks.peers.base import Variant
from benchmarks.peers.django_peer import DjangoPeer

TUNED = {"command": ["db_worker", "--interval=0.1", "--verbosity=0"]}


class DjangoTasksDb(DjangoPeer):
    name = "django-tasks-db"
    distributions = ("django-tasks-db", "Django", "psycopg")
    apps = ("django_tasks_db",)
    backend = "django_tasks_db.DatabaseBackend"
    has_bulk = False
    variants = {
        "default": Variant(
            "`db_worker` as it comes: --interval 1, CONN_MAX_AGE=0",
            jobs=600,
            measures=frozenset({"drain"}),
            processes=(1,),
            options={"command": ["db_worker"], "conn_max_age": 0},
        ),
        "tuned": Variant(
            "`db_worker --interval 0.1 --verbosity 0`; CONN_MAX_AGE=None",
            jobs=2_000,
            options=TUNED,
        ),
        "sqlite": Variant(
            "as tuned, on SQLite (WAL, synchronous=NORMAL, IMMEDIATE)",
            jobs=3_000,
            store="sqlite",
            measures=frozenset({"drain"}),
            processes=(1, 2),
            options=TUNED,
        ),
    }
    remaining_sql = (
        "SELECT count(*) FROM django_tasks_database_dbtaskresult "
        "WHERE status IN ('READY', 'RUNNING')"
    )

    def enqueue(self, number: int) -> None:
        from benchmarks.jobs.django_tasks import noop

        noop.enqueue(number)
