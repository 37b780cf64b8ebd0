"""The records that a replica gets from another log: cut out of the bytes that arrived, and checked.

Most records are plain: the bulk walk of recovery checks them and makes the units of their queues, with no object for a
record. Where anything else is among them, each one is read with care (decision 0027).
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wire.disk.unit_collector import CollectedUnits, Seen, UnitCollector, check_queue_name
from wire.errors import RecordError
from wire.message.record import (
    END_OF_FILE_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    StoredMessage,
    parse_record,
)
from wire.message.record_layout import FILLER_HEAD

KeyedRecord: TypeAlias = tuple[str, int, int, bytes]
"""The parts of a record that the key index needs: topic, commit log offset, store time in milliseconds, properties."""

MakeCollector: TypeAlias = Callable[[Seen], UnitCollector]
"""A function that makes a new collector, which calls another function for each record."""


@dataclass(frozen=True, slots=True)
class PlainRecords:
    """Records that have one unit each, in queues without a gap among these records."""

    queues: Sequence[CollectedUnits]
    """The units, one run for each queue."""
    keyed: list[KeyedRecord]
    """The records in the order of the log."""


class CopiedRecords:
    """Intact records that follow each other in the log from ``start`` on. A plain class for speed: catching up is hot.

    - ``data``: their bytes, with the fillers between them; ends with the last message.
    - ``needed_bytes``: how many bytes from ``start`` on have to be there for more records.
    - ``problem``: why the bytes after ``data`` are no records of this log; None if nothing is wrong so far.
    - ``plain``: what the bulk walk made of the records; None if they were read with care.
    """

    __slots__ = ("_messages", "data", "needed_bytes", "plain", "problem", "start")

    def __init__(
        self,
        start: int,
        data: bytes,
        needed_bytes: int,
        problem: str | None,
        *,
        plain: PlainRecords | None = None,
        messages: Sequence[StoredMessage] | None = None,
    ) -> None:
        self.start = start
        self.data = data
        self.needed_bytes = needed_bytes
        self.problem = problem
        self.plain = plain
        self._messages = messages

    @property
    def end(self) -> int:
        """The offset of the log after the last record."""
        return self.start + len(self.data)

    @property
    def messages(self) -> Sequence[StoredMessage]:
        """The messages, read one by one when they are asked for first."""
        if self._messages is None:
            found: list[StoredMessage] = []
            position = 0
            while position < len(self.data):
                found.append(parse_record(self.data, position))
                position += found[-1].total_size
            self._messages = found
        return self._messages


class _Keys:
    """The keys of the records that a walk sees, in their order."""

    def __init__(self) -> None:
        self.found: list[KeyedRecord] = []

    def seen(
        self, topic: str, _queue_offset: int, _sys_flag: int, place: int, stored_at_ms: int, properties: bytes
    ) -> None:
        """Implement ``wire.disk.unit_collector.Seen``."""
        self.found.append((topic, place, stored_at_ms, properties))


def plain_records(received: bytes, start: int, file_size: int, make: MakeCollector) -> CopiedRecords | None:
    """Return the intact records at the start of the received bytes if all of them are plain; None if one is not."""
    keys = _Keys()
    collector = make(keys.seen)
    room = file_size - start % file_size - END_OF_FILE_BYTES
    taken = collector.take(received if len(received) <= room else received[:room], start)
    queues = list(collector.queues())
    if not taken or collector.units != collector.records or max([len(queue.runs) for queue in queues]) > 1:
        return None
    needed, problem = _next_record(received, taken, start, file_size)
    if problem is None and needed <= len(received):
        if FILLER_HEAD.unpack_from(received, taken)[1] == MAGIC_BLANK:
            return None
        try:
            _message(received, taken, start + taken)
        except RecordError as error:
            problem = str(error)
        else:
            return None
    return CopiedRecords(start, received[:taken], needed, problem, plain=PlainRecords(queues, keys.found))


def copied_records(received: bytes, start: int, file_size: int) -> CopiedRecords:
    """Return the intact records at the start of the received bytes, which lie at ``start`` of the log.

    A filler counts once a record follows it: nothing refers to a filler alone.
    """
    messages: list[StoredMessage] = []
    position = end = 0
    while True:
        needed, problem = _next_record(received, position, start, file_size)
        if problem is not None or needed > len(received):
            break
        if FILLER_HEAD.unpack_from(received, position)[1] != MAGIC_BLANK:
            try:
                messages.append(_message(received, position, start + position))
            except RecordError as error:
                problem = str(error)
                break
            end = needed
        position = needed
    return CopiedRecords(start, received[:end], needed, problem, messages=messages)


def _next_record(received: bytes, position: int, start: int, file_size: int) -> tuple[int, str | None]:
    """Return how many bytes are needed to have the record or filler at a position, and why none can be there."""
    needed = position + FILLER_HEAD.size
    if needed > len(received):
        return needed, None
    size, magic = FILLER_HEAD.unpack_from(received, position)
    problem = _misfit(size, magic, file_size - (start + position) % file_size)
    return (needed, problem) if problem is not None else (position + size, None)


def _misfit(size: int, magic: int, left: int) -> str | None:
    """Return why no record or filler of this size can be here; None if one can.

    :param left: the number of bytes to the end of the file.
    """
    if magic == MAGIC_BLANK:
        return (
            None if size == left else f"a filler of {size} bytes, but the file has {left} more: files of another size"
        )
    if magic not in (MAGIC_V1, MAGIC_V2):
        return f"unknown magic {magic & 0xFFFFFFFF:#010x}"
    if size < MIN_RECORD_BYTES:
        return f"size {size} is below the least, {MIN_RECORD_BYTES}"
    if size > left - END_OF_FILE_BYTES:
        return f"a record of {size} bytes, but the file has {left} more: files of another size"
    return None


def _message(received: bytes, position: int, offset: int) -> StoredMessage:
    message = parse_record(received, position, check_crc=True)
    if message.commit_log_offset != offset:
        raise RecordError(f"the record says it lies at {message.commit_log_offset}, found at {offset}")
    check_queue_name(message.topic, message.queue_id)
    return message
