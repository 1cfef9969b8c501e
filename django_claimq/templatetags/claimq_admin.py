"""What the templates of our admin pages ask for."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from django import template

register = template.Library()


@register.simple_tag(takes_context=True)
def claimq_tabs(context: dict[str, Any]) -> Any:
    return _tabs().tabs(context)


@register.simple_tag(takes_context=True)
def claimq_overview_url(context: dict[str, Any]) -> str:
    return _tabs().overview_url(context) or ""


def _tabs() -> ModuleType:
    # Deferred: Django imports all libraries of an app for any of them, also where there is
    # no admin.
    from django_claimq.admin import tabs

    return tabs
