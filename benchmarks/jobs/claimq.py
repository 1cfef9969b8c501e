from benchmarks.probe import hit
from django_claimq import task


@task
def noop(number):
    hit(number)
