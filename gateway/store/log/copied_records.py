"""The records that a replica gets from another log: cut out of the bytes that arrived, and checked one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wire.disk.unit_collector import check_queue_name
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


@dataclass(frozen=True, slots=True)
class CopiedRecords:
    """Intact records that follow each other in the log from ``start`` on.

    ``data`` are their bytes, with the fillers between them, and end with the last message. ``needed_bytes`` is how many
    bytes from ``start`` on have to be there for more records. ``problem`` says why the bytes after ``data`` are no
    records of this log; None if nothing is wrong with them so far.
    """

    start: int
    data: bytes
    messages: Sequence[StoredMessage]
    needed_bytes: int
    problem: str | None = None

    @property
    def end(self) -> int:
        """The offset of the log after the last record."""
        return self.start + len(self.data)


def copied_records(received: bytes | bytearray, start: int, file_size: int) -> CopiedRecords:
    """Return the intact records at the start of the received bytes, which lie at ``start`` of the log.

    A filler counts once a record follows it: nothing refers to a filler alone.
    """
    received = bytes(received)
    messages: list[StoredMessage] = []
    position = end = 0
    problem: str | None = None
    while True:
        needed = position + FILLER_HEAD.size
        if needed > len(received):
            break
        size, magic = FILLER_HEAD.unpack_from(received, position)
        left = file_size - (start + position) % file_size
        problem = _misfit(size, magic, left)
        if problem is not None:
            break
        needed = position + size
        if needed > len(received):
            break
        if magic != MAGIC_BLANK:
            try:
                messages.append(_message(received, position, start + position))
            except RecordError as error:
                problem = str(error)
                break
            end = needed
        position = needed
    return CopiedRecords(start, received[:end], messages, needed, problem)


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
