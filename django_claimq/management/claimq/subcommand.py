from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a subcommand found or did, as text and as JSON; and the exit code."""

    text: str
    data: Any
    code: int = 0


def _no_arguments(parser: ArgumentParser) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Subcommand:
    """`run` gets the settings of the backend, then the flags by their names.

    A ValueError of it is a wrong call.
    """

    name: str
    help: str
    run: Callable[..., Answer]
    add_arguments: Callable[[ArgumentParser], None] = _no_arguments
