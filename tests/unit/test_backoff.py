from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_claimq.backoff import Exponential, Linear, Steps, delay_after
from django_claimq.durations import LONGEST

ERROR = RuntimeError("down")


def test_the_exponential_delay_doubles_and_stops_at_its_maximum():
    backoff = Exponential(max=60, jitter=0)
    assert [backoff(ERROR, attempt) for attempt in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]


def test_the_exponential_delay_varies_by_a_quarter_by_default():
    delays = [Exponential()(ERROR, 3) for _ in range(500)]
    assert 6 <= min(delays) < 7
    assert 9 < max(delays) <= 10


def test_jitter_comes_after_the_maximum():
    delays = [Exponential()(ERROR, 10_000) for _ in range(100)]
    assert min(delays) < 86_400 < max(delays) <= 86_400 * 1.25


@given(st.integers(min_value=1, max_value=10**9), st.floats(min_value=1, max_value=1000))
def test_no_attempt_is_too_many(attempt, factor):
    assert 0 <= Exponential(factor=factor, jitter=0)(ERROR, attempt) <= 86_400
    assert Exponential(base=0, factor=factor)(ERROR, attempt) == 0
    assert Linear("1h")(ERROR, attempt) <= 86_400
    assert Steps([5, 60])(ERROR, attempt) in {5, 60}


def test_the_linear_delay_grows_by_its_step():
    assert [Linear("10s", max=25)(ERROR, attempt) for attempt in (1, 2, 3)] == [10, 20, 25]


def test_the_last_step_repeats():
    backoff = Steps([5, "1m", timedelta(hours=1)])
    assert [backoff(ERROR, attempt) for attempt in range(1, 6)] == [5, 60, 3600, 3600, 3600]


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: Exponential(base="soon"), "base"),
        (lambda: Exponential(base=-1), "base"),
        (lambda: Exponential(factor=0.5), "factor"),
        (lambda: Exponential(factor=float("nan")), "factor"),
        (lambda: Exponential(factor=10**400), "factor"),
        (lambda: Exponential(factor="2"), "factor"),
        (lambda: Exponential(max=None), "max"),
        (lambda: Exponential(jitter=1.1), "jitter"),
        (lambda: Exponential(jitter=True), "jitter"),
        (lambda: Linear(True), "step"),
        (lambda: Linear(5, max="x"), "max"),
        (lambda: Linear(5, jitter=-0.1), "jitter"),
        (lambda: Steps([]), "delays"),
        (lambda: Steps("5s"), "delays"),
        (lambda: Steps(5), "delays"),
        (lambda: Steps([5, "soon"]), r"delays\[1\]"),
        (lambda: Steps([5], jitter=2), "jitter"),
    ],
)
def test_a_bad_parameter_is_named(make, parameter):
    with pytest.raises(ValueError, match=f"^{parameter}: "):
        make()


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Exponential(), "Exponential(base='1s', factor=2.0, max='1d', jitter=0.25)"),
        (Linear(90), "Linear(step='90s', max='1d', jitter=0.0)"),
        (Steps([5, 60, 3600]), "Steps(['5s', '1m', '1h'], jitter=0.0)"),
    ],
)
def test_a_policy_is_shown_as_it_may_be_written(policy, text):
    assert repr(policy) == text
    assert eval(text) == policy  # noqa: S307
    assert hash(eval(text)) == hash(policy)  # noqa: S307


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, None),
        (5, 5.0),
        (0.5, 0.5),
        (timedelta(minutes=1), 60.0),
        (-3, 0.0),
        (timedelta(seconds=-3), 0.0),
        (float("inf"), LONGEST),
        (10**400, LONGEST),
    ],
)
def test_the_answer_of_a_backoff_becomes_seconds_or_none(answer, expected):
    assert delay_after(lambda exception, attempt: answer, ERROR, 1) == expected


def impatient(exception, attempt):
    return "5s"


@pytest.mark.parametrize("answer", ["5s", True, [5]])
def test_an_answer_of_another_type_is_refused(answer):
    with pytest.raises(TypeError, match="None for no more attempts"):
        delay_after(lambda exception, attempt: answer, ERROR, 1)


def test_the_callable_that_answers_wrongly_is_named():
    with pytest.raises(TypeError, match=rf"backoff {__name__}\.impatient returned '5s'"):
        delay_after(impatient, ERROR, 1)


def test_nan_is_no_delay():
    with pytest.raises(ValueError, match="returned NaN"):
        delay_after(lambda exception, attempt: float("nan"), ERROR, 1)


def test_a_backoff_sees_the_exception_and_the_attempt():
    seen = []
    delay_after(lambda *arguments: seen.append(arguments), ERROR, 7)
    assert seen == [(ERROR, 7)]
