"""`{% load claimq %}`: a job on the product's own pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import template
from django.template import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from django_claimq.durations import Duration
from django_claimq.http.signing import HOUR, job_id_of, job_status_url
from django_claimq.http.status import JobStatus, read
from django_claimq.queueing.positions import MOST

register = template.Library()
register.simple_tag(job_status_url, name="claimq_job_url")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """What the template of a panel calls `claimq`. `status`: None if there is no such job."""

    url: str
    status: JobStatus | None
    shows_position: bool

    @property
    def state(self) -> str:
        """One of the states of jobs, or GONE."""
        return "GONE" if self.status is None else self.status.state

    @property
    def is_finished(self) -> bool:
        return self.status is None or self.status.is_finished

    @property
    def position(self) -> str:
        position = None if self.status is None else self.status.position
        return "" if position is None else f"{position}{'+' * (position >= MOST)}"


@register.simple_tag(takes_context=True)
def claimq_job(
    context: Context,
    job: Any,
    max_age: Duration = HOUR,
    position: bool = False,
    template: str = "django_claimq/job.html",
) -> SafeString:
    """A panel with the state and the progress of a job, kept up to date until that has ended.

    Parameters:
        job: a Job, a TaskResult, or the id of one.
        max_age: for how long it is kept up to date: seconds, a timedelta or "30m"; an hour by
            default. Then a reload of the page shows more.
        position: whether to show how many jobs are ahead of it while it waits; False by default.
        template: what to render; it also has the variables of the page.

    Raises what `job_status_url` raises.
    """
    panel = Panel(
        url=job_status_url(job, max_age=max_age, position=position),
        status=read(job_id_of(job), position=position),
        shows_position=position,
    )
    with context.push(claimq=panel):
        return context.template.engine.get_template(template).render(context)  # type: ignore[union-attr]


@register.simple_tag(takes_context=True)
def claimq_when(context: Context, *states: str) -> SafeString:
    """The attributes of an element of a panel that is there in these states only."""
    hidden = "" if context["claimq"].state in states else " hidden"
    return format_html('data-claimq-when="{}"{}', " ".join(states), hidden)
