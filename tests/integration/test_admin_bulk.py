"""What is done to many jobs from the list: at once, after a question, or by a job."""

from __future__ import annotations

import re

import pytest
from django.contrib.admin import site
from django.contrib.admin.models import DELETION, LogEntry
from django.test import Client
from django.utils.http import urlencode

from django_claimq.admin import actions, bulk, configured, large_change
from django_claimq.admin.large_change import change_jobs
from django_claimq.exceptions import JobCancelled
from django_claimq.models import Job
from django_claimq.states import ALIVE, FINISHED, UNCLAIMED, State
from django_claimq.testing import crash_at, run_jobs
from tests.factories import JobFactory
from tests.integration.admin_list import (
    HOSTILE,
    JOBS,
    act,
    confirm,
    hidden_in,
    seen,
    staff_client,
    told,
)
from tests.people import permissions
from tests.rows import claim, columns

pytestmark = pytest.mark.django_db

# Codename of the permission, the states in which it holds, and the value that it asks for.
VERBS = {
    "requeue": ("requeue_job", FINISHED, None),
    "cancel": ("cancel_job", ALIVE, None),
    "run": ("run_job", (State.SCHEDULED,), None),
    "move": ("move_job", UNCLAIMED, "mail"),
    "reprioritise": ("reprioritise_job", UNCLAIMED, 7),
    "remove": ("delete_job", tuple(set(State) - {State.RUNNING}), None),
}


def one_of_each_state():
    return [JobFactory(state=state) for state in State.values]


def states():
    return sorted(Job.objects.exclude(task=change_jobs.module_path).values_list("state", flat=True))


def carry_out(client, verb, *jobs, **options):
    """Run an action, and answer what it asks."""
    answer = act(client, verb, *jobs, **options)
    if "claimq-confirm" in answer.content.decode():
        value = VERBS[verb][2]
        given = {} if value is None else {"value": value}
        answer = confirm(client, answer, options.get("address", JOBS), **given)
    return answer


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_holds_in_its_states_and_says_for_which_it_did_not(admin_client, verb):
    jobs = one_of_each_state()
    before = {job.id: columns(job) for job in jobs}
    answer = carry_out(admin_client, verb, *jobs)
    legal = VERBS[verb][1]
    held, *refused = told(answer)
    assert held.startswith(f"{len(legal)} job")
    left = [job for job in jobs if job.state not in legal]
    assert len(refused) == bool(left)
    for job in left:
        assert columns(job) == before[job.id]
        assert f"1 {State(job.state).label.lower()}" in refused[0]
    assert len(left) == 0 or refused[0].startswith(f"{len(left)} job")
    assert LogEntry.objects.count() == len(legal)
    for job in jobs:
        changed = not Job.objects.filter(id=job.id).exists() or columns(job) != before[job.id]
        assert changed == (job.state in legal)


def test_moved_and_reprioritised_jobs_have_what_was_asked_for(admin_client):
    job = JobFactory()
    assert told(carry_out(admin_client, "move", job)) == ["1 job was moved."]
    carry_out(admin_client, "reprioritise", job)
    job.refresh_from_db()
    assert (job.queue_name, job.priority) == ("mail", 7)
    logged = set(LogEntry.objects.values_list("change_message", flat=True))
    assert logged == {"Moved to the queue mail.", "Given priority 7."}


def test_a_job_that_was_asked_to_stop_is_not_asked_again(admin_client):
    jobs = [JobFactory(asked_to_stop=True), JobFactory(state="RUNNING")]
    said = told(act(admin_client, "cancel", *jobs))
    assert said[0].startswith("1 job was cancelled")
    assert said[1].startswith("1 job was left as it is (1 asked to stop)")


def test_of_requeued_jobs_with_the_same_unique_key_the_newest_goes(admin_client):
    older, newest = JobFactory.create_batch(2, state="FAILED", unique_key="k")
    said = told(act(admin_client, "requeue", older, newest))
    assert said[0] == "1 job was requeued."
    assert "of those with the same unique key only one" in said[1]
    assert Job.objects.get(state=State.READY) == newest


def test_deleted_jobs_are_logged_as_deletions(admin_client, admin_user):
    job = JobFactory(state="FAILED", task=HOSTILE)
    carry_out(admin_client, "remove", job)
    entry = LogEntry.objects.get()
    assert (entry.action_flag, entry.object_id) == (DELETION, str(job.id))
    assert entry.user_id == admin_user.pk
    assert "\\u202e" in entry.object_repr


# Who may


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_needs_its_own_permission(django_user_model, verb):
    others = {name: codename for name, (codename, _, _) in VERBS.items() if name != verb}
    without = staff_client(django_user_model, "view_job", *others.values())
    assert f'value="{verb}_selected"' not in seen(without)
    jobs = one_of_each_state()
    before = [columns(job) for job in jobs]
    for across in (False, True):
        for more in ({}, {"confirmed": "yes", "value": VERBS[verb][2] or ""}):
            act(without, verb, *jobs, across=across, **more)
    assert [columns(job) for job in jobs] == before

    permitted = staff_client(django_user_model, "view_job", VERBS[verb][0])
    offered = re.findall(r'value="(\w+)_selected"', seen(permitted))
    assert set(offered) == {verb}
    carry_out(permitted, verb, *jobs)
    assert [job for job in jobs if not Job.objects.filter(id=job.id).exists()] or [
        columns(job) for job in jobs
    ] != before


def test_without_the_permission_to_view_nothing_is_done(django_user_model):
    job = JobFactory()
    blind = staff_client(django_user_model, *(codename for codename, _, _ in VERBS.values()))
    for verb in VERBS:
        form = {"action": f"{verb}_selected", "_selected_action": str(job.id), "confirmed": "yes"}
        assert blind.post(JOBS, form).status_code == 403
    assert Job.objects.get().state == State.READY


def test_actions_want_a_token_and_a_post(admin_user, admin_client):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    job = JobFactory()
    form = {"action": "cancel_selected", "index": 0, "_selected_action": str(job.id)}
    assert strict.post(JOBS, form).status_code == 403
    assert admin_client.get(JOBS, form).status_code == 400
    assert Job.objects.get().state == State.READY


# Asking


@pytest.mark.parametrize("verb", ["move", "reprioritise", "remove"])
def test_some_verbs_always_ask(admin_client, verb):
    job = JobFactory()
    before = columns(job)
    page = act(admin_client, verb, job).content.decode()
    assert "This is for 1 job." in page
    assert columns(job) == before
    assert hidden_in(page)["_selected_action"] == [str(job.id)]


@pytest.mark.parametrize(
    ("verb", "value"),
    [
        *(("move", value) for value in ("", "gone", HOSTILE)),
        *(("reprioritise", value) for value in ("", "101", "-101", "x", "1.5", "9" * 400)),
    ],
)
def test_a_value_that_cannot_be_is_asked_for_again(admin_client, verb, value):
    job = JobFactory()
    before = columns(job)
    page = confirm(admin_client, act(admin_client, verb, job), value=value).content.decode()
    assert "errorlist" in page
    assert "<script>alert" not in page
    assert columns(job) == before


def test_more_than_a_hundred_jobs_are_asked_about(admin_client):
    jobs = JobFactory.create_batch(101, state="FAILED")
    answer = act(admin_client, "requeue", *jobs[:100])
    assert told(answer) == ["100 jobs were requeued."]
    Job.objects.update(state="FAILED", finished_at=jobs[0].finished_at)
    answer = act(admin_client, "requeue", *jobs[:3], across=True)
    assert "This is for 101 jobs." in answer.content.decode()
    assert set(states()) == {"FAILED"}
    assert told(confirm(admin_client, answer)) == ["101 jobs were requeued."]
    assert LogEntry.objects.filter(object_repr="101 jobs", change_message="Requeued.").count() == 1


def test_what_came_after_the_question_is_not_meant(admin_client):
    JobFactory.create_batch(2)
    answer = act(admin_client, "remove", *Job.objects.all(), across=True)
    JobFactory()
    assert told(confirm(admin_client, answer)) == ["2 jobs were deleted."]
    assert Job.objects.count() == 1


def test_of_ticked_jobs_those_that_have_changed_since_are_told_of(admin_client):
    jobs = JobFactory.create_batch(2)
    ready = f"{JOBS}?state=READY"
    answer = act(admin_client, "remove", *jobs, address=ready)
    claim("default", limit=1)
    said = told(confirm(admin_client, answer, ready))
    assert said == ["1 job was deleted.", "1 job was left as it is (1 running): cancel it first."]


def test_all_of_the_list_is_what_filters_and_search_let_through(admin_client):
    kept = [JobFactory(state="FAILED"), JobFactory(state="CANCELLED", task="shop.tasks.pay")]
    hit = [JobFactory(state="FAILED", task="shop.tasks.pay") for _ in range(2)]
    address = f"{JOBS}?state=FAILED&q=task:pay&before={kept[0].id}"
    assert told(act(admin_client, "requeue", kept[0], across=True, address=address)) == [
        "2 jobs were requeued."
    ]
    assert {job.state for job in Job.objects.filter(id__in=[job.id for job in hit])} == {"READY"}


def test_all_of_the_list_can_be_chosen_without_a_script(admin_client):
    jobs = JobFactory.create_batch(101)
    assert '<noscript><label><input type="checkbox" name="select_across"' in seen(admin_client)
    # The hidden field of Django's own form comes first.
    answer = act(admin_client, "cancel", jobs[0], select_across=["0", "1"])
    assert "This is for 101 jobs." in answer.content.decode()


@pytest.mark.parametrize("bad", ["x", "", "%00", "1; DROP TABLE"])
def test_what_is_no_id_is_refused(admin_client, bad):
    JobFactory()
    assert told(act(admin_client, "cancel", bad)) == ["What was selected are no ids of jobs."]
    assert states() == ["READY"]


def test_a_search_that_makes_no_sense_selects_nothing(admin_client):
    job = JobFactory()
    answer = act(admin_client, "cancel", job, across=True, address=f"{JOBS}?q=foo:bar")
    assert told(answer) == ["None of these jobs is there any more."]
    assert states() == ["READY"]


# By a job


@pytest.fixture
def few(monkeypatch):
    """Few are many."""
    monkeypatch.setattr(actions, "AT_ONCE", 5)
    monkeypatch.setattr(actions, "UNCONFIRMED", 5)
    monkeypatch.setattr(bulk, "BATCH", 3)


@pytest.fixture
def asked(few, admin_client):
    """Ask for something to be done to a list of jobs that are many."""

    def ask(verb="requeue", address=f"{JOBS}?state=FAILED&queue=default"):
        return carry_out(admin_client, verb, Job.objects.first(), across=True, address=address)

    return ask


def the_job():
    return Job.objects.get(task=change_jobs.module_path)


def run(job, **options):
    """Run it, and no other job."""
    Job.objects.filter(id=job.id).update(queue_name="reports")
    return run_jobs(queues=["reports"], **options)


def test_many_jobs_are_left_to_a_job_whose_page_follows(asked, admin_user):
    JobFactory.create_batch(10, state="FAILED")
    JobFactory(state="FAILED", queue_name="mail")
    answer = asked()
    job = the_job()
    assert answer.redirect_chain == [(f"{JOBS}{job.id}/change/", 302)]
    assert "A job does this to the 10 jobs" in told(answer)[0]
    assert (job.queue_name, job.backend) == ("default", "default")
    assert states() == ["FAILED"] * 11

    JobFactory(state="FAILED")  # Came later.
    run(job)
    job = the_job()
    assert job.state == "SUCCESSFUL"
    assert job.result == {"changed": 10, "left": {}}
    assert (job.progress["current"], job.progress["total"]) == (10, 10)
    assert states() == ["FAILED"] * 2 + ["READY"] * 10
    first, last = LogEntry.objects.order_by("id")
    assert (first.object_repr, last.object_repr) == ("10 jobs", "10 jobs")
    assert last.user_id == admin_user.pk
    assert last.change_message == f"Requeued. By job {job.id}."


@pytest.mark.parametrize("verb", ["cancel", "move", "reprioritise", "remove", "run"])
def test_each_verb_can_be_left_to_a_job(asked, verb):
    legal = VERBS[verb][1][0]
    JobFactory.create_batch(7, state=legal)
    JobFactory(state="RUNNING", cancel_requested_at=None)
    asked(verb, f"{JOBS}?queue=default")
    run(the_job())
    assert the_job().state == "SUCCESSFUL", the_job().history
    left = 0 if verb == "cancel" else 1
    assert the_job().result == {"changed": 8 - left, "left": {"RUNNING": 1} if left else {}}


def test_after_a_crash_it_goes_on_where_it_was(asked):
    JobFactory.create_batch(10, state="FAILED")
    asked()
    for done in (3, 6):
        with crash_at("claimq_batch_changed"):
            run(the_job())
        assert the_job().checkpoint["held"] == done
    run(the_job())
    assert the_job().result == {"changed": 10, "left": {}}
    assert states() == ["READY"] * 10
    assert LogEntry.objects.count() == 2


def test_a_cancelled_one_stops_and_logs_what_it_did(asked, monkeypatch):
    JobFactory.create_batch(10, state="FAILED")
    asked()
    job = the_job()
    show = large_change._show

    def cancel_then_show(context, walk):
        context.control.stop(JobCancelled("by a person"))
        show(context, walk)

    monkeypatch.setattr(large_change, "_show", cancel_then_show)
    run(job, errors="keep")
    assert the_job().state == "CANCELLED"
    assert states() == ["FAILED"] * 7 + ["READY"] * 3
    last = LogEntry.objects.latest("id")
    assert (last.object_repr, last.change_message) == ("3 jobs", f"Requeued. By job {job.id}.")


@pytest.mark.parametrize("loss", ["inactive", "no staff", "no view", "no verb", "gone"])
def test_who_may_not_do_it_any_more_does_not_have_it_done(few, django_user_model, loss):
    client = staff_client(django_user_model, "view_job", "requeue_job")
    user = django_user_model.objects.get()
    JobFactory.create_batch(10, state="FAILED")
    address = f"{JOBS}?state=FAILED"
    carry_out(client, "requeue", *Job.objects.all()[:1], across=True, address=address)
    if loss == "inactive":
        django_user_model.objects.update(is_active=False)
    elif loss == "no staff":
        django_user_model.objects.update(is_staff=False)
    elif loss == "gone":
        LogEntry.objects.all().delete()
        user.delete()
    else:
        codename = "view_job" if loss == "no view" else "requeue_job"
        user.user_permissions.remove(permissions(codename).get())
    run(the_job(), errors="keep")
    assert the_job().state == "FAILED"
    assert "any more" in the_job().history[-1]["traceback"]
    assert states() == ["FAILED"] * 10


def test_hidden_arguments_stay_hidden_from_a_job_too(few, django_user_model):
    client = staff_client(django_user_model, "view_job", "requeue_job", "view_payload")
    JobFactory.create_batch(10, state="FAILED", kwargs={"user_id": 1})
    address = f"{JOBS}?state=FAILED&q=arg.user_id:1"
    carry_out(client, "requeue", *Job.objects.all()[:1], across=True, address=address)
    django_user_model.objects.get().user_permissions.remove(permissions("view_payload").get())
    run(the_job(), errors="keep")
    assert states() == ["FAILED"] * 10


def test_it_does_not_change_itself(asked):
    JobFactory.create_batch(7)
    asked("cancel", JOBS)
    job = the_job()
    # As where the clock of the machine that enqueued it was behind.
    kwargs = job.kwargs | {"up_to": "f" * 8 + "-ffff-7fff-8fff-ffffffffffff"}
    Job.objects.filter(id=job.id).update(kwargs=kwargs)
    run(job)
    assert the_job().result == {"changed": 7, "left": {}}


def test_without_a_backend_the_answer_is_a_message(few, admin_client, monkeypatch):
    monkeypatch.setattr(configured, "home", lambda: None)
    JobFactory.create_batch(10, state="FAILED")
    answer = carry_out(admin_client, "requeue", *Job.objects.all()[:1], across=True)
    assert "There is no ClaimqBackend in TASKS" in told(answer)[0]
    assert states() == ["FAILED"] * 10


@pytest.mark.parametrize(
    ("queues", "queue"),
    [(["mail", "default"], "default"), (["mail", "a"], "mail"), ([], "default")],
)
def test_the_job_waits_in_a_queue_of_the_backend(settings, queues, queue):
    settings.TASKS = {"jobs": settings.TASKS["default"] | {"QUEUES": queues}}
    assert configured.home() == ("jobs", queue)


def test_a_list_of_another_site_is_asked_by_its_name(asked):
    JobFactory.create_batch(10, state="FAILED")
    asked()
    job = the_job()
    assert job.kwargs["site"] == site.name
    Job.objects.filter(id=job.id).update(kwargs=job.kwargs | {"site": "gone"})
    run(job, errors="keep")
    assert "There is no AdminSite 'gone'" in the_job().history[-1]["traceback"]


def test_hostile_values_of_the_question_are_escaped(admin_client):
    job = JobFactory(queue_name=HOSTILE)
    answer = act(admin_client, "remove", job, address=f"{JOBS}?{urlencode({'queue': HOSTILE})}")
    page = answer.content.decode()
    assert "<script>alert" not in page
    assert "This is for 1 job." in page
    assert not re.search(r"""<style|\sstyle=|\son[a-z]+="|<script(?![^>]*\ssrc=)""", page)
