"""Compare the queue with its peers, in one run on one machine.

    python -m benchmarks all                              every measure of every peer
    python -m benchmarks drain --peers claimq,pgqueuer:asyncpg --processes 1,2 --repeats 3
    python -m benchmarks report                           write the report of the last run
    python -m benchmarks peers                            who can be measured here

On an embedded PostgreSQL, durable as it comes, or on the server of DATABASE_URL, where databases
named claimq_bench_* are made and dropped and no other is touched. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks import redis_server
from benchmarks.context import ROOT
from benchmarks.database import Refused
from benchmarks.peers import PEERS, UnknownPeer, chosen
from benchmarks.report import summary, write
from benchmarks.results import Results
from benchmarks.run import MEASURES, Run, ended_by_term

RESULTS = ROOT / "build" / "benchmarks" / "results.json"
DOCS = ROOT / "docs" / "benchmarks"


def measure(arguments: argparse.Namespace) -> None:
    measures = MEASURES if arguments.command == "all" else (arguments.command,)
    peers = chosen(arguments.peers)
    with Run(arguments.out, arguments.scale) as run:
        for peer, variant in peers:
            if set(measures) & peer.variants[variant].measures:
                run.add(peer, variant)
        run.measure(measures, arguments.processes, arguments.repeats)
    print()
    print(summary(run.results))
    print(f"The rows are in {arguments.out}.")


def report(arguments: argparse.Namespace) -> None:
    if not arguments.results.exists():
        sys.exit(f"There is no {arguments.results}: measure first, as with `make bench`.")
    write(Results.load(arguments.results), arguments.to)
    print(f"The report is in {arguments.to}.")


def list_peers(arguments: argparse.Namespace) -> None:
    for peer in PEERS.values():
        missing = peer.missing()
        print(peer.name, f"needs: {missing}" if missing else peer.versions())
        for name, variant in peer.variants.items():
            lacks_redis = variant.store == "redis" and not redis_server.program()
            need = f" (needs: {redis_server.MISSING})" if lacks_redis else ""
            print(f"    {peer.name}:{name} [{variant.store}] {variant.note}{need}")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("all", *MEASURES):
        command = commands.add_parser(name)
        command.set_defaults(do=measure)
        command.add_argument("--peers", default="", help="peer or peer:variant, with commas")
        command.add_argument("--processes", type=_numbers, default=[1, 2, 4], help="for drains")
        command.add_argument("--repeats", type=int, default=3)
        command.add_argument("--scale", type=float, default=1.0, help="factor on jobs and times")
        command.add_argument("--out", type=Path, default=RESULTS, help="a JSON file")
    command = commands.add_parser("report")
    command.set_defaults(do=report)
    command.add_argument("results", type=Path, nargs="?", default=RESULTS)
    command.add_argument("--to", type=Path, default=DOCS, help="a folder")
    commands.add_parser("peers").set_defaults(do=list_peers)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, ended_by_term)
    try:
        arguments.do(arguments)
    except (Refused, UnknownPeer) as refusal:
        sys.exit(str(refusal))


if __name__ == "__main__":
    main()
