from celery import Celery

from benchmarks.context import Context
from benchmarks.probe import hit

# Redis listens on a unix socket, for which this library has a scheme of its own.
app = Celery("benchmarks", broker=Context.here().url.replace("unix:", "redis+socket:"))
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)


@app.task
def noop(number):
    hit(number)
