from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_claimq.flags import BadFlags, config_for
from django_claimq.management.claimq import importing, jobs, queues, schedules

_MODULES = (jobs, queues, schedules, importing)
_SUBCOMMANDS = {one.name: one for module in _MODULES for one in module.SUBCOMMANDS}
# What Django adds to the flags of every command.
_OF_DJANGO = (
    *("verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks"),
)


class Command(BaseCommand):
    help = "Look after queues and jobs from the command line."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
        for one in _SUBCOMMANDS.values():
            subparser = commands.add_parser(one.name, help=one.help)
            one.add_arguments(subparser)
            subparser.add_argument("--backend", default="default", help="Alias in TASKS")
            subparser.add_argument("--format", choices=["text", "json"], default="text")

    def handle(self, *, command: str, backend: str, format: str, **flags: Any) -> None:
        own = {name: value for name, value in flags.items() if name not in _OF_DJANGO}
        try:
            answer = _SUBCOMMANDS[command].run(config_for(backend), **own)
        except BadFlags as error:
            raise CommandError(str(error), returncode=2) from None
        except ValueError as error:
            raise CommandError(f"claimq {command}: {error}", returncode=2) from None
        text = json.dumps(answer.data, indent=2) if format == "json" else answer.text
        self.stdout.write(text)
        if answer.code:
            raise SystemExit(answer.code)
