"""The addresses of our admin pages, as the URLconf of a site has them."""

from __future__ import annotations

from django.apps import apps
from django.urls import reverse
from django.urls.resolvers import URLPattern

from django_claimq.models.error import Error
from django_claimq.models.queue import Queue
from django_claimq.models.schedule import Schedule, Slot
from tests.factories import JobFactory, WorkerFactory, ago, ended_attempt

FINGERPRINT = "0" * 32


def make_rows():
    """A row of each model; by its name the key that addresses take."""
    ended = [ended_attempt()]
    job = JobFactory(state="FAILED", history=ended, error_fingerprint=FINGERPRINT, args=[1])
    worker = WorkerFactory(id="worker-1")
    queue = Queue.objects.create(name="mail", paused_at=ago(minutes=1), paused_by="her")
    error = Error.objects.create(
        fingerprint=FINGERPRINT, task=job.task, exception="builtins.ValueError", job_id=job.pk
    )
    JobFactory(state="RUNNING", claimed_by=worker.pk)
    schedule = Schedule.objects.create(name="nightly", task=job.task, cron="30 4 * * *")
    Slot.objects.create(schedule="nightly", at=ago(hours=1), job_id=job.pk)
    rows = (job, worker, queue, error, schedule)
    return {row._meta.model_name: str(row.pk) for row in rows}


def patterns(site) -> list[tuple[str, URLPattern]]:
    """Model and pattern of each address of ours that has a name."""
    models = apps.get_app_config("django_claimq").get_models()
    return [
        (model._meta.model_name, pattern)
        for model in models
        if site.is_registered(model)
        for pattern in site.get_model_admin(model).urls
        if pattern.name
    ]


def address(site, model, pattern, rows):
    """The address of a page, with the key of the model's row where it takes one."""
    arguments = dict.fromkeys(pattern.pattern.converters, rows[model])
    return reverse(f"admin:{pattern.name}", kwargs=arguments, current_app=site.name)


def get_pages(client, site, rows):
    """Name and answer of each address that answers a GET with a page."""
    for model, pattern in patterns(site):
        response = client.get(address(site, model, pattern, rows))
        if response.status_code == 200:
            yield pattern.name, response
