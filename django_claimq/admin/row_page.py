"""A page of ours for a row, in place of Django's form, with buttons that act on the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import quote, unquote
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext

from django_claimq.admin.tables import ReadOnlyMixin
from django_claimq.admin.text import visible


@dataclass(frozen=True, slots=True)
class _Shown:
    """Stands for a row whose key may have no look of its own."""

    pk: str
    label: str
    _meta: Any  # Other looks ask for it, such as that of django-unfold.

    def __str__(self) -> str:
        return self.label


class RowPageMixin(ReadOnlyMixin):
    #: The template of the page; it gets what `row_context()` returns.
    row_template: str

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title} | (extra_context or {}))

    def row_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        raise NotImplementedError

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return self.no_such_row(request, object_id)
        context = {"original": row} | self.row_context(request, row) | (extra_context or {})
        return self.show(request, self.row_template, **context)

    def history_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        key = unquote(object_id)
        shown = _Shown(key, visible(key, 150), self.opts)
        title = gettext("Change history: %s") % shown
        context = {"object": shown, "title": title} | (extra_context or {})
        return super().history_view(request, object_id, context)

    def no_such_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        missing: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
            request, self.opts, object_id
        )
        return missing

    def show(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        """One of our templates with all that `base.html` needs, but for its `title`."""
        request.current_app = self.admin_site.name
        shared = {"opts": self.opts, "media": self.media, **self.admin_site.each_context(request)}
        return TemplateResponse(request, template, shared | context)

    def button(self, verb: str, view: Callable[..., HttpResponse]) -> URLPattern:
        """The address of a button of the page, named as Django names its own."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_{verb}"
        return path(f"<path:object_id>/{verb}/", self.admin_site.admin_view(view), name=name)

    def row_to_change(self, request: HttpRequest, object_id: str, permitted: bool) -> Any:
        """The row that a POST is about. Raises PermissionDenied or Http404."""
        if not (permitted and self.has_view_permission(request)):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        return row

    def back_to(self, key: str) -> HttpResponse:
        """To the page of a row."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return redirect(reverse(name, args=[quote(key)], current_app=self.admin_site.name))


def log_change(request: HttpRequest, row: Model, message: str, flag: int = CHANGE) -> None:
    """Leave an entry in the admin's log, with the row as a page may show it."""
    user_id: Any = request.user.pk
    LogEntry.objects.create(
        user_id=user_id,
        content_type=ContentType.objects.get_for_model(row),
        object_id=row.pk,
        object_repr=visible(str(row), 150)[:200],
        action_flag=flag,
        change_message=message,
    )
