"""The code of docs/howto/changing-jobs.md."""

# -- sets
from datetime import timedelta

from django_claimq import DuplicateJob
from django_claimq.models import Job


def after_an_outage() -> int:
    return Job.objects.failed().filter(task="shop.tasks.charge").requeue()


def make_room_on(queue_name: str) -> tuple[int, int]:
    waiting = Job.objects.due().filter(queue_name=queue_name, priority__lt=0)
    delayed = waiting.filter(task="shop.tasks.report").reschedule(timedelta(hours=6))
    return delayed, waiting.move(f"{queue_name}-slow")


# -- one
def hurry(job: Job) -> str:
    if job.reprioritise(100):
        return "It goes first."
    return f"Too late: it is {job.state}."


# -- async
async def call_off(job_id: str) -> bool:
    job = await Job.objects.aget(pk=job_id)
    return await job.acancel()


# -- duplicate
def run_again(job: Job) -> Job:
    try:
        return job.duplicate(priority=10)
    except DuplicateJob as error:
        return Job.objects.get(pk=error.job_id)


# -- end
