"""What a queue tells beyond Django's own task_enqueued, task_started, task_finished.

Each is sent after its transition held in the database. The sender is the backend's
class; a receiver that raises is logged and harms nothing.
"""

from django.dispatch import Signal

# An attempt ended without success and another is due. Arguments: task_result, delay.
job_retried = Signal()
# The task asked to run later. Arguments: task_result, delay.
job_snoozed = Signal()
# A job that had been running was cancelled. Arguments: task_result.
job_cancelled = Signal()
# Stale jobs were returned to READY or failed. Arguments: count.
jobs_rescued = Signal()
# A run's outcome was refused, since its claim had been lost. Arguments: job_id, fence.
claim_lost = Signal()
# Arguments of both: worker_id.
worker_started = Signal()
worker_stopped = Signal()
