from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from example_project.census.forms import CensusForm
from example_project.census.models import Census, Export
from example_project.census.progress import failures, progress, reports, totals
from example_project.census.starting import start, start_export

_ROWS = 50
_LATEST = 10


@require_http_methods(["GET", "HEAD", "POST"])
def home(request: HttpRequest) -> HttpResponse:
    """The form; what it sends is enqueued here, within the request."""
    form = CensusForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        return redirect(start(form.cleaned_data["source"]))
    latest = Census.objects.order_by("-pk")[:_LATEST]
    return render(request, "census/home.html", {"form": form, "latest": latest})


@require_safe
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    context = _findings(request, pk)
    export = Export.objects.filter(census=pk).defer("content").last()
    return render(request, "census/detail.html", {**context, "export": export})


@require_safe
def findings(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of the page that changes, for the script that keeps it up to date."""
    response = render(request, "census/_findings.html", _findings(request, pk))
    response["Cache-Control"] = "no-store"
    return response


@require_POST
def export(request: HttpRequest, pk: int) -> HttpResponse:
    """Enqueue the writing of the file; the page that follows shows how far it is."""
    census = get_object_or_404(Census, pk=pk)
    start_export(census)
    return redirect(f"{census.get_absolute_url()}#export")


@require_safe
def download(request: HttpRequest, pk: int) -> HttpResponse:
    export = get_object_or_404(Export, pk=pk, content__isnull=False)
    headers = {"Content-Disposition": f'attachment; filename="census-{export.census_id}.csv"'}
    return HttpResponse(export.content, content_type="text/csv; charset=utf-8", headers=headers)


def _findings(request: HttpRequest, pk: int) -> dict[str, Any]:
    census = get_object_or_404(Census, pk=pk)
    limit = None if "all" in request.GET else _ROWS
    return {
        "census": census,
        "progress": progress(census),
        "totals": totals(census),
        "reports": reports(census, limit),
        "failures": failures(census, limit),
        "limit": limit,
    }
