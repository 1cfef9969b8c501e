from django_claimq.models.job import Job
from django_claimq.models.worker import Worker

__all__ = ["Job", "Worker"]
