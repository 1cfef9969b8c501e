"""A host of its own, as the network sees it: a network namespace with one link to ours."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from contextlib import suppress
from typing import Self

import pytest

_numbers = itertools.count()


class FarHost:
    """`prefix` before a command makes it run there; `cut()` and `heal()` are its link's.

    Over a cut link nothing passes and nobody is told. Needs root and iproute2.
    """

    def __init__(self) -> None:
        # Unique on the machine: name and addresses are known to all of it.
        number = (os.getpid() * 4 + next(_numbers)) % 2**14
        self.name = f"claimq{number}"
        self._link = f"{self.name}v"
        net = f"10.99.{number >> 6}"
        first = (number & 63) * 4
        #: The address of this side, for a server to listen on.
        self.near_address = f"{net}.{first + 1}"
        self._far_address = f"{net}.{first + 2}"

    def __enter__(self) -> Self:
        far_link = f"{self.name}w"
        try:
            _ip("netns", "add", self.name)
            _ip("link", "add", self._link, "type", "veth", "peer", "name", far_link)
            _ip("link", "set", far_link, "netns", self.name)
            _ip("address", "add", f"{self.near_address}/30", "dev", self._link)
            _ip("link", "set", self._link, "up")
            _ip("-n", self.name, "address", "add", f"{self._far_address}/30", "dev", far_link)
            _ip("-n", self.name, "link", "set", far_link, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        for what in (("link", "delete", self._link), ("netns", "delete", self.name)):
            with suppress(subprocess.CalledProcessError):
                _ip(*what)

    @property
    def prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        _ip("link", "set", self._link, "down")

    def heal(self) -> None:
        _ip("link", "set", self._link, "up")


def skip_without_namespaces() -> None:
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("needs root and iproute2")
    try:
        with FarHost():
            pass
    except subprocess.CalledProcessError as error:
        pytest.skip(f"needs leave to make network namespaces: {error.stderr.strip()}")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
