from django_claimq.models.error import Error
from django_claimq.models.job import Job
from django_claimq.models.queue import Queue
from django_claimq.models.schedule import Schedule, Slot
from django_claimq.models.statistic import Statistic
from django_claimq.models.worker import Worker

__all__ = ["Error", "Job", "Queue", "Schedule", "Slot", "Statistic", "Worker"]
