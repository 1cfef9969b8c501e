"""The row of the project's own that a job is about."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.apps import apps
from django.db.models import Model


class Subject(NamedTuple):
    """A row by its model, as "app.model", and its primary key as text.

    Not by a ContentType: those are rows too, of one database, and numbered by chance.
    """

    type: str
    id: str

    @classmethod
    def of(cls, row: object) -> Subject:
        """Raises ValueError for what is no row, or has no primary key yet."""
        if isinstance(row, Subject):
            return row
        if not isinstance(row, Model):
            raise ValueError(f"must be a model instance, not {type(row).__name__}")
        if row.pk is None:
            raise ValueError(f"is a {type(row).__name__} without a primary key: save it first")
        model = row._meta.concrete_model or type(row)
        return cls(model._meta.label_lower, str(model._meta.pk.value_to_string(row)))

    def find(self) -> Any:
        """The row, or None where it, or its model, is gone."""
        try:
            model = apps.get_model(self.type)
        except (LookupError, ValueError):
            return None
        pk = model._meta.pk.to_python(self.id)
        return model._base_manager.filter(pk=pk).first()
