"""Every address of ours, for everybody, by every method: what is shown and what may happen.

An address that is not in `TABLE`, and an action of the list that is not in `ACTIONS`, fails.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.test import Client
from django.urls import reverse

from django_claimq import task
from django_claimq.ids import uuid7
from django_claimq.models import Error, Job, Queue, Schedule
from django_claimq.scheduling import schedulable
from django_claimq.states import State
from tests.factories import JobFactory, WorkerFactory, ago
from tests.integration.admin_pages import patterns
from tests.markup import Page as Markup
from tests.people import permissions

pytestmark = pytest.mark.django_db

VIEWS = frozenset({"view_job", "view_queue", "view_schedule", "view_worker", "view_error"})
JOBS = "/admin/django_claimq/job/"
FINGERPRINT = "0" * 32


@dataclass(frozen=True)
class Act:
    """A POST that changes something, for who may `view` and has `needs`, one permission or two.

    `row`: makes what it is about, and returns its key; None if it takes none. `data`: what is
    sent. `shows`: whether a GET of who may shows a page that asks; elsewhere it is refused.
    """

    view: str
    needs: str
    row: Callable[[], Any] | None
    data: dict[str, str] = field(default_factory=dict)
    shows: bool = False

    def is_allowed(self, *permissions: str) -> bool:
        return set(self.needs.split()) <= set(permissions)


@dataclass(frozen=True)
class Page:
    """What a GET shows to who has the permission, and nothing changes."""

    view: str
    row: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Closed:
    """An address that Django gives to every model, and nobody may use here."""

    row: Callable[[], Any] | None = None


def job(**values):
    return lambda: JobFactory(**values).pk


def worker():
    return WorkerFactory(id="worker-1").pk


def queue():
    return Queue.objects.create(name="mail").pk


def paused_queue():
    return Queue.objects.create(name="mail", paused_at=ago(minutes=1)).pk


def schedule(**values):
    columns = {"name": "nightly", "task": tell.module_path, "every": 60, **values}
    return lambda: Schedule.objects.create(**columns).pk


def error():
    JobFactory(state="FAILED", error_fingerprint=FINGERPRINT)
    return Error.objects.create(fingerprint=FINGERPRINT, task="a.b", exception="ValueError").pk


CONFIRMED = {"confirmed": "yes"}
PAUSE = {"until": "resumed", "reason": "", "time": ""}

MANAGE = ("view_schedule", "manage_schedule")


@schedulable
@task
def tell():
    pass


NIGHTLY = {
    "name": "nightly",
    "task": tell.module_path,
    "every": "15m",
    "zone": "UTC",
    "jitter": "0s",
    "catch_up": "skip",
    "catch_up_max": "5",
}

TABLE: dict[str, Act | Page | Closed] = {
    "claimq_overview": Page("view_job"),
    "django_claimq_job_changelist": Page("view_job"),
    "django_claimq_job_change": Page("view_job", job()),
    "django_claimq_job_history": Page("view_job", job()),
    "django_claimq_job_add": Closed(),
    "django_claimq_job_delete": Closed(job()),
    "django_claimq_job_requeue": Act("view_job", "requeue_job", job(state="FAILED")),
    "django_claimq_job_cancel": Act("view_job", "cancel_job", job()),
    "django_claimq_job_run": Act("view_job", "run_job", job(state="SCHEDULED")),
    "django_claimq_job_move": Act("view_job", "move_job", job(), {"value": "mail"}),
    "django_claimq_job_reprioritise": Act("view_job", "reprioritise_job", job(), {"value": "7"}),
    "django_claimq_job_remove": Act("view_job", "delete_job", job(state="FAILED"), CONFIRMED),
    "django_claimq_job_duplicate": Act("view_job", "add_job", job()),
    "django_claimq_queue_changelist": Page("view_queue"),
    "django_claimq_queue_change": Page("view_queue", queue),
    "django_claimq_queue_history": Page("view_queue", queue),
    "django_claimq_queue_add": Closed(),
    "django_claimq_queue_delete": Closed(queue),
    "django_claimq_queue_pause": Act("view_queue", "pause_queue", queue, PAUSE, shows=True),
    "django_claimq_queue_resume": Act("view_queue", "pause_queue", paused_queue),
    "django_claimq_schedule_changelist": Page("view_schedule"),
    "django_claimq_schedule_change": Page("view_schedule", schedule()),
    "django_claimq_schedule_history": Page("view_schedule", schedule()),
    "django_claimq_schedule_add": Act(*MANAGE, None, NIGHTLY, shows=True),
    "django_claimq_schedule_edit": Act(*MANAGE, schedule(), NIGHTLY, shows=True),
    "django_claimq_schedule_delete": Act(*MANAGE, schedule(), {"post": "yes"}, shows=True),
    "django_claimq_schedule_enable": Act(*MANAGE, schedule(enabled=False)),
    "django_claimq_schedule_disable": Act(*MANAGE, schedule()),
    "django_claimq_schedule_run": Act("view_schedule", "manage_schedule run_job", schedule()),
    "django_claimq_worker_changelist": Page("view_worker"),
    "django_claimq_worker_change": Page("view_worker", worker),
    "django_claimq_worker_history": Page("view_worker", worker),
    "django_claimq_worker_add": Closed(),
    "django_claimq_worker_delete": Closed(worker),
    "django_claimq_worker_quiet": Act("view_worker", "control_worker", worker),
    "django_claimq_worker_stop": Act("view_worker", "control_worker", worker),
    "django_claimq_error_changelist": Page("view_error"),
    "django_claimq_error_change": Page("view_error", error),
    "django_claimq_error_history": Page("view_error", error),
    "django_claimq_error_add": Closed(),
    "django_claimq_error_delete": Act(
        "view_error", "delete_error", error, {"post": "yes"}, shows=True
    ),
    "django_claimq_error_requeue": Act("view_error", "requeue_job", error),
}
ACTS = {name: one for name, one in TABLE.items() if isinstance(one, Act)}

# Action of the list of jobs: what it needs, a state in which it holds, what is sent.
ACTIONS = {
    "requeue_selected": ("requeue_job", State.FAILED, {}),
    "cancel_selected": ("cancel_job", State.READY, {}),
    "run_selected": ("run_job", State.SCHEDULED, {}),
    "move_selected": ("move_job", State.READY, {"value": "mail"}),
    "reprioritise_selected": ("reprioritise_job", State.READY, {"value": "7"}),
    "remove_selected": ("delete_job", State.FAILED, {}),
}
# "view_payload" allows no act at all: it stands for whatever else a user may have.
PERMISSIONS = sorted(
    {one for act in ACTS.values() for one in act.needs.split()}
    | {"view_payload", "change_job", "add_schedule", "change_schedule", "delete_schedule"}
)


@pytest.fixture
def sign_in(django_user_model):
    def sign_in(*codenames, is_staff=True, **options):
        name = f"user {django_user_model.objects.count()}"
        user = django_user_model.objects.create_user(name, is_staff=is_staff)
        user.user_permissions.set(permissions(*codenames) if codenames else ())
        client = Client(**options)
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def watcher(sign_in):
    return sign_in(*VIEWS)


def address(name):
    """The address of a name, and a new row for it if it takes one."""
    make = TABLE[name].row
    return reverse(f"admin:{name}", args=[make()] if make else [])


def dump():
    models = apps.get_app_config("django_claimq").get_models()
    return {model: list(model._base_manager.order_by("pk").values()) for model in models}


def changes(client, method, target, data=None) -> tuple[Any, bool]:
    """The answer, and whether anything of ours was changed; if so the admin's log tells of it."""
    before, logged = dump(), LogEntry.objects.count()
    response = getattr(client, method)(target, data)
    has_changed = dump() != before
    assert has_changed == (LogEntry.objects.count() > logged), response
    return response, has_changed


@contextmanager
def undone():
    """Take back what is written meanwhile: the next address of a test is not to meet it."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def test_every_address_is_in_the_table():
    assert {pattern.name for _, pattern in patterns(admin.site)} == TABLE.keys()


def test_every_action_of_the_list_is_in_the_table(rf, admin_user):
    request = rf.get("/")
    request.user = admin_user
    for model in (Job, Queue, Schedule, Error):
        found = admin.site.get_model_admin(model).get_actions(request)
        assert found.keys() == (ACTIONS.keys() if model is Job else set())


@pytest.mark.parametrize("method", ["get", "post", "head", "put"])
def test_who_is_not_signed_in_is_asked_to(client, method):
    for name in TABLE:
        with undone():
            data = getattr(TABLE[name], "data", {})
            target = address(name)
            response, changed = changes(client, method, target, data)
            assert response.status_code == 302, name
            assert response.url.startswith("/admin/login/"), name
            assert not changed, name


@pytest.mark.parametrize("is_staff", [True, False])
@pytest.mark.parametrize("method", ["get", "post", "head", "put"])
def test_who_may_nothing_is_refused(sign_in, method, is_staff):
    # Permissions do not help who is no member of staff.
    client = sign_in(*(() if is_staff else [*VIEWS, *PERMISSIONS]), is_staff=is_staff)
    for name in TABLE:
        with undone():
            data = getattr(TABLE[name], "data", {})
            target = address(name)
            response, changed = changes(client, method, target, data)
            assert response.status_code in ((403, 405) if is_staff else (302,)), name
            assert not changed, name


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_pages_are_shown_to_who_may_view_their_model(sign_in, view):
    client = sign_in(view)
    for name, one in TABLE.items():
        with undone():
            response, changed = changes(client, "get", address(name))
            is_shown = isinstance(one, Page) and one.view == view
            assert (response.status_code == 200) == is_shown, name
            assert not changed, name


@pytest.mark.parametrize("method", ["get", "post", "head", "put", "patch", "delete", "options"])
def test_who_may_only_view_changes_nothing(watcher, method):
    for name, one in TABLE.items():
        with undone():
            target = address(name)
            data = getattr(one, "data", {})
            response, changed = changes(watcher, method, target, data)
            assert not changed, name
            if not isinstance(one, Page):
                assert response.status_code in (403, 405), name


def test_who_may_only_view_is_offered_nothing(watcher):
    acts = {name.rpartition("_")[2] for name in ACTS}
    for name, one in TABLE.items():
        if isinstance(one, Page):
            with undone():
                page = Markup(watcher.get(address(name)).content.decode())
                for element in page.root.within():
                    target = "".join(element.attrs.get(at, "") for at in ("action", "formaction"))
                    assert target in ("", "?", "/admin/logout/"), (name, target)
                    link = element.attrs.get("href", "").partition("?")[0].rstrip("/")
                    assert link.rpartition("/")[2] not in acts, (name, link)
                    assert element.attrs.get("name") != "action", name


@pytest.mark.parametrize("permission", PERMISSIONS)
def test_a_permission_allows_its_own_acts_and_no_other(sign_in, permission):
    client = sign_in(*VIEWS, permission)
    for name, act in ACTS.items():
        with undone():
            target = address(name)
            response, changed = changes(client, "post", target, act.data)
            assert changed == act.is_allowed(permission), (name, response)
            assert response.status_code == (302 if changed else 403), name


def test_an_act_with_two_permissions_takes_both(sign_in):
    for name, act in ACTS.items():
        client = sign_in(*VIEWS, *act.needs.split())
        with undone():
            _, changed = changes(client, "post", address(name), act.data)
            assert changed, name


@pytest.mark.parametrize("permission", PERMISSIONS)
def test_without_the_permission_to_view_an_act_is_refused(sign_in, permission):
    client = sign_in(permission)
    for name, act in ACTS.items():
        with undone():
            target = address(name)
            response, changed = changes(client, "post", target, act.data)
            assert (response.status_code, changed) == (403, False), name


@pytest.mark.parametrize("method", ["get", "head", "put", "patch", "delete", "options"])
def test_only_a_post_has_an_effect(admin_client, method):
    for name, one in TABLE.items():
        with undone():
            target = address(name)
            data = getattr(one, "data", {})
            response, changed = changes(admin_client, method, target, data)
            assert not changed, name
            if method == "get" and isinstance(one, Act):
                assert response.status_code == (200 if one.shows else 405), name


def test_a_post_to_what_is_no_act_has_no_effect(admin_client):
    for name, one in TABLE.items():
        if not isinstance(one, Act):
            with undone():
                target = address(name)
                data = {"task": "a.b", "state": "READY", "post": "yes", "_save": "1"}
                _, changed = changes(admin_client, "post", target, data)
                assert not changed, name


@pytest.mark.parametrize("name", ACTS)
def test_an_act_needs_the_token_of_a_form(admin_user, name):
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    target, data = address(name), ACTS[name].data
    response, changed = changes(client, "post", target, data)
    assert (response.status_code, changed) == (403, False)
    client.get(JOBS)
    token = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    response, changed = changes(client, "post", target, data | token)
    assert (response.status_code, changed) == (302, True)


@pytest.mark.parametrize("name", [name for name, act in ACTS.items() if act.row])
def test_an_act_on_what_is_not_there_is_refused(admin_client, name):
    nothing = uuid7() if "_job_" in name else "nothing"
    target = reverse(f"admin:{name}", args=[nothing])
    response, changed = changes(admin_client, "post", target, ACTS[name].data)
    assert not changed
    # Django's own way to delete leads to the index.
    assert response.status_code in ((302,) if name.endswith("_delete") else (404,))


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("permission", PERMISSIONS)
def test_an_action_of_the_list_needs_its_permission(sign_in, action, permission):
    client = sign_in("view_job", permission)
    needs, state, data = ACTIONS[action]
    sent = {"action": action, "_selected_action": [JobFactory(state=state).pk], **CONFIRMED}
    is_offered = f'<option value="{action}">' in client.get(JOBS).content.decode()
    assert is_offered == (needs == permission)
    _, changed = changes(client, "post", JOBS, sent | data)
    assert changed == (needs == permission)


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_of_the_list_needs_the_permission_to_view(sign_in, action):
    needs, state, data = ACTIONS[action]
    client = sign_in(needs)
    sent = {"action": action, "_selected_action": [JobFactory(state=state).pk], **CONFIRMED}
    response, changed = changes(client, "post", JOBS, sent | data)
    assert (response.status_code, changed) == (403, False)


def test_every_form_that_acts_has_its_token(admin_client):
    forms = 0
    for name, one in TABLE.items():
        if isinstance(one, Page) or getattr(one, "shows", False):
            with undone():
                page = Markup(admin_client.get(address(name)).content.decode())
            for form in page.root.within():
                if form.tag == "form" and form.attrs.get("method", "").lower() == "post":
                    names = {part.attrs.get("name") for part in form.within()}
                    assert "csrfmiddlewaretoken" in names, (name, form)
                    forms += 1
    assert forms > len(TABLE) / 2
