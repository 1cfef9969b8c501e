"""The queues that are compared, one module each; the libraries are not imported here."""

from __future__ import annotations

from benchmarks.context import Context
from benchmarks.peers.base import Peer, Variant
from benchmarks.peers.celery import Celery
from benchmarks.peers.claimq import Claimq
from benchmarks.peers.django_ox import DjangoOx
from benchmarks.peers.django_tasks_db import DjangoTasksDb
from benchmarks.peers.floor import Floor
from benchmarks.peers.huey import Huey
from benchmarks.peers.pgqueuer import PgQueuer
from benchmarks.peers.procrastinate import Procrastinate

__all__ = ["PEERS", "Peer", "UnknownPeer", "Variant", "chosen", "peer_of"]

_CLASSES: tuple[type[Peer], ...] = (
    *(Claimq, Floor, PgQueuer, DjangoTasksDb, DjangoOx, Procrastinate, Huey, Celery),
)
PEERS = {peer.name: peer for peer in _CLASSES}


class UnknownPeer(Exception):
    """No peer or variant of that name."""


def peer_of(context: Context) -> Peer:
    return PEERS[context.peer](context)


def chosen(names: str) -> list[tuple[type[Peer], str]]:
    """Peers and variants by "peer,peer:variant"; all of them for ""."""
    found = []
    for name in names.split(",") if names else PEERS:
        peer_name, _, variant = name.partition(":")
        peer = PEERS.get(peer_name)
        if peer is None or (variant and variant not in peer.variants):
            known = " ".join(f"{p.name}:{v}" for p in PEERS.values() for v in p.variants)
            raise UnknownPeer(f"There is no {name}; there are: {known}")
        found += [(peer, each) for each in ([variant] if variant else peer.variants)]
    return found
