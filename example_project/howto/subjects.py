"""The code of docs/howto/jobs-of-a-row.md, where the row is a census."""

# -- enqueue
from django.contrib import admin

from django_claimq import task
from django_claimq.admin import JobInline
from django_claimq.models import Job
from django_claimq.states import FINISHED
from example_project.census.models import Census


@task
def summarise(census_id: int) -> int:
    return Census.objects.get(pk=census_id).files.count()


def summarise_later(census: Census) -> str:
    return summarise.using(subject=census).enqueue(census.pk).id


# -- find
def is_busy(census: Census) -> bool:
    return Job.objects.for_subject(census).exclude(state__in=FINISHED).exists()


def give_up(census: Census) -> int:
    return Job.objects.for_subject(census).cancel()


# -- delete
@task(on_subject_delete="cancel")
def clean_up(census_id: int) -> None:
    Census.objects.get(pk=census_id).files.filter(reports=None).delete()


# -- inline
class CensusAdmin(admin.ModelAdmin):
    inlines = [JobInline]


# -- fewer
class NewestJob(JobInline):
    limit = 1


# -- end
