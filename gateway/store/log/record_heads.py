"""Records without their bodies, for callers that decide by a message's head and properties.

A peer that names a place of the log mostly gets a yes or no. A body may have 4 MB; the rest of a record has some
hundred bytes, 34 KB at most. Small records are read whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gateway.store.disk.mapped_file import MappedFile
from gateway.store.log.commit_log import FIRST_READ_BYTES, HEAD_READ_BYTES, CommitLog
from wire.errors import RecordError
from wire.message.properties import MAX_PROPERTIES_BYTES
from wire.message.record import MAX_TOPIC_BYTES, StoredMessage, parse_record, parse_record_ends, tail_start
from wire.message.record_fields import commit_log_offset_at, total_size_at

MAX_TAIL_BYTES = 2 + MAX_TOPIC_BYTES + 2 + MAX_PROPERTIES_BYTES
"""The longest part of a record after its body, in bytes."""

ReadPart: TypeAlias = Callable[[MappedFile, int, int], bytes]
"""A function ``read(file, position, count)`` that waits for the disk, or raises an exception instead of waiting."""


def head_at(log: CommitLog, offset: int, read: ReadPart) -> StoredMessage | None:
    """Return the message whose record starts at ``offset``; None if there is none, or if its ends are damaged.

    The body is empty unless the record is small (``StoredMessage.has_body``).
    """
    if not log.min_offset <= offset < log.visible_end:
        return None
    file = log.files.find(offset)
    if file is None:
        return None
    position = offset - file.start_offset
    most = min(file.size - position, log.visible_end - offset)
    start = read(file, position, min(FIRST_READ_BYTES, most))
    if len(start) < HEAD_READ_BYTES - 24 or commit_log_offset_at(start) != offset:
        return None
    size = total_size_at(start)
    if not 0 < size <= most:
        return None
    try:
        if size <= len(start):
            return parse_record(start, check_crc=offset < log.checked_from)
        tail_at = tail_start(start)
        if not 0 < size - tail_at <= MAX_TAIL_BYTES:
            return None
        return parse_record_ends(start, read(file, position + tail_at, size - tail_at))
    except RecordError:
        return None
