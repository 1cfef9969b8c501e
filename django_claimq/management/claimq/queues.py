"""`claimq pause` and `claimq resume`."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from datetime import timedelta

from django_claimq.conf import Options
from django_claimq.durations import seconds
from django_claimq.management.claimq.subcommand import Answer, Subcommand
from django_claimq.queueing import pausing


def _add_queues(parser: ArgumentParser) -> None:
    parser.add_argument("queues", nargs="+", metavar="QUEUE")


def _add_pause(parser: ArgumentParser) -> None:
    _add_queues(parser)
    parser.add_argument("--reason", default="", help="Why, for others to see")
    parser.add_argument(
        "--for", dest="length", metavar="DURATION", help="Resume by itself after 30m, 2h ..."
    )


def _pause(options: Options, *, queues: list[str], reason: str, length: str | None) -> Answer:
    until = None if length is None else timedelta(seconds=seconds(length))

    def pause(name: str) -> bool:
        return pausing.pause(options.database, name, by=_who(), reason=reason, until=until)

    held = {name: pause(name) for name in dict.fromkeys(queues)}
    return _answer({name: "paused" if new else "is paused already" for name, new in held.items()})


def _resume(options: Options, *, queues: list[str]) -> Answer:
    held = {name: pausing.resume(options.database, name) for name in dict.fromkeys(queues)}
    return _answer({name: "resumed" if new else "is not paused" for name, new in held.items()})


def _answer(answers: dict[str, str]) -> Answer:
    return Answer("\n".join(f"{name} {answer}" for name, answer in answers.items()), answers)


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # In a container without users.
        return ""


SUBCOMMANDS = (
    Subcommand(
        "pause",
        "Let nothing be claimed from queues; what runs goes on, what waits stays",
        _pause,
        _add_pause,
    ),
    Subcommand("resume", "Let jobs of paused queues be claimed again", _resume, _add_queues),
)
