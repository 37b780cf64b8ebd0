"""The outcome of an append, and what listeners are told of it.

One object serves the sender's callback and the listeners alike: at tens of thousands of messages a second a second
object of the same facts would cost more than it explains. It is of one message (``PutResult``) or of a row of them that
lie behind each other in the log and in their queue (``PutRun``); who has to know of each asks for ``each``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from mypy_extensions import mypyc_attr

from wire.layout_writers import write_unit

if TYPE_CHECKING:
    from librt.strings import BytesWriter

    from gateway.store.queues.consume_queue import ConsumeQueue
    from wire.message.record import OutgoingMessage
    from wire.quick.message_run import MessageRun

Places: TypeAlias = "tuple[tuple[ConsumeQueue, int], ...]"
"""Units that a message has besides that of its own offset: in light queues, or of its batch."""


class PutStatus(Enum):
    """What became of a message; names as upstream ``PutMessageStatus``."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"

    @property
    def is_stored(self) -> bool:
        """Whether the message is in the log, though perhaps not as durably as asked for."""
        return self is PutStatus.PUT_OK or self is PutStatus.FLUSH_DISK_TIMEOUT


class WaitFor(Enum):
    """What has to happen before a sender is told. With ASYNC_FLUSH there is no difference: told when written."""

    DISK = "on disk"
    """The outcome is final: on disk, or refused. For whoever acts on it."""
    DISK_OR_TIMEOUT = "on disk, but no longer than syncFlushTimeout"
    """Told FLUSH_DISK_TIMEOUT when the disk takes too long; the message is written and goes on to the disk."""
    WRITE = "written"
    """Told PUT_OK once the system has it (the sender's WAIT=false); readers still see it when it is on disk."""


@mypyc_attr(acyclic=True)
class PutOutcome:
    """Where one message, or neighbours of one queue, were stored. A plain class: one is made for every send.

    ``count`` messages lie from ``commit_log_offset`` on in ``size`` bytes of the log, and from ``queue_offset`` on in
    the queue. ``queue_offset`` is 0 and ``queue`` None for records that no consume queue shows (prepared and rollback
    kinds). ``further``: see ``Places``. When refused, the offsets are −1.
    """

    __slots__ = (
        "commit_log_offset",
        "count",
        "further",
        "queue",
        "queue_id",
        "queue_offset",
        "size",
        "status",
        "stored_at_ms",
        "topic",
    )

    def __init__(
        self,
        status: PutStatus,
        message: OutgoingMessage,
        count: int,
    ) -> None:
        self.status = status
        self.topic = message.topic
        self.queue_id = message.queue_id
        self.queue: ConsumeQueue | None = None
        self.queue_offset = -1
        self.commit_log_offset = -1
        self.size = 0
        self.stored_at_ms = 0
        self.count = count
        self.further: Places = ()

    def each(self) -> Iterable[PutResult]:
        """The outcome of each message."""
        raise NotImplementedError

    def places(self) -> list[int]:
        """The commit log offset of each message."""
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class PutResult(PutOutcome):
    """The outcome of one message. ``tags_code`` is filled in by the dispatch."""

    __slots__ = ("message", "tags_code")

    def __init__(self, status: PutStatus, message: OutgoingMessage) -> None:
        super().__init__(status, message, 1)
        self.message = message
        self.tags_code = 0

    def at(
        self,
        queue: ConsumeQueue | None,
        queue_offset: int,
        commit_log_offset: int,
        size: int = 0,
        stored_at_ms: int = 0,
    ) -> PutResult:
        """Note where the message was stored; returns itself."""
        self.queue = queue
        self.queue_offset = queue_offset
        self.commit_log_offset = commit_log_offset
        self.size = size
        self.stored_at_ms = stored_at_ms
        return self

    def each(self) -> Iterable[PutResult]:
        """Itself."""
        return (self,)

    def places(self) -> list[int]:
        """Its place."""
        return [self.commit_log_offset]


@mypyc_attr(acyclic=True)
class PutRun(PutOutcome):
    """The outcome of the messages of a batch."""

    __slots__ = ("run",)

    def __init__(
        self,
        status: PutStatus,
        run: MessageRun,
        queue: ConsumeQueue | None = None,
        queue_offset: int = -1,
        commit_log_offset: int = -1,
        stored_at_ms: int = 0,
    ) -> None:
        super().__init__(status, run.batch, run.count)
        self.queue = queue
        self.queue_offset = queue_offset
        self.commit_log_offset = commit_log_offset
        self.size = run.size
        self.stored_at_ms = stored_at_ms
        self.run = run

    def each(self) -> Iterator[PutResult]:
        """The outcome of each message, made when it is asked for: mostly nobody asks for all."""
        run, queue_offset = self.run, self.queue_offset
        for number, place in enumerate(self.places()):
            result = PutResult(self.status, run.message(number)).at(
                self.queue, queue_offset + number, place, run.sizes[number], self.stored_at_ms
            )
            result.tags_code = run.forms[number].code
            yield result

    def places(self) -> list[int]:
        """The commit log offset of each message."""
        places = list(accumulate(self.run.sizes, initial=self.commit_log_offset))
        del places[-1]
        return places

    def write_units(self, out: BytesWriter) -> None:
        """Write the consume queue units, for a topic whose units keep the codes of tags."""
        place = self.commit_log_offset
        forms = self.run.forms
        for number, size in enumerate(self.run.sizes):
            write_unit(out, place, size, forms[number].code)
            place += size


Dispatched: TypeAlias = PutResult
"""A message that is now visible to readers, as listeners see it."""


def each_result(outcomes: Iterable[PutOutcome]) -> Iterator[PutResult]:
    """The outcomes of single messages."""
    for outcome in outcomes:
        yield from outcome.each()


def message_count(outcomes: Iterable[PutOutcome]) -> int:
    """Messages they are of."""
    count = 0
    for outcome in outcomes:
        count += outcome.count
    return count
