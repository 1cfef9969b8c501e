"""The reference and the troubleshooting page name what the package has, in its words."""

from __future__ import annotations

import ast
import re
from argparse import SUPPRESS, ArgumentParser, _HelpAction, _SubParsersAction
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import django_claimq
from django_claimq import exceptions, signals
from django_claimq.compat import FRAMEWORK
from django_claimq.conf import Options
from django_claimq.context import ClaimqContext
from django_claimq.definition import ClaimqTask
from django_claimq.management.commands import claimq, claimq_worker
from django_claimq.models import Job, Worker
from django_claimq.models.querysets import JobQuerySet
from django_claimq.option_parsers import PARSERS
from django_claimq.states import State
from django_claimq.task_options import UNSET
from django_claimq.task_result import ClaimqResult

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text()


@cache
def table(name: str) -> dict[str, str]:
    """Rows of the page's tables, by each name in their first cell: the first row of each."""
    rows = re.findall(r"^\| (.+?) \| (.*) \|$", page(name), re.MULTILINE)
    return {key: rest for cell, rest in reversed(rows) for key in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("option", [name.upper() for name in PARSERS])
def test_every_option_is_explained_with_its_default(option: str) -> None:
    default, _, _ = table("reference/settings.md")[option].split(" | ")
    documented = eval(default.strip("`"), vars(django_claimq))  # noqa: S307
    parsed = PARSERS[option.lower()](option, documented)
    assert parsed == getattr(Options(), option.lower())


@pytest.mark.parametrize("module", [claimq, claimq_worker])
def test_every_flag_is_explained(module: ModuleType) -> None:
    parser = ArgumentParser(add_help=False)
    module.Command().add_arguments(parser)
    explained = {key.split()[0] for key in table("reference/commands.md")}
    assert set(flags_of(parser)) <= explained


def flags_of(parser: ArgumentParser) -> Iterator[str]:
    """Also those of its subcommands; not the hidden ones, which are for our own processes."""
    for action in parser._actions:
        if action.help != SUPPRESS and not isinstance(action, _HelpAction):
            yield from action.option_strings
        if isinstance(action, _SubParsersAction):
            for subparser in action.choices.values():
                yield from flags_of(subparser)


@pytest.mark.parametrize("model", [Job, Worker])
def test_every_column_is_explained(model: type[Job] | type[Worker]) -> None:
    names = {field.name for field in model._meta.fields}
    assert names <= table("reference/states.md").keys()


def test_every_constraint_and_index_is_explained() -> None:
    named = {one.name for one in [*Job._meta.constraints, *Job._meta.indexes]}
    assert named <= table("reference/states.md").keys()


def test_every_state_and_queryset_method_is_explained() -> None:
    own = {name for name in vars(JobQuerySet) if not name.startswith("_")}
    explained = {key.strip(".").partition("(")[0] for key in table("reference/states.md")}
    assert own | set(State.values) <= explained


def test_every_signal_is_explained() -> None:
    own = {name for name, one in vars(signals).items() if isinstance(one, signals.Signal)}
    assert own <= table("reference/signals.md").keys()


def test_every_task_option_and_public_name_is_explained() -> None:
    options = {field.name for field in fields(ClaimqTask)} - {"func"}
    asked = set(signature(ClaimqTask.using).parameters) - {"self"}
    assert options | asked <= table("reference/tasks.md").keys()
    text = page("reference/tasks.md")
    hidden = {"ClaimqTask"}
    assert [name for name in set(django_claimq.__all__) - hidden if f"{name}" not in text] == []


@pytest.mark.parametrize(
    "option", [one for one in fields(ClaimqTask) if one.default is not MISSING]
)
def test_every_task_option_is_explained_with_its_default(option: Field[Any]) -> None:
    if option.name == "run_after":  # Of one job.
        return
    default = table("reference/tasks.md")[option.name].partition(" | ")[0]
    if option.default is UNSET:
        assert default == f"unset: `{option.name.upper()}`"
    else:
        assert eval(re.findall(r"`([^`]*)`", default)[0]) == option.default  # noqa: S307


def test_every_member_of_contexts_and_results_is_explained() -> None:
    pages = {ClaimqContext: "reference/context.md", ClaimqResult: "reference/tasks.md"}
    for cls, name in pages.items():
        own = {member for member in vars(cls) if not member.startswith("_")}
        assert own <= {key.partition("(")[0] for key in table(name)}


def test_every_exception_is_explained() -> None:
    own = {name for name, one in vars(exceptions).items() if isinstance(one, type)}
    own = {name for name in own if issubclass(getattr(exceptions, name), exceptions.ClaimqError)}
    assert own - {"WorkerIdTaken", "TaskVerdict"} <= table("reference/tasks.md").keys()


def test_every_check_is_explained() -> None:
    files = [ROOT / "django_claimq" / name for name in ("checks.py", "schedule_checks.py")]
    raised = {id for file in files for id in re.findall(r"claimq\.[EW]\d+", file.read_text())}
    assert raised == set(re.findall(r"^## (\S+)", page("reference/checks.md"), re.MULTILINE))


@pytest.mark.parametrize(
    "message",
    [
        message
        for heading in re.findall(r"^### .*`.*$", page("troubleshooting.md"), re.MULTILINE)
        for message in re.findall(r"`([^`]{20,})`", heading)
    ]
    + re.findall(r"^\| `([^`]{20,})` \|", page("troubleshooting.md"), re.MULTILINE),
)
def test_a_message_of_the_troubleshooting_page_is_in_the_code(message: str) -> None:
    varying = r"\.\.\.+|'default'|'|\d+|-heartbeat|django_claimq\.exceptions\.\w+"
    for fragment in re.split(varying, message):
        if len(fragment := fragment.strip(" .:,")) > 5:
            assert fragment in words()


@cache
def words() -> str:
    """All text constants of the package and of the framework's base."""
    framework = import_module(f"{FRAMEWORK}.base").__file__
    backends = import_module(f"{FRAMEWORK}.backends.base").__file__
    files = [*(ROOT / "django_claimq").rglob("*.py"), Path(str(framework)), Path(str(backends))]
    texts = [_text(node) for file in files for node in ast.walk(ast.parse(file.read_text()))]
    return "\n".join(text for text in texts if text)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or "…" for value in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
