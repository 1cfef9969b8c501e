"""The tasks of the tests in this folder."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.utils import translation

from django_claimq import Cancel, Fail, Retry, Snooze, Steps, crash_point, task
from tests.models import Effect

VERDICTS = {
    "retry": lambda: Retry(60),
    "snooze": lambda: Snooze(60),
    "cancel": lambda: Cancel("not wanted"),
    "fail": lambda: Fail("hopeless"),
}


@task
def write(what: str) -> str:
    Effect.objects.create(what=what)
    return what


@task(priority=10, queue_name="mail", tags=["billing", "yearly"])
def send(to: str, *, subject: str = "Hello") -> None: ...


@task(atomic=True)
def write_atomically(what: str) -> None:
    Effect.objects.create(what=what)
    crash_point("written")


@task(atomic=True)
def write_atomically_and_fail(what: str) -> None:
    Effect.objects.create(what=what)
    raise ValueError("it fails")


@task
async def write_async(what: str) -> bool:
    await Effect.objects.acreate(what=what)
    crash_point("written")
    return await sync_to_async(lambda: connection.in_atomic_block)()


@task(atomic=True)
async def write_async_atomically(what: str) -> None:
    await Effect.objects.acreate(what=what)
    crash_point("written")


@task(isolate=True)
def write_isolated(what: str) -> None:
    Effect.objects.create(what=what)


@task
def chain(count: int) -> None:
    Effect.objects.create(what=str(count))
    if count:
        chain.enqueue(count - 1)


@task
def endless() -> None:
    endless.enqueue()


@task(max_attempts=3, backoff=Steps([60, 3600], jitter=0))
def write_and_fail(what: str = "tried") -> None:
    Effect.objects.create(what=what)
    raise ValueError("it fails")


@task(max_attempts=2, sensitive=["password"])
def sign_in(user: str, password: str, *rest: str) -> None:
    raise PermissionError(f"{user} cannot sign in with {password}")


@task
def verdict(name: str) -> None:
    raise VERDICTS[name]()


@task(max_attempts=1)
def break_transaction(kind: str) -> None:
    Effect.objects.create(what="before")
    transaction.on_commit(lambda: None)
    if kind == "duplicate":
        Group.objects.create(name="taken")
        Group.objects.create(name="taken")
    elif kind == "raw":
        with connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column FROM claimq_job")
    else:
        transaction.atomic().__enter__()


@task
def hook() -> None:
    transaction.on_commit(lambda: write.enqueue("from a hook"))


@task
def tell_language() -> str:
    found = translation.get_language()
    translation.activate("fr")
    return found


@task(expires=timedelta(minutes=30))
def expiring() -> None: ...


@task(takes_context=True)
def noted(context: Any) -> Any:
    before = context.checkpoint
    context.progress(1, 2, "half")
    context.save_checkpoint("reached")
    crash_point("noted")
    return before


@task(takes_context=True)
def charge_once(context: Any) -> None:
    context.step("charge", charged)
    crash_point("charged")
    Effect.objects.create(what="told")


def charged() -> str:
    Effect.objects.create(what="charged")
    return "yes"


@task
def crash_or_log() -> None:
    try:
        crash_point("tried")
    except Exception:
        Effect.objects.create(what="survived")


@task
def crash_in_vain() -> None:
    try:
        crash_point("tried")
    except BaseException:
        Effect.objects.create(what="survived")


@task(on_crash="fail")
def crash_for_good() -> None:
    crash_point("there")


@task
def create_user(name: str) -> None:
    User.objects.get_or_create(username=name)


@task
async def create_user_async(name: str) -> None:
    await User.objects.aget_or_create(username=name)


@task(atomic=True)
def create_user_atomically(name: str) -> None:
    User.objects.get_or_create(username=name)


@task
def rename_user(name: str) -> None:
    user = User.objects.get(username__startswith=name)
    user.username += "!"
    user.last_name += "?"
    user.save()


@task
def replace_groups() -> None:
    Group.objects.all().delete()
    Group.objects.create(name="new")


@task
def create_group(name: str) -> None:
    Group.objects.create(name=name)


@task(takes_context=True)
def write_at_first(context: Any) -> None:
    if context.attempt == 1:
        Effect.objects.create(what="first")


@task(takes_context=True)
def step_by_step(context: Any) -> None:
    context.step("charge", charged)


@task(typed=True)
def remind(user: User, amount: Decimal, due: date | None = None) -> str:
    return f"{user.username} {amount} {due}"


@task(unique_key="user-{user}")
def welcome(user: int) -> None: ...


@task(takes_context=True, timeout="5m", typed=True)
def everything(context: Any, amount: Decimal) -> dict[str, Any]:
    context.progress(1, 2)
    context.save_checkpoint({"page": 1})
    with context.fenced():
        stepped = context.step("count", lambda: 3)
    return {
        "amount": str(amount),
        "attempt": context.attempt,
        "checkpoint": context.checkpoint,
        "stepped": stepped,
        "stop": context.stop_requested,
        "timed": context.deadline is not None,
        "id": str(context.job_id) == context.task_result.id,
    }


@task(takes_context=True)
async def everything_async(context: Any) -> Any:
    await context.asave_checkpoint(1)
    return [context.checkpoint, await context.astep("one", answer)]


async def answer() -> int:
    return 42
