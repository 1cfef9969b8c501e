"""Tasks that try out what runs them: event loop, processes of their own, stopping, connections."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import locale
import os
import socket
import subprocess
import sys
import threading
import time
from contextvars import ContextVar
from datetime import timedelta

from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django.utils import timezone, translation

from django_claimq import Cancel, Fail, Retry, Snooze, carried, task
from django_claimq.models import Job
from tests.fault_tasks import AT_ONCE, count, note

LATER = timedelta(hours=1)
_PAUSE = 0.02


def _endless_query():
    """Ask the database for something that it would not be done with today."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_sleep(3600)")
        else:
            cursor.execute(
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
                "SELECT count(*) FROM n"
            )


async def _opened(gate):
    while not os.path.exists(gate):
        await asyncio.sleep(_PAUSE)


# What runs past its timeout, or is cancelled.


@task(takes_context=True, timeout=1, max_attempts=2, backoff=AT_ONCE)
def query_too_long(context):
    note(context, "begin")
    _endless_query()


@task(takes_context=True, timeout=1, max_attempts=2, backoff=AT_ONCE)
async def await_too_long(context):
    note(context, "begin")
    await asyncio.sleep(3600)


@task(takes_context=True, timeout=1, max_attempts=2, backoff=AT_ONCE)
async def await_query_too_long(context):
    note(context, "begin")
    await sync_to_async(_endless_query)()


@task(takes_context=True, timeout=1, max_attempts=2, backoff=AT_ONCE)
async def query_after_all(context):
    """The thread asks the database only when its coroutine has been cancelled already."""
    note(context, "begin")

    def query():
        while not context.stop_requested:
            time.sleep(_PAUSE)
        time.sleep(1)
        _endless_query()

    await sync_to_async(query)()


@task(takes_context=True, timeout=1, max_attempts=2, backoff=AT_ONCE)
def look_too_late(context):
    note(context, "begin")
    while True:
        context.raise_if_stopped()
        time.sleep(_PAUSE)


@task(takes_context=True, timeout=1)
def end_a_little_late(context):
    note(context, "begin")
    while not context.stop_requested:
        time.sleep(_PAUSE)
    time.sleep(1)
    return context.fence


@task(takes_context=True, timeout=1)
async def clean_up_for_a_while(context):
    """Needs longer to end than the worker waits before it tries again to stop a task."""
    note(context, "begin")
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(2)
        note(context, "cleaned up")


@task(takes_context=True, timeout=1)
async def make_do_at_the_timeout(context):
    note(context, "begin")
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(3600)
    return context.fence


@task(takes_context=True, timeout=None)
def run_a_query(context):
    note(context, "begin")
    _endless_query()


@task(takes_context=True, timeout=None)
def look_now_and_then(context):
    note(context, "begin")
    while True:
        context.raise_if_stopped()
        time.sleep(_PAUSE)


@task(takes_context=True, timeout=None)
async def wait_for_ever(context):
    note(context, "begin")
    await asyncio.sleep(3600)


@task(takes_context=True, timeout=None)
async def ahold(context, gate):
    """As fault_tasks.hold."""
    note(context, "begin")
    await _opened(gate)
    note(context, "end")
    return context.fence


@task(takes_context=True, max_attempts=3, backoff=AT_ONCE)
def fail_at(context, gate):
    note(context, "begin")
    while not os.path.exists(gate):
        time.sleep(_PAUSE)
    raise ValueError("it fails")


# In processes of their own.


@task(takes_context=True, isolate=True)
def isolated_look(context):
    note(context, "begin")
    while True:
        context.raise_if_stopped()
        time.sleep(_PAUSE)


@task(takes_context=True, isolate=True, timeout=None)
async def isolated_await(context):
    note(context, "begin")
    await asyncio.sleep(3600)


@task(takes_context=True, isolate=True, max_attempts=1)
def isolated_spin(context):
    note(context, "begin")
    while True:
        pass


@task(takes_context=True, isolate=True, timeout=2, max_attempts=2, backoff=AT_ONCE)
def isolated_spin_too_long(context):
    note(context, "begin")
    while True:
        pass


@task(takes_context=True, isolate=True, max_attempts=2, backoff=AT_ONCE)
def isolated_hold_gil(context, seconds):
    note(context, "begin")
    ctypes.PyDLL(None).sleep(seconds)
    note(context, "end")
    return context.fence


@task(takes_context=True, isolate=True)
def isolated_hold(context, gate):
    note(context, "begin")
    while not os.path.exists(gate):
        time.sleep(_PAUSE)
    note(context, "end")
    return context.fence


@task(takes_context=True, isolate=True)
def isolated_tell(context, *, noise="", size=0):
    """What it knows of itself, with something in the way of telling it."""
    note(context, "begin")
    print(noise)
    sys.stdout.flush()
    os.write(1, noise.encode())
    os.write(2, noise.encode())
    return {
        "attempt": context.attempt,
        "fence": context.fence,
        "has_deadline": context.deadline is not None,
        "language": translation.get_language(),
        "pid": os.getpid(),
        "filler": "x" * size,
    }


@task(takes_context=True, isolate=True)
async def isolated_count_jobs(context):
    note(context, "begin")
    await asyncio.sleep(0)
    return await Job.objects.acount()


class OddError(Exception):
    pass


@task(takes_context=True, isolate=True, max_attempts=3, backoff=AT_ONCE)
def isolated_end(context, how):
    """End each of the first attempts in this way, and the third one well."""
    note(context, "begin")
    if context.attempt == 3:
        return context.fence
    faulthandler.disable()
    match how:
        case "raise":
            raise OddError(f"attempt {context.attempt} \0 \udcff")
        case "retry":
            raise Retry
        case "snooze":
            raise Snooze(3600)
        case "fail":
            raise Fail("no use")
        case "cancel":
            raise Cancel("no need")
        case "segfault":
            faulthandler._sigsegv()
        case "leave":
            os._exit(0)
        case "exit":
            sys.exit(7)


@task(takes_context=True, isolate=True)
def isolated_leave_things(context, seconds):
    """Leave a thread that keeps the process alive, and a child with all its pipes."""
    note(context, "begin")
    threading.Thread(target=time.sleep, args=(seconds,)).start()
    child = subprocess.Popen(["sleep", str(seconds)], close_fds=False)
    return child.pid


@task(takes_context=True, isolate=True, memory_limit="400MB", max_attempts=1)
def isolated_hoard(context, size):
    note(context, "begin")
    return len(bytearray(size))


# On the event loop.

_inside = 0
_most_inside = 0
_unset = "not set by the job before"
_leaking = ContextVar("leaking", default=_unset)


@task(takes_context=True)
async def crowd(context, gate):
    """Tell how many of its kind were there at most, together with itself."""
    global _inside, _most_inside
    _inside += 1
    _most_inside = max(_most_inside, _inside)
    note(context, "begin")
    try:
        await _opened(gate)
        return _most_inside
    finally:
        _inside -= 1


def _transaction():
    with transaction.atomic():
        Job.objects.count()
        return _session()


def _session():
    """What tells the session of this thread's connection from others."""
    connection.ensure_connection()
    if connection.vendor == "postgresql":
        return connection.connection.info.backend_pid
    return threading.get_ident()


@task(takes_context=True)
async def use_orm(context):
    note(context, "begin")
    before = await sync_to_async(_session)()
    inside = await sync_to_async(_transaction)()
    jobs = await Job.objects.acount()
    another = await count.aenqueue()
    return {"sessions": [before, inside], "jobs": jobs, "enqueued": another.id}


@task(takes_context=True)
async def tell_surroundings(context):
    """What it finds around it; then it changes all that."""
    note(context, "begin")
    found = {
        "language": translation.get_language(),
        "time_zone": timezone.get_current_timezone_name(),
        "request_id": carried.request_id.get(),
        "leaked": _leaking.get(),
        "open": await sync_to_async(lambda: connection.in_atomic_block)(),
    }
    await asyncio.sleep(0.05)
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    carried.request_id.set("another")
    _leaking.set("leaked")
    await sync_to_async(transaction.set_autocommit)(False)
    await Job.objects.filter(queue_name="there is no such").aupdate(priority=0)
    return found


@task(takes_context=True)
def tell_surroundings_in_thread(context):
    note(context, "begin")
    found = {
        "language": translation.get_language(),
        "time_zone": timezone.get_current_timezone_name(),
        "request_id": carried.request_id.get(),
        "leaked": _leaking.get(),
    }
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    carried.request_id.set("another")
    _leaking.set("leaked")
    return found


@task(takes_context=True)
async def block_the_loop(context, seconds):
    note(context, "begin")
    time.sleep(seconds)
    return context.fence


@task(takes_context=True, max_attempts=1)
async def raise_badly(context, name, where):
    """Something that ends an event loop, from the task itself or from what it started."""
    note(context, "begin")
    error = {"KeyboardInterrupt": KeyboardInterrupt, "SystemExit": SystemExit}[name]

    async def fail():
        raise error

    def fail_in_thread():
        raise error

    match where:
        case "here":
            raise error
        case "gathered":
            await asyncio.gather(fail(), asyncio.sleep(1))
        case "thread":
            await sync_to_async(fail_in_thread)()
        case "callback":
            asyncio.get_running_loop().call_soon(fail_in_thread)
            await asyncio.sleep(0.1)
        case "stop":
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0.1)


# Greedy code.


@task(takes_context=True, max_attempts=2, backoff=AT_ONCE)
def hoard(context, size):
    note(context, "begin")
    return len(bytearray(size))


_hoarded = []


@task(takes_context=True)
def grow(context, size):
    note(context, "begin")
    _hoarded.append(os.urandom(1000) * (size // 1000))
    return os.getpid()


@task(takes_context=True, timeout=1, max_attempts=1)
def spin(context):
    note(context, "begin")
    while True:
        pass


@task(takes_context=True, timeout=1, max_attempts=1)
def hang_in_c(context):
    note(context, "begin")
    ctypes.CDLL(None).sleep(3600)


@task(takes_context=True, max_attempts=3)
def hold_gil(context, seconds):
    """Only the first attempt holds it."""
    note(context, "begin")
    if context.attempt == 1:
        ctypes.PyDLL(None).sleep(seconds)
    note(context, "end")
    return context.fence


@task(takes_context=True)
def spin_for(context, seconds):
    note(context, "begin")
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        pass
    note(context, "end")
    return context.fence


@task
def nap(seconds):
    """Needs no file, not even to note something."""
    time.sleep(seconds)
    return seconds


_leaked = []


@task(takes_context=True)
def leak(context, what):
    note(context, "begin")
    match what:
        case "threads":
            for _ in range(50):
                threading.Thread(target=time.sleep, args=(3600,)).start()
        case "files":
            with contextlib.suppress(OSError):
                while True:
                    _leaked.append(os.open("/dev/null", os.O_RDONLY))
        case "children":
            for _ in range(5):
                _leaked.append(subprocess.Popen(["sleep", "3600"]))
    return len(_leaked)


@task(takes_context=True)
def change_process(context, folder):
    note(context, "begin")
    os.chdir(folder)
    socket.setdefaulttimeout(17)
    locale.setlocale(locale.LC_ALL, "C.UTF-8" if locale.setlocale(locale.LC_ALL) == "C" else "C")


@task(takes_context=True)
async def change_process_async(context, folder):
    note(context, "begin")
    os.chdir(folder)
    socket.setdefaulttimeout(17)


@task(takes_context=True)
def tell_process(context):
    note(context, "begin")
    return [os.getcwd(), socket.getdefaulttimeout(), locale.setlocale(locale.LC_ALL)]


@task(takes_context=True, max_attempts=1)
def change_signals(context):
    import signal

    note(context, "begin")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


# Connections.


@task(takes_context=True, max_attempts=1)
def kill_own_session(context):
    note(context, "begin")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@task(takes_context=True)
def kill_own_session_quietly(context):
    note(context, "begin")
    with contextlib.suppress(Exception), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    return context.fence


@task(takes_context=True)
def leave_transaction(context, how):
    note(context, "begin")
    marker = Job(task="left.behind", queue_name="reports")
    match how:
        case "begun":
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
            marker.save(force_insert=True)
        case "atomic":
            transaction.atomic().__enter__()
            marker.save(force_insert=True)
        case "aborted":
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
                with contextlib.suppress(Exception):
                    cursor.execute("SELECT 1 FROM there_is_no_such_table")
        case "autocommit off":
            transaction.set_autocommit(False)
            marker.save(force_insert=True)
        case "autocommit off, unused":
            transaction.set_autocommit(False)
        case "raw autocommit off":
            connection.ensure_connection()
            connection.connection.autocommit = False
            marker.save(force_insert=True)
    return _session()


@task(takes_context=True)
def tell_session(context):
    """Its session, and what is set there."""
    note(context, "begin")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        if connection.vendor != "postgresql":
            return {"autocommit": connection.get_autocommit()}
        found = {"session": _session(), "autocommit": connection.get_autocommit()}
        for name in ("statement_timeout", "search_path", "role", "default_transaction_read_only"):
            cursor.execute(f"SHOW {name}")
            found[name] = cursor.fetchone()[0]
        cursor.execute(
            "SELECT (SELECT count(*) FROM pg_listening_channels())"
            " + (SELECT count(*) FROM pg_prepared_statements WHERE from_sql)"
            " + (SELECT count(*) FROM pg_cursors)"
            " + (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            "      AND pid = pg_backend_pid())"
            " + (SELECT count(*) FROM pg_class WHERE relpersistence = 't'"
            "      AND pg_table_is_visible(oid))"
        )
        found["left"] = cursor.fetchone()[0]
    return found


@task(takes_context=True)
async def tell_session_async(context):
    note(context, "begin")
    return await sync_to_async(tell_session.func)(context)


@task(takes_context=True)
def change_session(context, statement, how="cursor"):
    note(context, "begin")
    with connection.cursor() as cursor:
        match how:
            case "cursor":
                cursor.execute(statement)
            case "composed":
                from psycopg import sql

                cursor.execute(sql.SQL(statement))
            case "raw":
                connection.connection.execute(statement)
    return _session()


@task(takes_context=True)
async def change_session_async(context, statement):
    note(context, "begin")
    return await sync_to_async(change_session.func)(context, statement)


@task(takes_context=True)
def use_threads(context, number, close):
    """Use the ORM in threads that end; with `close` they do it well."""
    note(context, "begin")

    def use():
        Job.objects.count()
        if close:
            connections.close_all()

    threads = [threading.Thread(target=use) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@task(takes_context=True)
def query_for(context, seconds):
    """Ask again and again, so that a session taken away would be noticed."""
    note(context, "begin")
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        Job.objects.count()
        time.sleep(_PAUSE)
    return context.fence


@task(takes_context=True, max_attempts=3)
def lock_own_row(context, gate, then=0):
    """Keep it locked until the file `gate` exists, and go on for so many seconds."""
    note(context, "begin")
    with transaction.atomic():
        Job.objects.select_for_update().get(id=context.job_id)
        note(context, "locked")
        while not os.path.exists(gate):
            time.sleep(_PAUSE)
    time.sleep(then)
    note(context, "end")
    return context.fence


@task(takes_context=True)
def change_own_row(context, how):
    note(context, "begin")
    row = Job.objects.filter(id=context.job_id)
    match how:
        case "delete":
            row.delete()
        case "finish":
            row.update(
                state="SUCCESSFUL",
                finished_at=timezone.now(),
                claimed_by=None,
                claimed_at=None,
                lease_expires_at=None,
                heartbeat_at=None,
            )
        case "steal":
            row.update(claimed_by="somebody else")
        case "fence":
            row.update(fence=context.fence + 1)
    return context.fence


@task(takes_context=True, max_attempts=1)
async def fork_on_loop(context):
    import warnings

    note(context, "begin")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Threads and forks.
        pid = os.fork()
    if pid == 0:
        raise ValueError("the child's")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@task(takes_context=True, max_attempts=1)
def fork(context, how):
    """Fork while connected; the child leaves in this way."""
    import warnings

    note(context, "begin")
    before = _session()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Threads and forks.
        pid = os.fork()
    if pid == 0:
        match how:
            case "at once":
                os._exit(0)
            case "after closing":
                connections.close_all()
                os._exit(0)
            case "exit":
                sys.exit(3)
            case "return":
                return "the child's"
            case "raise":
                raise ValueError("the child's")
    _, status = os.waitpid(pid, 0)
    Job.objects.count()
    assert _session() == before
    return os.waitstatus_to_exitcode(status)
