"""What the pages of all our tables share: they read, from the right database, in bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Func, Model, QuerySet, TextField
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.functional import cached_property

from django_claimq.admin import configured, live

if TYPE_CHECKING:  # Generic to type checkers alone. A mixin's base is whatever it is mixed into.
    AnyAdmin = admin.ModelAdmin[Any]
    AnyPaginator = Paginator[Any]
else:
    AnyAdmin = object
    AnyPaginator = Paginator

# The most rows that a list reaches and an action touches at once.
REACH = 10_000


class BoundedPaginator(AnyPaginator):
    """Counts no further than REACH, and has no pages beyond it."""

    @cached_property
    def count(self) -> int:
        return min(self._found, REACH)

    @property
    def is_cut(self) -> bool:
        return self._found > REACH

    @cached_property
    def _found(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[: REACH + 1].count())


class ReadOnlyMixin(AnyAdmin):
    """A list and a page for each row; no way to add, change or delete one."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    ordering = ("-pk",)
    # Any other order would sort the whole table.
    sortable_by = ()

    class Media:
        css = {"all": ["django_claimq/admin.css"]}
        js = [live.SCRIPT]

    @property
    def urls(self) -> list[URLPattern]:
        patterns = self.get_urls()
        for pattern in patterns:
            if isinstance(pattern, URLPattern):  # Not an include() of the project's own.
                pattern.callback = live.quiet(pattern.callback)
        return patterns

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(configured.database())

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        # By default any column may be asked for in the address: ?kwargs__token__startswith=a
        # would tell what REDACT hides.
        return lookup in {getattr(one, "parameter_name", None) for one in self.list_filter}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class LastElement(Func):
    """The last element of a JSON array as JSON text; NULL where there is none."""

    output_field = TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s -> -1)::text", **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "CAST(JSON_EXTRACT(%(expressions)s, '$[#-1]') AS TEXT)"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_mysql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        # MariaDB knows no `last` before 10.9.
        last = "CONCAT('$[', GREATEST(JSON_LENGTH(%(expressions)s), 1) - 1, ']')"
        template = f"JSON_EXTRACT(%(expressions)s, {last})"
        return self.as_sql(compiler, connection, template=template, **extra)
