"""Model instances, by their primary keys."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import Model

from django_claimq.typed.conversion import Conversion, Misfit, check_kind, kind_of
from django_claimq.typed.loading import Rows


class Row(Conversion):
    """An instance of a model."""

    def __init__(self, model: type[Model]) -> None:
        self._model = model

    def encode(self, value: Any) -> Any:
        name = self._model.__name__
        check_kind(value, self._model, f"{name}.objects.get(pk=value)")
        if value._meta.concrete_model is not self._model._meta.concrete_model:
            raise Misfit(
                f"this {kind_of(value)} would come back as {name}",
                f"Annotate {kind_of(value)}, or pass {name}.objects.get(pk=value.pk)",
            )
        if value.pk is None or value._state.adding:
            raise Misfit(f"this {name} is not in the database", "Save it first")
        self._check_database(value)
        # Numbers and texts as they are: JSON has them.
        if type(value.pk) in (int, str):
            return value.pk
        return self._model._meta.pk.value_to_string(value)

    def want(self, stored: Any, rows: Rows) -> None:
        rows.want(self._model, self._key(stored))

    def decode(self, stored: Any, rows: Rows) -> Any:
        return rows.get(self._model, self._key(stored))

    def _check_database(self, value: Any) -> None:
        its = router.db_for_write(self._model, instance=value)
        ours = router.db_for_write(self._model)
        if its != ours:
            raise Misfit(
                f"this row is of the database {its!r}, and would be looked for in {ours!r}",
                "Pass its primary key, and load it in the task",
            )

    def _key(self, stored: Any) -> Any:
        name = self._model.__name__
        try:
            if type(stored) in (int, str):
                key = self._model._meta.pk.to_python(stored)
                return tuple(key) if isinstance(key, list) else key  # Of several fields.
        except (ValidationError, ValueError, TypeError):
            pass
        raise Misfit(f"the stored {kind_of(stored)} is no primary key of {name}")
