"""What the tasks of tests.effect_tasks must have left behind."""

from __future__ import annotations

from collections import Counter

from django_claimq.models import Job
from django_claimq.states import State
from tests.effect_tasks import follow
from tests.models import Effect


def check_effects() -> None:
    """Each job has succeeded, and has its effect once, from the run that counts; so has the one
    follow-up of each."""
    assert Counter(Job.objects.values_list("state", flat=True)).keys() == {State.SUCCESSFUL}
    jobs = {str(job.id): job for job in Job.objects.all()}
    effects = list(Effect.objects.values_list("what", "fence"))
    assert Counter(what for what, _ in effects) == Counter(jobs.keys())
    for what, fence in effects:
        assert jobs[what].fence == jobs[what].result == fence, what
    firsts = [id for id, job in jobs.items() if job.task != follow.module_path]
    parents = [job.args[0] for job in jobs.values() if job.task == follow.module_path]
    assert Counter(parents) == Counter(firsts)


def all_successful() -> bool:
    return not Job.objects.exclude(state=State.SUCCESSFUL).exists()
