"""--reload: what a developer sees who edits code under a running worker."""

import textwrap
from datetime import timedelta

import pytest
from django.utils import timezone

from django_claimq.models import Job, Worker

pytestmark = [pytest.mark.process, pytest.mark.slow]

WAITING = "The code does not start: waiting for a change"

SETTINGS = """
    from tests.settings import *
    INSTALLED_APPS = [*INSTALLED_APPS, "shop.apps.ShopConfig"]
    DEBUG = env.bool("SHOP_DEBUG")
"""
APPS = """
    from django.apps import AppConfig

    class ShopConfig(AppConfig):
        name = "shop"

        def ready(self):
            from shop import tasks
"""
TASKS = """
    import os, time
    from django_claimq import task

    @task
    def version():
        return {version}

    @task
    def wait_for(gate):
        while not os.path.exists(gate):
            time.sleep(0.02)
        return {version}
"""


class Project:
    """A project of its own, with one app that a test edits."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "shop").mkdir(parents=True)
        self.write("shop/__init__.py", "")
        self.write("shop/apps.py", APPS)
        self.write("shop_settings.py", SETTINGS)
        self.release(1)

    def write(self, path, text):
        (self.folder / path).write_text(textwrap.dedent(text))

    def release(self, version):
        self.write("shop/tasks.py", TASKS.format(version=version))

    def start(self, workers, *arguments, debug):
        return workers.start(
            *("-c", "2", *arguments),
            DJANGO_SETTINGS_MODULE="shop_settings",
            SHOP_DEBUG=str(debug),
            PYTHONPATH=str(self.folder),
            # Python tells old byte code from new by whole seconds only.
            PYTHONDONTWRITEBYTECODE="1",
            CLAIMQ_LEASE="300",
            CLAIMQ_HEARTBEAT="1",
        )


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


def enqueue(task, *args):
    return Job.objects.create(task=f"shop.tasks.{task}", args=args)


def result_of(workers, job, worker):
    workers.until(lambda: Job.objects.get(id=job.id).is_finished, "the job's end", worker)
    return Job.objects.get(id=job.id).result


def until_started(workers, worker):
    workers.until(lambda: workers.row_of(worker), "a process that works", worker)


def test_edited_code_is_running_within_seconds(workers, project, gate):
    """On by default while DEBUG is; what runs is finished, or released with its attempt."""
    worker = project.start(workers, debug=True)
    until_started(workers, worker)
    assert "reload on" in worker.log
    assert result_of(workers, enqueue("version"), worker) == 1

    # A job that does not end soon is given back to run in the new code.
    slow = enqueue("wait_for", str(gate))
    workers.until(lambda: Job.objects.filter(id=slow.id).running().exists(), "the claim", worker)
    old = worker.children
    project.release(2)
    workers.until_logged(worker, "tasks.py has changed: starting again")
    workers.until(lambda: Job.objects.filter(id=slow.id, fence=2).exists(), "its next", worker)
    assert worker.children != old
    gate.touch()
    assert result_of(workers, slow, worker) == 2
    row = Job.objects.get(id=slow.id)
    assert (row.attempt, row.crashes, row.history) == (1, 0, [])

    # A slip of the pen, and its repair.
    project.write("shop/tasks.py", "def (:")
    workers.until_logged(worker, WAITING)
    assert "SyntaxError" in worker.log
    job = enqueue("version")
    project.release(3)
    until_started(workers, worker)
    assert result_of(workers, job, worker) == 3
    assert worker.stop() == 0
    assert not Worker.objects.exists()


def test_a_repair_in_a_file_that_is_new_is_noticed_too(workers, project):
    """The supervisor itself has loaded none of these files."""
    worker = project.start(workers, "--reload", debug=False)
    until_started(workers, worker)
    assert "reload on" in worker.log
    project.write("shop/tasks.py", "from shop.prices import version\n")
    workers.until(lambda: worker.log.count(WAITING) == 1, "the failure", worker)
    project.write("shop/prices.py", "def (:")
    workers.until(lambda: worker.log.count(WAITING) == 2, "the next one", worker)
    project.write("shop/prices.py", textwrap.dedent(TASKS).format(version=7))
    until_started(workers, worker)
    assert result_of(workers, enqueue("version"), worker) == 7
    assert worker.stop() == 0


def test_without_debug_or_with_no_reload_code_is_left_as_it_is(workers, project):
    """Both workers see the edit, and neither cares."""
    pair = [
        project.start(workers, "--queues", "default", debug=False),
        project.start(workers, "--queues", "mail", "--no-reload", debug=True),
    ]
    workers.until(lambda: Worker.objects.count() == 2, "two rows", *pair)
    before = [worker.children for worker in pair]
    project.release(2)
    until = timezone.now() + timedelta(seconds=3)  # It looks once a second.
    beating = Worker.objects.filter(heartbeat_at__gt=until)
    workers.until(lambda: beating.count() == 2, "heartbeats", *pair)
    assert [worker.children for worker in pair] == before
    for worker in pair:
        assert "reload on" not in worker.log
        assert worker.stop() == 0
