"""Which files a census counts: those of a folder, or of an installed package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MAX_FILES = 5_000
MAX_BYTES = 5_000_000
MAX_PATH = 500
# Entries to look at before giving up: somebody may well enter "/".
_MAX_ENTRIES = 200_000


class SourceError(Exception):
    """There is nothing that could be counted; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder, free of symbolic links, and the paths of its Python files below it."""

    name: str
    root: str
    paths: tuple[str, ...]


def find_source(text: str) -> Source:
    """Find the files that `text` means: a folder ("/…" or "~/…") or a package ("django").

    Raises SourceError where there is no such thing, it holds no Python file, or too many.
    """
    is_folder = text.startswith(("/", "~")) or os.path.isabs(text)
    root = os.path.realpath(_folder(text) if is_folder else _package(text))
    paths = tuple(_python_files(root))
    if not paths:
        raise SourceError(f"There is no Python file in {root}.")
    for path in (root, *paths):
        _check_name(path)
    return Source(text, root, paths)


def read_source(root: str, path: str) -> bytes:
    """Read one file of a source. Raises SourceError if it is not below `root` or too large."""
    file = Path(root, path)
    if not _is_below(root, str(file)):
        raise SourceError(f"{path} is not below {root}.")
    with file.open("rb") as opened:
        source = opened.read(MAX_BYTES + 1)
    if len(source) > MAX_BYTES:
        raise SourceError(f"{path} has more than {MAX_BYTES:,} bytes.")
    return source


def _folder(text: str) -> str:
    folder = os.path.expanduser(text)
    if not os.path.isdir(folder):
        raise SourceError(f"There is no folder {folder}.")
    return folder


def _package(text: str) -> str:
    """The folder of an installed package; of a namespace package, its first one."""
    parts = text.split(".")
    if not all(part.isidentifier() for part in parts):
        raise SourceError("Enter the name of a package, or a folder that begins with / or ~.")
    try:
        # Of the top-level name alone: for a submodule Python would import its parents.
        spec = find_spec(parts[0])
    except (ImportError, ValueError):
        spec = None
    locations = list(spec.submodule_search_locations or ()) if spec else []
    folder = os.path.join(locations[0], *parts[1:]) if locations else ""
    if not os.path.isdir(folder):
        raise SourceError(f"No package {text} is installed here.")
    return folder


def _python_files(root: str) -> Iterator[str]:
    found = seen = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        seen += len(folders) + len(names)
        if seen > _MAX_ENTRIES:
            raise SourceError(f"{root} is too large. Choose a folder further down.")
        for name in sorted(names):
            file = os.path.join(folder, name)
            if name.endswith(".py") and os.path.isfile(file) and _is_below(root, file):
                found += 1
                if found > MAX_FILES:
                    raise SourceError(f"{root} has more than {MAX_FILES:,} Python files.")
                yield os.path.relpath(file, root)


def _is_below(root: str, file: str) -> bool:
    """Whether a file is in a folder, also by where its symbolic links lead."""
    return os.path.commonpath([root, os.path.realpath(file)]) == root


def _check_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise SourceError(f"The name {path!a} is not UTF-8.") from None
    if len(path) > MAX_PATH:
        raise SourceError(f"The path {path} has more than {MAX_PATH} characters.")
