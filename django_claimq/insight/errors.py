"""How many jobs an error has failed."""

from __future__ import annotations

from collections.abc import Iterable

from django_claimq.insight.counts import Capped
from django_claimq.insight.grouping import count_by
from django_claimq.models.job import Job
from django_claimq.states import State


def failed_now(using: str, fingerprints: Iterable[str], most: int = 1000) -> dict[str, Capped]:
    """How many jobs are FAILED by each error, in one query.

    `most`: count no further for one error; 1,000 by default.
    """
    wanted = list(fingerprints)
    jobs = Job.objects.using(using).failed().order_by("error_fingerprint", "id")
    parts = [(State.FAILED, jobs.filter(error_fingerprint=one)[: most + 1]) for one in wanted]
    found = {value: count for _, value, count in count_by(using, "error_fingerprint", parts)}
    return {one: Capped.of(found.get(one, 0), most) for one in wanted}
