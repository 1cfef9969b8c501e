"""More jobs than a request should change are changed by a job, which shows how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext

from django_claimq.admin import bulk, configured, links
from django_claimq.admin.bulk import Row, Tally
from django_claimq.admin.orders import Order
from django_claimq.admin.text import word
from django_claimq.admin.verbs import Verb
from django_claimq.context import ClaimqContext
from django_claimq.copies import build
from django_claimq.definition import ClaimqTask
from django_claimq.exceptions import JobCancelled
from django_claimq.failpoints import crash_point
from django_claimq.insight.counts import Capped
from django_claimq.models.querysets import JobQuerySet
from django_claimq.queueing import database


@dataclass(frozen=True, slots=True)
class Listed:
    """The jobs that the list shows at an address, as an Order tells them, and how many."""

    address: str
    since: UUID | None
    up_to: UUID | None
    count: Capped


def start(
    verb: Verb, value: Any, page: Any, request: HttpRequest, listed: Listed
) -> HttpResponse | None:
    """Enqueue the job, and lead to its page. None, with a message, where no backend runs it."""
    home = configured.home()
    if home is None:
        told = gettext(
            "There is no ClaimqBackend in TASKS to do this to so many jobs: narrow them."
        )
        messages.error(request, told)
        return None
    order = Order(
        verb=verb.name,
        value=value,
        user_id=str(request.user.pk),
        user=request.user.get_username(),
        site=page.admin_site.name,
        address=listed.address.removeprefix("?"),
        since=str(listed.since) if listed.since else None,
        up_to=str(listed.up_to),
    )
    alias, queue = home
    result = change_jobs.using(backend=alias, queue_name=queue).enqueue(**asdict(order))
    message = f"{verb.log.format(value=word(value))} Left to job {result.id}."
    bulk.log_together(request.user.pk, verb.flag, f"{listed.count} jobs", message)
    told = gettext("A job does this to the %s jobs; here you see how far it is.") % listed.count
    messages.success(request, told)
    url = links.to_job(page.admin_site, UUID(str(result.id)))
    return HttpResponseRedirect(url or request.get_full_path())


def _task(function: Callable[..., Any]) -> ClaimqTask[..., Any]:
    """A task that is not looked at before it is known which backend enqueues it."""
    defaults = {one.name: one.default for one in fields(ClaimqTask) if one.default is not MISSING}
    return build(ClaimqTask, {**defaults, "func": function, "takes_context": True})


@_task
def change_jobs(context: ClaimqContext, **order: Any) -> dict[str, Any]:
    """Change the jobs of a list, in batches, for the person who asked for it.

    The arguments are those of an Order. Goes on where an attempt before it was when it ended.
    """
    asked = Order.read(order)
    verb, jobs = asked.meant()
    jobs = jobs.exclude(id=context.job_id)
    walk = Walk.restored(context.checkpoint) or Walk(jobs.count())
    try:
        while rows := _next(verb, jobs, walk):
            context.raise_if_stopped()
            step = partial(_step, context, verb, jobs.db, rows, asked.value, walk)
            walk = database.retry(jobs.db, step)
            crash_point("claimq_batch_changed")
            _show(context, walk)
    except JobCancelled:
        _log(context, verb, asked, walk)
        raise
    _log(context, verb, asked, walk)
    return {"changed": walk.tally.held, "left": dict(walk.tally.refused)}


@dataclass(frozen=True, slots=True)
class Walk:
    """How far it is, as the checkpoint tells. `last`: the id of the last job looked at."""

    total: int
    last: str | None = None
    tally: Tally = field(default_factory=Tally)

    @classmethod
    def restored(cls, stored: Any) -> Walk | None:
        if not stored:
            return None
        tally = Tally(stored["held"], Counter(stored["refused"]))
        return cls(stored["total"], stored["last"], tally)

    def stored(self) -> dict[str, Any]:
        counts = {"held": self.tally.held, "refused": dict(self.tally.refused)}
        return {"total": self.total, "last": self.last, **counts}


def _next(verb: Verb, jobs: JobQuerySet, walk: Walk) -> list[Row]:
    order, beyond = ("-id", "id__lt") if verb.newest_first else ("id", "id__gt")
    rest = jobs.filter(**{beyond: UUID(walk.last)}) if walk.last else jobs
    return list(map(Row._make, bulk.rows_of(rest.order_by(order))[: bulk.BATCH]))


def _step(
    context: ClaimqContext, verb: Verb, using: str, rows: Sequence[Row], value: Any, walk: Walk
) -> Walk:
    """Change a batch and note that, both or neither."""
    with context.fenced():
        changed = bulk.change(verb, using, rows, value)
        further = Walk(walk.total, str(rows[-1].id), walk.tally + changed)
        context.save_checkpoint(further.stored(), now=True)
    return further


def _show(context: ClaimqContext, walk: Walk) -> None:
    left = bulk.states_told(walk.tally.refused)
    message = f"{walk.tally.held:,} changed" + (f", left as they are: {left}" if left else "")
    context.progress(walk.tally.seen, max(walk.total, walk.tally.seen), message)


def _log(context: ClaimqContext, verb: Verb, asked: Order, walk: Walk) -> None:
    """Tell the admin's log what came of it, once."""
    what = f"{walk.tally.held:,} jobs"
    message = f"{verb.log.format(value=word(asked.value))} By job {context.job_id}."
    context.step("log", bulk.log_together, asked.user_id, verb.flag, what, message)
