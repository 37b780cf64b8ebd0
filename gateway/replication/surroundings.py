"""The things that a broker gives to its side of replication, as one value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from gateway.clock import Milliseconds
from gateway.in_thread import InThread
from gateway.reactor.thread_result import thread_result
from gateway.remoting.tls.makers import LinkMakers
from gateway.settings import Address
from gateway.store.durability.surroundings import Later
from gateway.telemetry.metrics import Registry
from wire.command import RemotingCommand
from wire.headers.declare import Header

T = TypeVar("T")

Call = Callable[[Address, int, Header | None], Awaitable[RemotingCommand]]
"""A function that calls another broker; it raises ``CallFailed`` if the broker does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSurroundings:
    """Clock, reactor, threads, metrics and the way to other brokers.

    :param later: runs a function on the reactor's thread after a number of milliseconds.
    :param in_thread: runs blocking work.
    :param random_bytes: returns as many bytes as asked for that nobody can guess.
    :param links: makes the sides of TLS.
    """

    reactor: Any
    clock_ms: Milliseconds
    later: Later
    in_thread: InThread
    call: Call
    registry: Registry
    random_bytes: Callable[[int], bytes]
    links: LinkMakers

    def off_reactor(self, work: Callable[[], T]) -> Awaitable[T]:
        """Return the result of work that runs in a thread."""
        return thread_result(self.in_thread, work)
