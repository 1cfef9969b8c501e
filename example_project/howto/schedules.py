"""The code of docs/howto/schedules.md."""

from __future__ import annotations

from datetime import timedelta

# -- beside
from django_claimq import schedule, task


@schedule("30 4 * * *", tz="Europe/Paris")
@task
def clean_up():
    return "clean"


@schedule(every="15m", jitter="30s", catch_up="skip")
@task(queue_name="reports")
def refresh(what="all"):
    return what


# -- settings
SCHEDULES = {
    "vacuum": {"task": "example_project.howto.schedules.clean_up", "every": "1d"},
    "newsletter": {
        "task": "example_project.howto.schedules.send_newsletter",
        "cron": "0 9 * * MON",
        "tz": "Europe/Berlin",
        "kwargs": {"list_name": "customers"},
        "priority": 10,
    },
}


# -- rows
from django_claimq import schedulable  # noqa: E402


@schedulable
@task
def send_newsletter(list_name):
    return list_name


# -- slot
@schedule("0 1 1 * *", name="monthly bill", tz="America/New_York", catch_up="all")
@task(takes_context=True)
def bill(context):
    month = context.slot - timedelta(days=1)
    return f"{month:%Y-%m}"


# -- end
