"""What became of a job, as phases and as a strip of bars."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from django_claimq.admin.timeline import ATTEMPTS, Kind, phases, stored_time
from django_claimq.admin.timeline_strip import bars, rendered
from django_claimq.states import State

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


def ended(outcome, start, end, attempt=1, worker="w1"):
    return {
        "attempt": attempt,
        "worker": worker,
        "outcome": outcome,
        "started_at": at(start).isoformat(),
        "finished_at": at(end).isoformat(),
    }


def job(state, *, run_after=0, **columns):
    times = dict.fromkeys(("claimed_at", "last_attempted_at", "finished_at"))
    names = dict.fromkeys(("claimed_by", "finished_by"))
    defaults = {"state": state, "enqueued_at": T0, "run_after": at(run_after), "attempt": 1}
    return SimpleNamespace(**times | names | defaults | columns)


def told(job, history=(), now=100):
    """Kind, length and outcome of each phase."""
    return [(one.kind, one.length, one.outcome) for one in phases(job, list(history), at(now))]


def test_a_job_that_is_due_has_waited_since_its_enqueue():
    assert told(job(State.READY)) == [(Kind.WAITED, 100, "")]


def test_a_scheduled_job_waits_for_its_time():
    assert told(job(State.SCHEDULED, run_after=500)) == [(Kind.SCHEDULED, 500, "")]
    assert told(job(State.READY, run_after=40)) == [
        (Kind.SCHEDULED, 40, ""),
        (Kind.WAITED, 60, ""),
    ]


def test_a_running_job_runs_until_now():
    running = job(State.RUNNING, claimed_at=at(70), claimed_by="w2")
    assert told(running) == [(Kind.WAITED, 70, ""), (Kind.RAN, 30, "running")]
    assert phases(running, [], at(100))[-1].worker == "w2"


def test_a_successful_job_ends_with_its_last_run():
    done = job(
        State.SUCCESSFUL,
        run_after=30,
        attempt=2,
        last_attempted_at=at(50),
        finished_at=at(51),
        finished_by="w3",
    )
    assert told(done, [ended("retried", 5, 8)]) == [
        (Kind.WAITED, 5, ""),
        (Kind.RAN, 3, "retried"),
        (Kind.BACKOFF, 22, ""),
        (Kind.WAITED, 20, ""),
        (Kind.RAN, 1, "successful"),
    ]
    assert phases(done, [], at(100))[-1].worker == "w3"


def test_a_job_that_was_requeued_rested_until_then():
    again = job(State.READY, run_after=60)
    assert told(again, [ended("failed", 1, 2)], now=70) == [
        (Kind.WAITED, 1, ""),
        (Kind.RAN, 1, "failed"),
        (Kind.RESTED, 58, ""),
        (Kind.WAITED, 10, ""),
    ]


def test_a_job_that_was_cancelled_before_it_began_only_waited():
    assert told(job(State.CANCELLED, finished_at=at(9))) == [(Kind.WAITED, 9, "")]
    soon = job(State.CANCELLED, run_after=50, finished_at=at(9))
    assert told(soon) == [(Kind.SCHEDULED, 9, "")]


@pytest.mark.parametrize(
    ("state", "outcome"), [(State.FAILED, "failed"), (State.CANCELLED, "cancelled")]
)
def test_nothing_follows_the_run_that_ended_the_job_though_clocks_differ(state, outcome):
    done = job(state, finished_at=at(9))
    assert told(done, [ended(outcome, 5, 8)])[-1] == (Kind.RAN, 3, outcome)
    later = job(State.CANCELLED, run_after=20, finished_at=at(15))
    assert told(later, [ended("retried", 5, 8)])[-1] == (Kind.BACKOFF, 7, "")


def test_older_attempts_are_summed_up():
    history = [ended("retried", 10 * n, 10 * n + 1, attempt=n) for n in range(1, 51)]
    found = phases(job(State.FAILED, run_after=500, finished_at=at(501)), history, at(999))
    assert [one.attempt for one in found if one.kind is Kind.RAN] == [str(n) for n in range(31, 51)]
    assert (found[0].kind, found[0].attempt, found[0].length) == (Kind.OLDER, "30", 301)
    running = job(State.RUNNING, claimed_at=at(600), attempt=51, run_after=510)
    found = phases(running, history, at(700))
    assert len([one for one in found if one.kind is Kind.RAN]) == ATTEMPTS
    assert found[0].attempt == "31"


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        "x",
        [],
        {},
        {"started_at": "yesterday", "finished_at": 5, "outcome": ["x"], "worker": {"a": 1}},
        {"started_at": "2026-13-45T99:00:00", "finished_at": "0001-01-01T00:00:00+23:59"},
        {"started_at": "9999-12-31T23:59:59-23:59", "finished_at": "0001-01-01T00:00:00"},
        {"started_at": at(50).isoformat(), "finished_at": at(10).isoformat()},
        {"started_at": at(-500).isoformat(), "finished_at": at(5000).isoformat()},
        {"started_at": "2026-03-01T12:00:05", "finished_at": "2026-03-01T12:00:06"},
    ],
)
@pytest.mark.parametrize("state", State.values)
def test_times_that_are_missing_or_contradict_each_other_are_shown_as_unknown(entry, state):
    odd = job(state, last_attempted_at=at(9), finished_at=at(3), claimed_at=None, run_after=-9000)
    found = phases(odd, [entry] * 30, at(100))
    assert all(one.length is None or one.length >= 0 for one in found)
    assert "<svg" in rendered(found)


def test_what_is_stored_as_a_time_is_read_in_bounds_only():
    assert stored_time(at(0).isoformat()) == T0
    assert stored_time("2026-03-01T12:00:00") == T0
    for odd in (None, 7, "", "x", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59"):
        assert stored_time(odd) is None


# The strip


def percentages(value):
    return [float(one.rstrip("%")) for one in value]


def test_a_strip_shows_milliseconds_beside_days():
    days = job(
        State.SUCCESSFUL,
        last_attempted_at=at(259_200),
        finished_at=at(259_200.012),
    )
    wait, ran = bars(phases(days, [], at(300_000)))
    assert (wait.length, ran.length) == ("3d", "12ms")
    assert percentages([ran.width])[0] >= 3
    assert percentages([wait.width])[0] > percentages([ran.width])[0]


@pytest.mark.parametrize("count", [1, 2, 20, 50])
def test_the_bars_fill_the_strip_from_end_to_end(count):
    history = [ended("retried", 10 * n, 10 * n + n % 3, attempt=n) for n in range(1, count + 1)]
    found = bars(phases(job(State.READY, run_after=10 * count + 9), history, at(9000)))
    end = 0.0
    for bar in found:
        x, width, middle = percentages([bar.x, bar.width, bar.middle])
        assert x == pytest.approx(end, abs=0.01)
        assert middle == pytest.approx(x + width / 2, abs=0.01)
        assert width > 0
        end = x + width
    assert end == pytest.approx(100, abs=0.1)


def test_hostile_names_are_escaped_and_choose_no_class():
    hostile = '"><script>alert(1)</script>\u202e'
    history = [ended(hostile, 1, 2, attempt=hostile, worker=hostile)]
    page = rendered(phases(job(State.FAILED, finished_at=at(2)), history, at(9)))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "claimq-phase-unknown" in page


def test_a_strip_has_a_text_alternative_and_the_same_as_a_table():
    page = rendered(phases(job(State.FAILED, finished_at=at(8)), [ended("failed", 5, 8)], at(9)))
    assert 'role="img"' in page
    assert "aria-label" in page
    assert page.count("<title>") == page.count("<tr>") - 1 == 2
    assert "Attempt 1 · 3s · failed · w1" in page
