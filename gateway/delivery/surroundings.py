"""What the broker around them gives to the parts of delivery: its tables, its clock, its threads and turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from gateway.clock import Milliseconds
    from gateway.delivery.filters.turns import FilterTurns
    from gateway.in_thread import InThread
    from gateway.metadata.groups import Groups
    from gateway.metadata.offsets import ConsumerOffsets
    from gateway.metadata.topics import Topics
    from gateway.remoting.turns import Work

ColdRead: TypeAlias = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""As ``InThread``, for a blocking read; raises RequestRefused when too many wait."""


@dataclass(frozen=True, slots=True)
class BrokerTables:
    """The tables that delivery reads and writes."""

    topics: Topics
    groups: Groups
    offsets: ConsumerOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySurroundings:
    """Clock, threads, turns and address of one broker."""

    clock_ms: Milliseconds
    in_thread: InThread
    """Runs what writes the disk."""
    cold_read: ColdRead
    turns: FilterTurns
    in_turns: Callable[[Work[Any]], Deferred[Any]]
    """Does long work in pieces, between which others have their turn."""
    store_host: bytes
    """The broker's packed address, 8 or 20 bytes."""
