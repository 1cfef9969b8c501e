"""All rows of a project's models, and how they differ from those of another time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from django.apps import apps
from django.db import router
from django.db.models import Model

from django_claimq.durations import shown

# What Django and this package write on their own account.
_NOT_OURS = frozenset({"admin", "contenttypes", "django_claimq", "sessions"})
# The most rows of a model that a message shows.
_SHOWN = 10

#: The rows of each model, by their primary keys.
Snapshot: TypeAlias = "Mapping[str, Mapping[Any, Mapping[str, Any]]]"


class Ignored(NamedTuple):
    """Labels of models, "app.Model", and of their fields, "app.Model.field"."""

    models: Collection[str]
    fields: Collection[str]

    @classmethod
    def of(cls, listed: Any) -> Ignored:
        """Raises ValueError for what is neither."""
        models, fields = set(), set()
        for one in [listed] if isinstance(listed, str | type) else listed:
            label = one._meta.label if isinstance(one, type) and issubclass(one, Model) else one
            known = {model._meta.label: model for model in _models()}
            owner, _, field = str(label).rpartition(".")
            if label in known:
                models.add(label)
            elif owner in known and field in _names(known[owner]):
                fields.add(f"{owner}.{known[owner]._meta.get_field(field).attname}")  # type: ignore[union-attr]
            else:
                raise ValueError(
                    f"ignore: {one!r} is none of the compared models or fields; write them as "
                    '"auth.User" or "auth.User.last_login"'
                )
        return cls(models, fields)


def snapshot(aliases: Collection[str], ignored: Ignored) -> Snapshot:
    """The rows, on those databases, of all managed models but Django's own and ours."""
    found = {}
    for model in _models():
        label, alias = model._meta.label, router.db_for_write(model)
        is_there = alias in aliases and router.allow_migrate_model(alias, model)
        if is_there and label not in ignored.models:
            names = [name for name in _columns(model) if f"{label}.{name}" not in ignored.fields]
            rows = model._base_manager.using(alias).values("pk", *names)
            found[label] = {row.pop("pk"): row for row in rows}
    return found


def differences(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """A line for each model and each of its rows that is not the same."""
    for label, rows in after.items():
        lines = list(_differences(before[label], rows))
        if lines:
            yield label
            yield from lines[:_SHOWN]
        if len(lines) > _SHOWN:
            yield f"  and {len(lines) - _SHOWN} more"


def _differences(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[str]:
    for pk, row in after.items():
        if pk not in before:
            yield f"  added {_row(pk, row)}"
        elif changed := [name for name in row if row[name] != before[pk][name]]:
            told = (f"{name}: {shown(before[pk][name])} -> {shown(row[name])}" for name in changed)
            yield f"  changed {shown(pk)}: {', '.join(told)}"
    for pk, row in before.items():
        if pk not in after:
            yield f"  gone {_row(pk, row)}"


def _row(pk: Any, row: Mapping[str, Any]) -> str:
    return f"{shown(pk)}: {', '.join(f'{name}={shown(value)}' for name, value in row.items())}"


def _models() -> Iterator[type[Model]]:
    for model in apps.get_models(include_auto_created=True):
        options = model._meta
        if options.managed and not options.proxy and options.app_label not in _NOT_OURS:
            yield model


def _columns(model: type[Model]) -> list[str]:
    # Its own: those of a parent are rows of the parent.
    return [str(field.attname) for field in model._meta.local_concrete_fields]


def _names(model: type[Model]) -> set[str]:
    return {field.name for field in model._meta.local_concrete_fields} | {*_columns(model)}
