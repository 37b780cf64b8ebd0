"""The typed interfaces for what transactions need of the message store, of consumer offsets and of producers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Protocol

from gateway.store.put_result import PutResult
from gateway.store.reading.get_result import GetResult
from gateway.store.reading.wanted import ALL_WANTED, Wanted
from wire.headers.declare import Header
from wire.message.record import OutgoingMessage, StoredMessage


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

    def pick(self, group: str, exclude: Container[Any] = ()) -> Asked | None:
        """Return a live connection of the group, a different connection each time.

        None if the group has no live connection outside ``exclude``.
        """
