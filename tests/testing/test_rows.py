"""Jobs and workers as rows for one's own pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from django_claimq.models import Job, Worker
from django_claimq.states import FINISHED, State
from django_claimq.testing import make_job, make_worker, run_jobs
from tests.models import Effect
from tests.testing.tasks import send, sign_in, write

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", State.values)
def test_a_job_can_be_made_in_any_state(state, admin_client):
    job = make_job(send, ["ann"], {"subject": "Bye"}, state=state)
    stored = Job.objects.get()
    assert (stored.id, stored.state, stored.args) == (job.id, state, ["ann"])
    assert (stored.claimed_by is not None) == (state == State.RUNNING)
    assert (stored.finished_at is not None) == (state in FINISHED)
    assert len(stored.history) == (state in (State.FAILED, State.CANCELLED))
    assert not Job.objects.stale().exists()
    page = admin_client.get(reverse("admin:django_claimq_job_change", args=[job.pk]))
    assert page.status_code == 200


def test_it_has_what_its_task_says():
    job = make_job(send, ["ann"])
    assert (job.queue_name, job.priority, job.tags) == ("mail", 10, ["billing", "yearly"])
    assert make_job(sign_in).metadata == {"claimq_sensitive": ["password"]}
    user = User.objects.create(username="ann")
    job = make_job(send.using(subject=user), ["ann"])
    assert Job.objects.for_subject(user).get() == job


def test_columns_can_be_set_and_the_task_need_not_exist():
    past = timezone.now() - timedelta(hours=1)
    job = make_job("shop.tasks.pay", state="RUNNING", lease_expires_at=past, queue_name="rare")
    assert (Job.objects.stale().get(), job.queue_name) == (job, "rare")
    job = make_job(write, state="FAILED", attempt=3, history=[])
    assert (job.attempt, job.history) == (3, [])


def test_one_that_is_due_runs():
    make_job(write, ["a"])
    run_jobs()
    assert Effect.objects.exists()


def test_workers_are_alive_and_several():
    for _ in range(2):
        make_worker()
    assert Worker.objects.alive(within=10).count() == 2
    dead = make_worker(heartbeat_at=timezone.now() - timedelta(hours=1), queues=["mail"])
    assert Worker.objects.dead(within=60).get() == dead


def test_what_no_row_can_be_is_refused():
    with pytest.raises(ValueError, match="one of SCHEDULED, READY"):
        make_job(write, state="DONE")
    with pytest.raises(TypeError, match="colour"):
        make_job(write, colour="red")
    with pytest.raises(TypeError, match="colour"):
        make_worker(colour="red")
    with pytest.raises(IntegrityError), transaction.atomic():
        make_job(write, state="RUNNING", claimed_by=None)
