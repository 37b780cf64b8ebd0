"""The outcome of an append, for the sender and for listeners.

One object serves the sender's callback and the listeners: at tens of thousands of messages a second, a second object
with the same facts would cost more than it explains. The object stands for one message (``PutResult``), or for a row of
messages that follow each other in the log and in their queue (``PutRun``), or for copied messages that follow each
other in their queue alone (``PutRow``). ``each`` returns an outcome for every single message.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from mypy_extensions import mypyc_attr

from wire.disk.consume_queue import UNIT, UNIT_BYTES
from wire.layout_writers import write_unit
from wire.message.record import parse_record, restated

if TYPE_CHECKING:
    from librt.strings import BytesWriter

    from gateway.store.queues.consume_queue import ConsumeQueue
    from wire.message.record import OutgoingMessage
    from wire.quick.message_run import MessageRun

Places: TypeAlias = "tuple[tuple[ConsumeQueue, int], ...]"
"""The further units that lead to a message, besides the unit of its own offset: in light queues, or of its batch."""


class PutStatus(Enum):
    """The outcome of an append; names as in upstream's ``PutMessageStatus``."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"

    @property
    def is_final(self) -> bool:
        """True if no later attempt would store the message either."""
        return self is PutStatus.MESSAGE_ILLEGAL or self is PutStatus.PROPERTIES_SIZE_EXCEEDED

    @property
    def is_of_message(self) -> bool:
        """True if the message is the reason for a refusal, so that others may be stored meanwhile."""
        return self.is_final or self is PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED

    @property
    def is_stored(self) -> bool:
        """True if the message is in the log, though perhaps not as durably as asked for."""
        return (
            self is PutStatus.PUT_OK
            or self is PutStatus.FLUSH_DISK_TIMEOUT
            or self is PutStatus.FLUSH_SLAVE_TIMEOUT
            or self is PutStatus.SLAVE_NOT_AVAILABLE
        )


class WaitFor(Enum):
    """The event after which a sender is answered. With ASYNC_FLUSH all three mean: when the message is written."""

    DISK = "on disk"
    """Answer with the final outcome: on disk, or refused. For callers that act on the outcome."""
    DISK_OR_TIMEOUT = "on disk, but no longer than syncFlushTimeout"
    """Answer FLUSH_DISK_TIMEOUT if the disk takes too long; the message is written and still goes to the disk."""
    WRITE = "written"
    """Answer PUT_OK once the system has the message (the sender's WAIT=false).

    Readers still see the message when it is on disk.
    """


@mypyc_attr(acyclic=True)
class PutOutcome:
    """The place of one stored message, or of neighbours in one queue. A plain class for speed: every send makes one.

    ``count`` messages take ``size`` bytes of the log from ``commit_log_offset`` on, and ``count`` offsets of the queue
    from
    ``queue_offset`` on. ``queue_offset`` is 0 and ``queue`` None for records that no consume queue shows (prepared and
    rollback kinds). For ``further`` see ``Places``. If the messages are refused, the offsets are −1.
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
        topic: str,
        queue_id: int,
        count: int,
    ) -> None:
        self.status = status
        self.topic = topic
        self.queue_id = queue_id
        self.queue: ConsumeQueue | None = None
        self.queue_offset = -1
        self.commit_log_offset = -1
        self.size = 0
        self.stored_at_ms = 0
        self.count = count
        self.further: Places = ()

    def each(self) -> Iterable[PutResult]:
        """Return the outcome of each message."""
        raise NotImplementedError

    def places(self) -> list[int]:
        """Return the commit log offset of each message."""
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class PutResult(PutOutcome):
    """The outcome of one message. The dispatch fills in ``tags_code``."""

    __slots__ = ("message", "tags_code")

    def __init__(self, status: PutStatus, message: OutgoingMessage) -> None:
        super().__init__(status, message.topic, message.queue_id, 1)
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
        """Note where the message was stored; return ``self``."""
        self.queue = queue
        self.queue_offset = queue_offset
        self.commit_log_offset = commit_log_offset
        self.size = size
        self.stored_at_ms = stored_at_ms
        return self

    def each(self) -> Iterable[PutResult]:
        """Return ``self`` alone."""
        return (self,)

    def places(self) -> list[int]:
        """Return the message's commit log offset alone."""
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
        super().__init__(status, run.batch.topic, run.batch.queue_id, run.count)
        self.queue = queue
        self.queue_offset = queue_offset
        self.commit_log_offset = commit_log_offset
        self.size = run.size
        self.stored_at_ms = stored_at_ms
        self.run = run

    def each(self) -> Iterator[PutResult]:
        """Yield the outcome of each message, made on demand, because few callers need all."""
        run, queue_offset = self.run, self.queue_offset
        for number, place in enumerate(self.places()):
            result = PutResult(self.status, run.message(number)).at(
                self.queue, queue_offset + number, place, run.sizes[number], self.stored_at_ms
            )
            result.tags_code = run.forms[number].code
            yield result

    def places(self) -> list[int]:
        """Return the commit log offset of each message."""
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


@mypyc_attr(acyclic=True)
class PutRow(PutOutcome):
    """The outcome of copied messages of one queue; records of other queues may lie between them in the log.

    ``size`` is the sum of their sizes. ``data`` are bytes of the log from ``start`` on that hold the records, ``units``
    the units of the queue.
    """

    __slots__ = ("data", "start", "units")

    def __init__(self, queue: ConsumeQueue, queue_offset: int, units: bytes, data: bytes, start: int) -> None:
        super().__init__(PutStatus.PUT_OK, queue.topic, queue.queue_id, len(units) // UNIT_BYTES)
        self.queue = queue
        self.queue_offset = queue_offset
        self.commit_log_offset = UNIT.unpack_from(units)[0]
        self.size = sum([size for _, size, _ in UNIT.iter_unpack(units)])
        self.units = units
        self.data = data
        self.start = start

    def each(self) -> Iterator[PutResult]:
        """Yield the outcome of each message, read from the bytes on demand, because few callers need all."""
        for number, (place, size, code) in enumerate(UNIT.iter_unpack(self.units)):
            found = parse_record(self.data, place - self.start)
            message = restated(found, found.topic, found.queue_id, found.properties)
            result = PutResult(self.status, message).at(
                self.queue, self.queue_offset + number, place, size, found.stored_at_ms
            )
            result.tags_code = code
            yield result

    def places(self) -> list[int]:
        """Return the commit log offset of each message."""
        return [place for place, _, _ in UNIT.iter_unpack(self.units)]


Dispatched: TypeAlias = PutResult
"""A message that readers now see, as listeners get it."""


def each_result(outcomes: Iterable[PutOutcome]) -> Iterator[PutResult]:
    """Yield the outcome of every single message."""
    for outcome in outcomes:
        yield from outcome.each()


def message_count(outcomes: Iterable[PutOutcome]) -> int:
    """Return the number of messages of all outcomes."""
    count = 0
    for outcome in outcomes:
        count += outcome.count
    return count
