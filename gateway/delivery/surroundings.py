"""The surroundings of delivery: the broker's tables, clock, threads and turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred

from gateway.clock import Milliseconds
from gateway.delivery.filters.turns import FilterTurns
from gateway.delivery.held_bytes import WaitingBytes
from gateway.in_thread import InThread
from gateway.metadata.groups import Groups
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.topics import Topics
from gateway.remoting.turns import Work

ColdRead: TypeAlias = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""A function like ``InThread`` for a blocking read; raises RequestRefused if too many reads wait."""


@dataclass(frozen=True, slots=True)
class BrokerTables:
    """The tables that delivery reads and writes."""

    topics: Topics
    groups: Groups
    offsets: ConsumerOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySurroundings:
    """The clock, threads, turns and address of one broker."""

    clock_ms: Milliseconds
    in_thread: InThread
    """The function that runs writes to the disk."""
    cold_read: ColdRead
    turns: FilterTurns
    in_turns: Callable[[Work[Any]], Deferred[Any]]
    """The function that does long work in pieces, between which other works have their turn."""
    store_host: bytes
    """The broker's packed address, 8 or 20 bytes."""
    held_bytes: WaitingBytes = field(default_factory=WaitingBytes)
    """The bytes of all held requests."""
