from huey import PostgresHuey, RedisHuey

from benchmarks.context import Context
from benchmarks.probe import hit

here = Context.here()
if here.variant == "redis":
    huey = RedisHuey("bench", url=here.url)
else:
    huey = PostgresHuey("bench", dsn=here.url)


@huey.task()
def noop(number):
    hit(number)
