from django.db.models import TextChoices
from django.utils.translation import pgettext_lazy


class State(TextChoices):
    # Its time has not come. A worker promotes it to READY when `run_after` passes.
    SCHEDULED = "SCHEDULED", pgettext_lazy("Job", "Scheduled")
    # Due, and free for any worker that serves its queue to claim.
    READY = "READY", pgettext_lazy("Job", "Ready")
    # Claimed by one worker until the lease expires; that worker settles it, or a
    # rescue returns it to READY.
    RUNNING = "RUNNING", pgettext_lazy("Job", "Running")
    # The task returned. Stays until it is pruned.
    SUCCESSFUL = "SUCCESSFUL", pgettext_lazy("Job", "Successful")
    # No attempt is left, or the task said so. Stays until requeued or pruned.
    FAILED = "FAILED", pgettext_lazy("Job", "Failed")
    # Stopped by a person or by the task itself. Stays until requeued or pruned.
    CANCELLED = "CANCELLED", pgettext_lazy("Job", "Cancelled")
    # Depends on other jobs. The settle of the last of them makes it READY.
    WAITING = "WAITING", pgettext_lazy("Job", "Waiting")


# Not begun, and not claimed by anyone: what a person may still change or cancel.
UNCLAIMED = (State.SCHEDULED, State.READY, State.WAITING)
ALIVE = (*UNCLAIMED, State.RUNNING)
FINISHED = (State.SUCCESSFUL, State.FAILED, State.CANCELLED)
