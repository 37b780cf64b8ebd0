"""The surroundings of replication in tests: a reactor of memory, no threads, no other broker."""

from __future__ import annotations

from typing import Any

from twisted.internet.testing import MemoryReactorClock

from gateway.broker.parts import no_other_broker
from gateway.in_thread import in_this_thread
from gateway.remoting.tls.makers import NO_LINKS
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.store.message_store import MessageStore
from gateway.telemetry.metrics import Registry
from wire.bodies.tools.statistics import KVTable, ReplicationState
from wire.codes import ResponseCode
from wire.command import RemotingCommand


def surroundings(**changed: Any) -> ReplicationSurroundings:
    """Return surroundings; ``changed`` names those that a test cares about."""
    reactor = changed.setdefault("reactor", MemoryReactorClock())  # type: ignore[no-untyped-call]
    given: dict[str, Any] = {
        "clock_ms": lambda: round(reactor.seconds() * 1_000),
        "later": lambda delay_ms, function: reactor.callLater(delay_ms / 1_000, function).cancel,
        "in_thread": in_this_thread,
        "call": no_other_broker,
        "registry": Registry(),
        "random_bytes": lambda count: bytes(count),
        "links": NO_LINKS,
        **changed,
    }
    return ReplicationSurroundings(**given)


def figures_of(store: MessageStore) -> RemotingCommand:
    """Return what a broker with this store answers about where its log begins and ends (28)."""
    figures = {
        "commitLogMinOffset": str(store.min_commit_log_offset),
        "commitLogMaxOffset": str(store.max_commit_log_offset),
        "commitLogVisibleOffset": str(store.stored_end),
    }
    return RemotingCommand(ResponseCode.SUCCESS, body=KVTable(figures).build())


def role_of(*, is_master: bool) -> RemotingCommand:
    """Return what a broker answers about its role (907)."""
    return RemotingCommand(ResponseCode.SUCCESS, body=ReplicationState(master=is_master).build())
