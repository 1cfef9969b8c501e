from django.tasks import task

from benchmarks.probe import hit


@task
def noop(number):
    hit(number)
