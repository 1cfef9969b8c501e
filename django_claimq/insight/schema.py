"""Whether the database has all tables and columns that this version wants."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

_APP = "django_claimq"
# Aliases of databases that had all of them: this process need not ask again.
_complete: set[str] = set()


def missing_migrations(using: str) -> list[str]:
    """Names of this app's migrations that were not applied to the database, in their order.

    Asks the database until all are applied, and never again in this process.
    """
    if using in _complete:
        return []
    applied = MigrationRecorder(connections[using]).applied_migrations()
    missing = [name for name in _shipped() if (_APP, name) not in applied]
    if not missing:
        _complete.add(using)
    return missing


def _shipped() -> list[str]:
    name, _ = MigrationLoader.migrations_module(_APP)
    if name is None:  # MIGRATION_MODULES says that tables are made without migrations.
        return []
    files = iter_modules(import_module(name).__path__)
    return sorted(file.name for file in files if not file.ispkg and file.name[0] not in "_~")
