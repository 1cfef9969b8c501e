"""How long to wait before the next attempt of a job that failed."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django_claimq.durations import LONGEST, Duration, humanise, seconds, shown

#: Called with the exception and the number of the attempt that just failed, from 1. Answers the
#: seconds (or timedelta) until the next attempt, or None for no more attempts.
Backoff = Callable[[BaseException, int], float | timedelta | None]


@dataclass(frozen=True, repr=False)
class Exponential:
    """Wait longer after every attempt: min(base * factor ** attempt, max), then jitter.

    Jitter spreads jobs that failed together, so that they do not come back together; see Marc
    Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

    Parameters:
        base: duration that is multiplied. Default 1 s.
        factor: growth per attempt, 1 to 1000. Default 2.
        max: longest duration before jitter. Default 24 h.
        jitter: the delay varies evenly by this share up and down, 0 to 1. Default 0.25.

    Raises ValueError, naming the parameter, for a value out of range.
    """

    base: Duration = 1.0
    factor: float = 2.0
    max: Duration = "24h"
    jitter: float = 0.25

    def __post_init__(self) -> None:
        _set(self, base=_duration("base", self.base), max=_duration("max", self.max))
        _set(self, factor=_number("factor", self.factor, 1, 1000))
        _set(self, jitter=_number("jitter", self.jitter, 0, 1))

    def __call__(self, exception: BaseException, attempt: int) -> float:
        base, longest = seconds(self.base), seconds(self.max)
        try:
            delay = base * self.factor**attempt
        except OverflowError:
            delay = longest if base else 0.0
        return _jittered(min(delay, longest), self.jitter)

    def __repr__(self) -> str:
        base, longest = _text(self.base), _text(self.max)
        return f"Exponential({base=}, factor={self.factor}, max={longest!r}, jitter={self.jitter})"


@dataclass(frozen=True, repr=False)
class Linear:
    """Wait one step more after every attempt: min(step * attempt, max), then jitter.

    Parameters:
        step: duration added per attempt.
        max: longest duration before jitter. Default 24 h.
        jitter: the delay varies evenly by this share up and down, 0 to 1. Default 0.

    Raises ValueError, naming the parameter, for a value out of range.
    """

    step: Duration
    max: Duration = "24h"
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _set(self, step=_duration("step", self.step), max=_duration("max", self.max))
        _set(self, jitter=_number("jitter", self.jitter, 0, 1))

    def __call__(self, exception: BaseException, attempt: int) -> float:
        return _jittered(min(seconds(self.step) * attempt, seconds(self.max)), self.jitter)

    def __repr__(self) -> str:
        step, longest = _text(self.step), _text(self.max)
        return f"Linear({step=}, max={longest!r}, jitter={self.jitter})"


@dataclass(frozen=True, repr=False)
class Steps:
    """Wait the listed durations, one per attempt; the last one repeats.

    Parameters:
        delays: durations, at least one, such as [5, 60, "1h"].
        jitter: the delay varies evenly by this share up and down, 0 to 1. Default 0.

    Raises ValueError, naming the parameter, for a value out of range.
    """

    delays: Sequence[Duration]
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _set(self, delays=_durations("delays", self.delays))
        _set(self, jitter=_number("jitter", self.jitter, 0, 1))

    def __call__(self, exception: BaseException, attempt: int) -> float:
        index = min(max(attempt, 1), len(self.delays)) - 1
        return _jittered(seconds(self.delays[index]), self.jitter)

    def __repr__(self) -> str:
        return f"Steps({[_text(delay) for delay in self.delays]}, jitter={self.jitter})"


def delay_after(backoff: Backoff, exception: BaseException, attempt: int) -> float | None:
    """Ask a backoff for the delay after a failed attempt.

    Parameters:
        backoff: the policy to call.
        exception: what the attempt raised.
        attempt: number of the attempt that failed, from 1.

    Returns seconds, no less than 0 and no more than 100 years; None for no more attempts.
    Raises TypeError, naming the callable, when it answers with another type, ValueError when it
    answers NaN, and whatever the callable itself raises.
    """
    answer: object = backoff(exception, attempt)
    if answer is None:
        return None
    if isinstance(answer, timedelta):
        answer = answer.total_seconds()
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise TypeError(
            f"The backoff {_name(backoff)} returned {shown(answer)}. "
            "Return seconds, a timedelta, or None for no more attempts."
        )
    delay = float(min(max(answer, 0), LONGEST))
    if math.isnan(delay):
        raise ValueError(f"The backoff {_name(backoff)} returned NaN. Return seconds.")
    return delay


def _jittered(delay: float, jitter: float) -> float:
    return delay * random.uniform(1 - jitter, 1 + jitter)  # noqa: S311  (spreading, not secrecy)


def _duration(name: str, value: Duration) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _durations(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or not values:
        raise ValueError(f"{name}: {shown(values)} is not a list of durations.")
    return tuple(_duration(f"{name}[{index}]", value) for index, value in enumerate(values))


def _number(name: str, value: float, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: {shown(value)} is not a number.")
    if not least <= value <= most:
        raise ValueError(f"{name}: {shown(value)} is not between {least} and {most}.")
    return float(value)


def _set(policy: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(policy, name, value)  # frozen for everybody else


def _text(duration: Duration) -> str:
    return humanise(seconds(duration))


def _name(backoff: Backoff) -> str:
    name = getattr(backoff, "__qualname__", None)
    return f"{backoff.__module__}.{name}" if name else shown(backoff)
