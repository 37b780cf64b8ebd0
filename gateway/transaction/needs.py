"""The needs of a broker's transactions: interfaces of the log, of offsets and of producers, and one value of parts."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gateway.clock import Milliseconds
from gateway.in_thread import InThread, Soon
from gateway.remoting.declared import Need
from gateway.store.put_result import PutResult
from gateway.store.reading.get_result import GetResult
from gateway.store.reading.wanted import ALL_WANTED, Wanted
from wire.bodies.topics import TopicConfig
from wire.headers.declare import Header
from wire.message.record import OutgoingMessage, StoredMessage

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime

ReadInTurn: TypeAlias = Callable[[Callable[[], Any], Callable[[Any], None], Hashable], None]
"""A function ``read(work, done, holder)``: run ``work`` in a thread, then call ``done`` with its value or ``Failed``.

Holders take turns. The call raises RequestRefused if too many reads wait.
"""


class MessageWalk(Protocol):
    """Messages in the order of the log. ``problem`` says what is wrong at ``end``, where the walk stopped."""

    @property
    def end(self) -> int:
        """The commit log offset after the last message."""

    @property
    def problem(self) -> str | None:
        """The reason why the walk stopped; None or empty if nothing is wrong."""

    def __iter__(self) -> Iterator[StoredMessage]: ...


class LogAccess(Protocol):
    """The part of ``MessageStore`` that transactions use."""

    @property
    def max_commit_log_offset(self) -> int:
        """The commit log offset of the next record."""

    @property
    def stored_end(self) -> int:
        """The commit log offset after the last stored message. No later append gets a lower offset."""

    @property
    def flushed_offset(self) -> int:
        """The commit log offset below which everything is on disk."""

    def append_all(self, messages: Sequence[OutgoingMessage], on_stored: Callable[[list[PutResult]], None]) -> None:
        """Append messages as neighbours, all or none."""

    def append(self, message: OutgoingMessage, on_stored: Callable[[PutResult], None]) -> None:
        """Append one message."""

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        wanted: Wanted = ALL_WANTED,
    ) -> GetResult:
        """Read the records of a queue."""

    def mend_queue(self, topic: str, queue_id: int, offset: int, count: int) -> int:
        """Make the wrong units of a queue again from the log.

        :returns: how many of the units lead over messages that are in no log.
        """

    def walk_from(self, commit_log_offset: int) -> MessageWalk:
        """Return all visible messages, starting with the record at this commit log offset."""

    def message_at(self, commit_log_offset: int, size: int | None = None) -> StoredMessage | None:
        """Return the message at a commit log offset; None if no record starts there."""

    def message_now(self, commit_log_offset: int, size: int) -> StoredMessage | None:
        """Return the message at a commit log offset if it is in memory.

        None if the disk would have to be asked, or if no record starts there.
        """

    def head_at(self, commit_log_offset: int) -> StoredMessage | None:
        """Return the message at a commit log offset, with its body only if the body is small."""

    def head_now(self, commit_log_offset: int) -> StoredMessage | None:
        """Return the same as ``head_at`` without waiting for the disk.

        :raises NotInMemory: the disk has to be asked.
        """

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first offset of a queue; -1 if the queue does not exist."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the end of a queue; 0 if the queue does not exist."""

    def query_by_key(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[StoredMessage]:
        """Return the messages of a topic that have a key."""


class KnownOffsets(Protocol):
    """Consumer offsets that can be read."""

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the next offset of a group in a queue; -1 if the group has none."""


class OffsetKeeper(KnownOffsets, Protocol):
    """The part of ``ConsumerOffsets`` that transactions use."""

    def keep(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember the next offset. The call is never refused, however many offsets other groups have."""


class Asked(Protocol):
    """A connection that can be asked for an outcome."""

    @property
    def remote(self) -> tuple[str, int]:
        """The address and port of the producer."""

    def notify(self, code: int, header: Header | None = None, body: bytes = b"") -> bool:
        """Send a one-way request; return False if the connection cannot take the request now."""


class ProducerChoice(Protocol):
    """The part of ``Producers`` that transactions use."""

    def pick(self, group: str, exclude: Container[Any] = (), needs: Sequence[Need] = ()) -> Asked | None:
        """Return a live connection of the group, a different connection each time.

        None if the group has no live connection outside ``exclude``, or none with all the rights.
        """


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
    has_topic: Callable[[str, int, int], bool] | None = None
    """The function that is asked about a missing topic: whether that topic, with this queue, could be made.

    The third argument is the place of the half message in the log. None: every topic could be made. The function raises
    RequestRefused if the topic cannot be made now.
    """
