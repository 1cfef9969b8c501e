from procrastinate.contrib.django import app

from benchmarks.probe import hit


@app.task
async def noop(number):
    hit(number)
