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
    """The clock, threads, topics, producers and address of one broker."""

    reactor: IReactorTime
    clock_ms: Milliseconds
    """A steady clock (``steady_clock``)."""
    in_thread: InThread
    """The function that runs blocking work in a thread."""
    read: ReadInTurn
    """The function that reads the log in a thread, with turns between the askers."""
    soon: Soon
    """The function that runs another one right before the next write of the log (the store's ``before_batch``)."""
    producers: ProducerChoice
    offsets: OffsetKeeper
    """The consumer offsets. From them the next start learns up to where everything is settled."""
    host: bytes
    """The broker's packed address, 8 or 20 bytes."""
    broker_name: str | None = None
    """The name that producers get with each check, as from brokers of 5.x."""
    topics: Mapping[str, TopicConfig]
    """The existing topics, as a view that changes with the table."""
    has_topic: Callable[[str, int], bool] | None = None
    """The function that is asked about a missing topic: whether that topic, with this queue, could be made.

    None: every topic could be made. The function raises RequestRefused if the topic cannot be made now.
    """
