"""Reading the rows that the arguments of one call name."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.models import Model

from django_claimq.exceptions import RowMissing


class Rows:
    """Those of one call: first all are wanted, then loaded, then got.

    With `missing_as_none`, one that is gone is None.
    """

    def __init__(self, *, missing_as_none: bool) -> None:
        self._missing_as_none = missing_as_none
        self._wanted: dict[type[Model], set[Any]] = {}
        self._found: dict[type[Model], dict[Any, Model]] = {}

    def want(self, model: type[Model], key: Any) -> None:
        self._wanted.setdefault(model, set()).add(key)

    def load(self) -> None:
        """Read them, by one query for each model."""
        for model, keys in self._wanted.items():
            # Not from a replica, which may not have heard of a row as young as its job.
            rows = model._base_manager.using(router.db_for_write(model))
            self._found[model] = rows.in_bulk(list(keys))

    def get(self, model: type[Model], key: Any) -> Model | None:
        """Raises RowMissing for a row that is gone."""
        row = self._found[model].get(key)
        if row is None and not self._missing_as_none:
            raise RowMissing(
                f"The row that was an argument is gone: there is no {model._meta.label} with "
                f"the primary key {key}."
            )
        return row
