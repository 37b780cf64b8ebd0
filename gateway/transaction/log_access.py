"""What transactions ask of the message store, of consumer offsets and of producers, as typed interfaces."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Protocol

from gateway.store.put_result import PutResult
from gateway.store.reading.get_result import GetResult
from gateway.store.reading.wanted import ALL_WANTED, Wanted
from wire.headers.declare import Header
from wire.message.record import OutgoingMessage, StoredMessage


class MessageWalk(Protocol):
    """Messages in the order of the log. ``end`` is where the walk stopped; ``problem`` says what is wrong there."""

    @property
    def end(self) -> int:
        """The place after the last one."""

    @property
    def problem(self) -> str | None:
        """None or empty when nothing is wrong."""

    def __iter__(self) -> Iterator[StoredMessage]: ...


class LogAccess(Protocol):
    """The part of ``MessageStore`` that is used here."""

    @property
    def max_commit_log_offset(self) -> int:
        """Where the next record goes."""

    @property
    def stored_end(self) -> int:
        """What is appended from now on lies there or behind it."""

    @property
    def flushed_offset(self) -> int:
        """Everything below is on disk."""

    def append_all(self, messages: Sequence[OutgoingMessage], on_stored: Callable[[list[PutResult]], None]) -> None:
        """Append contiguously, all or nothing."""

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
        """Read records of a queue."""

    def mend_queue(self, topic: str, queue_id: int, offset: int, count: int) -> int:
        """Make wrong units of a queue from the log again; how many of these lead over messages that are in no log."""

    def walk_from(self, commit_log_offset: int) -> MessageWalk:
        """All visible messages from a record's place on."""

    def message_at(self, commit_log_offset: int, size: int | None = None) -> StoredMessage | None:
        """The message at a place of the commit log."""

    def message_now(self, commit_log_offset: int, size: int) -> StoredMessage | None:
        """The same as far as it is in memory; None when the disk has to be asked, or nothing is there."""

    def head_at(self, commit_log_offset: int) -> StoredMessage | None:
        """The message at a place of the commit log, without its body unless it is small."""

    def head_now(self, commit_log_offset: int) -> StoredMessage | None:
        """The same; NotInMemory when the disk has to be asked."""

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First offset of a queue, -1 when it does not exist."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """End of a queue, 0 when it does not exist."""

    def query_by_key(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[StoredMessage]:
        """Messages of a topic by key."""


class KnownOffsets(Protocol):
    """Offsets that can be asked for."""

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The next offset, -1 when there is none."""


class OffsetKeeper(KnownOffsets, Protocol):
    """The part of ``ConsumerOffsets`` that is used here."""

    def keep(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember the next offset, whatever others have."""


class Asked(Protocol):
    """A connection that can be asked for an outcome."""

    @property
    def remote(self) -> tuple[str, int]:
        """Address and port of the producer."""

    def notify(self, code: int, header: Header | None = None, body: bytes = b"") -> bool:
        """Send a one-way request; False when it cannot be sent now."""


class ProducerChoice(Protocol):
    """The part of ``Producers`` that is used here."""

    def pick(self, group: str, exclude: Container[Any] = ()) -> Asked | None:
        """A living connection of the group, another one each time."""
