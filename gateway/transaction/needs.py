"""The parts of a broker that its transactions need besides the log, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.clock import Milliseconds
from gateway.in_thread import InThread, Soon
from gateway.transaction.log_access import OffsetKeeper, ProducerChoice
from gateway.transaction.records.half_reader import ReadInTurn
from wire.bodies.topics import TopicConfig

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionNeeds:
    """Clock, threads, topics, producers and address of one broker."""

    reactor: IReactorTime
    clock_ms: Milliseconds
    """A steady clock (``steady_clock``)."""
    in_thread: InThread
    """Runs a blocking function in a thread."""
    read: ReadInTurn
    """Reads the log in a thread; those who ask take turns."""
    soon: Soon
    """Runs a function right before the log is written next; the store's ``before_batch``."""
    producers: ProducerChoice
    offsets: OffsetKeeper
    """The consumer offsets, among which the next start finds how far everything is settled."""
    host: bytes
    """The broker's packed address, 8 or 20 bytes."""
    broker_name: str | None = None
    """Told to producers with each check, as brokers of 5.x do."""
    topics: Mapping[str, TopicConfig]
    """The topics that exist; a view that changes with the table."""
    has_topic: Callable[[str, int], bool] | None = None
    """Asked about topics that do not exist: whether one with this queue could be made; None: all could.

    It raises RequestRefused when the topic cannot be made now.
    """
