"""What the pages call the columns of a job, and how its attempts ended."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

LABELS: dict[str, Any] = {
    "id": _("id"),
    "task": _("task"),
    "queue_name": _("queue"),
    "backend": _("backend"),
    "priority": _("priority"),
    "args": _("args"),
    "kwargs": _("kwargs"),
    "result": _("result"),
    "checkpoint": _("checkpoint"),
    "steps": _("steps"),
    "history": _("history"),
    "progress": _("progress"),
    "tags": _("tags"),
    "metadata": _("metadata"),
    "concurrency_key": _("concurrency key"),
    "unique_until": _("unique until"),
    "enqueued_at": _("enqueued at"),
    "run_after": _("run after"),
    "started_at": _("started at"),
    "last_attempted_at": _("last attempted at"),
    "finished_at": _("finished at"),
    "cancel_requested_at": _("cancel requested at"),
    "expires_at": _("expires at"),
    "claimed_by": _("claimed by"),
    "finished_by": _("finished by"),
    "fence": _("fence"),
    "crashes": _("crashes"),
    "claimed_at": _("claimed at"),
    "heartbeat_at": _("heartbeat at"),
    "lease_expires_at": _("lease expires at"),
}

_OUTCOMES: dict[str, Any] = {
    "successful": _("successful"),
    "failed": _("failed"),
    "retried": _("retried"),
    "cancelled": _("cancelled"),
    "lost": _("lost"),
    "running": _("running"),
}


def outcome(stored: str) -> str:
    """The word of a history; as it is stored where it is none of ours."""
    return str(_OUTCOMES.get(stored, stored))
