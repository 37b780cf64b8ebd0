"""The check whether bytes are a whole record. If they are not, the check names the fault.

The check is stricter than a client's reader. As in upstream's ``CommitLog.checkMessageAndReturnSize``, the parts must
match the size, and the body must match its checksum.
"""

from __future__ import annotations

import struct

from wire.checksum import crc32
from wire.errors import RecordError
from wire.fixed_layout import Readable
from wire.message.record_layout import (
    FILLER_HEAD,
    FLAGS_AT,
    HEAD_BY_BYTE,
    HEADS,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_TOPIC_V1_BYTES,
    MIN_RECORD_BYTES,
    MIN_TAIL_BYTES,
)

BLANK = 0
"""The result of ``check_record`` for a filler: no further record is in this file."""


def check_record(
    buffer: Readable, offset: int, expected_commit_log_offset: int | None, *, check_crc: bool = True
) -> int:
    """Check the whole record at ``offset`` and return its size, or ``BLANK`` for an end-of-file filler.

    The check makes no objects except numbers, because recovery calls it for every record since the last checkpoint.

    :param expected_commit_log_offset: the commit log offset that the record must contain; None skips this check.
    :raises RecordError: the first fault found. The checks run in this order: cut off, magic, sizes, offset, checksum.
    """
    problem = find_damage(buffer, offset)
    if problem is not None:
        if problem is FILLER:
            return BLANK
        raise RecordError(problem)
    layout = HEAD_BY_BYTE[buffer[offset + FLAGS_AT]]
    head = layout.unpack_from(buffer, offset)
    if expected_commit_log_offset is not None and head[6] != expected_commit_log_offset:
        raise RecordError(f"the record says it lies at {head[6]}, found at {expected_commit_log_offset}")
    if check_crc:
        body_at = offset + layout.size
        crc = crc32(memoryview(buffer)[body_at : body_at + head[14]]) & 0x7FFFFFFF
        if crc != head[2]:
            raise RecordError(checksum_text(head[2], crc))
    size: int = head[0]
    return size


FILLER = "an end-of-file filler, not a record"


def checksum_text(stated: int, found: int) -> str:
    """Return the reason for a body that does not match its checksum."""
    return f"body checksum is {found:#010x}, the record says {stated:#010x}"


def cut_off_text(left: int, size: int) -> str:
    """Return the reason for a record that has fewer bytes than its size says."""
    return f"cut off: {left} bytes left of {size}"


def damage_error(buffer: Readable, offset: int) -> RecordError:
    """Return the error for a record that could not be read."""
    return RecordError(find_damage(buffer, offset) or "the record is damaged")


def find_damage(buffer: Readable, offset: int) -> str | None:
    """Return the fault in the sizes of the record at ``offset``; None if the sizes match."""
    left = len(buffer) - offset
    if left < FILLER_HEAD.size:
        return f"cut off: {left} bytes left, a record takes at least {MIN_RECORD_BYTES}"
    size, magic = FILLER_HEAD.unpack_from(buffer, offset)
    if magic not in (MAGIC_V1, MAGIC_V2):
        if magic == MAGIC_BLANK:
            return FILLER
        return "nothing is written here" if size == magic == 0 else f"unknown magic {magic & 0xFFFFFFFF:#010x}"
    if size < MIN_RECORD_BYTES:
        return f"size {size} is below the least, {MIN_RECORD_BYTES}"
    if size > left:
        return cut_off_text(left, size)
    head = HEAD_BY_BYTE[buffer[offset + FLAGS_AT]]
    if size < head.size + MIN_TAIL_BYTES:
        return f"size {size} is below the least with these hosts, {head.size + MIN_TAIL_BYTES}"
    return _tail_problem(buffer, offset, offset + size, offset + head.size, magic)


_BODY_BYTES = HEADS[0].packer("body_bytes")
_PROPERTIES_BYTES = struct.Struct(">h")


def _tail_problem(buffer: Readable, offset: int, end: int, body_at: int, magic: int) -> str | None:
    (body_bytes,) = _BODY_BYTES.unpack_from(buffer, body_at - _BODY_BYTES.size)
    topic_at = body_at + body_bytes + (1 if magic == MAGIC_V1 else 2)
    if body_bytes < 0 or topic_at + 2 > end:
        return f"a body of {body_bytes} bytes does not fit into {end - offset}"
    topic_bytes = buffer[topic_at - 1]
    if magic == MAGIC_V2:
        topic_bytes |= buffer[topic_at - 2] << 8
    elif topic_bytes > MAX_TOPIC_V1_BYTES:
        return f"the topic length {topic_bytes - 256} is negative"
    properties_at = topic_at + topic_bytes + 2
    if properties_at > end:
        return f"a topic of {topic_bytes} bytes does not fit into {end - offset}"
    (properties_bytes,) = _PROPERTIES_BYTES.unpack_from(buffer, properties_at - 2)
    if properties_bytes < 0 or properties_at + properties_bytes != end:
        parts_bytes = properties_at + properties_bytes - offset
        return f"the parts take {parts_bytes} bytes, the record says {end - offset}"
    return None


_SIZE_TO_OFFSET = struct.Struct(
    f">iii{HEADS[0].offset('commit_log_offset') - 12}xq"
)  # total size, magic, body checksum, place: the same in all heads


def first_damage(buffer: Readable, commit_log_offset: int) -> tuple[int, str] | None:
    """Find the first damaged record in a row of whole records from one place of the log.

    The function is for readers of records that this process did not write. The function checks size, place and checksum
    of each record by a few comparisons. The parts within a record are compared with its size only if one of these
    checks fails.

    :returns: (commit log offset, reason); None if the records fill the buffer and all are intact.
    """
    view, end = memoryview(buffer), len(buffer)
    unpack = _SIZE_TO_OFFSET.unpack_from
    position = 0
    try:
        while position < end:
            size, magic, crc, offset = unpack(buffer, position)
            head_bytes = HEAD_BY_BYTE[buffer[position + FLAGS_AT]].size
            body_at = position + head_bytes
            body_end = body_at + _BODY_BYTES.unpack_from(buffer, body_at - _BODY_BYTES.size)[0]
            if (
                offset != commit_log_offset + position
                or not body_at <= body_end < position + size <= end
                or magic not in (MAGIC_V1, MAGIC_V2)
                or crc32(view[body_at:body_end]) & 0x7FFFFFFF != crc
            ):
                break
            position += size
    except (IndexError, struct.error):
        pass
    if position == end:
        return None
    try:
        check_record(buffer, position, commit_log_offset + position)
    except RecordError as error:
        return commit_log_offset + position, str(error)
    return commit_log_offset + position, "the record is not as long as its consume queue says"
