"""The log as bytes for a replica: whole records from a place on, and the records by which two logs are compared."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.log.log_scan import WINDOW_BYTES, LogScan, next_record
from wire.errors import RecordError
from wire.message.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES
from wire.message.record_check import check_record
from wire.message.record_fields import commit_log_offset_at
from wire.message.record_layout import FILLER_HEAD, HEADS

MAX_COMPARED = 16
"""The most records of a log that are compared with those of another."""
FIRST_STEP_BYTES = 256
"""The distance in bytes of the second compared record from the last one, about: records have some hundred bytes."""
_LEAST_BYTES = HEADS[0].size
"""The number of bytes that hold the size, the magic number and the place of a record."""


def log_bytes(files: MappedFileQueue, start: int, limit: int, end: int) -> bytes | None:
    """Return the bytes of the log from ``start`` on, as far as they are in one file; blocks.

    The bytes end with a record: there are at most ``limit`` of them, or one record. A filler counts as a record that
    reaches to the end of its file.

    :param end: the offset of a record's end, up to which bytes are returned.
    :returns: b"" if ``start`` is not below ``end``; None if the log no longer has the bytes.
    """
    left = end - start
    if left <= 0:
        return b""
    file = files.find(start)
    if file is None:
        return None
    position = start - file.start_offset
    left = min(file.size - position, left)
    data = file.read(position, min(max(limit, _LEAST_BYTES), left))
    if not data:  # deleted as expired before it was ever opened
        return None
    if _is_begin(data, start, file.size - position):
        count = _whole_bytes(data, limit)
    else:  # a replica of another kind ended inside a record
        following = next_record(files, start)
        count = left if following is None else following - start
    count = min(count, left)
    return data[:count] if count <= len(data) else data + file.read(position + len(data), count - len(data))


def durable_record(files: MappedFileQueue, start: int, end: int) -> bytes | None:
    """Return the intact record that starts at ``start`` and ends at or before ``end``; None if there is none; blocks.

    :param end: the offset of a record's end, up to which the log is on disk.
    """
    file = files.find(start) if start < end else None
    if file is None:
        return None
    position = start - file.start_offset
    left = min(file.size - position, end - start)
    head = file.read(position, min(_LEAST_BYTES, left))
    if len(head) < _LEAST_BYTES or not _is_begin(head, start, file.size - position):
        return None
    size, magic = FILLER_HEAD.unpack_from(head)
    if magic == MAGIC_BLANK or size > left:
        return None
    data = file.read(position, size)
    try:
        check_record(data, 0, None)
    except RecordError:
        return None
    return bytes(data)


def _is_begin(data: bytes, start: int, left: int) -> bool:
    """Return whether a record that says so, or a filler of the rest of its file, starts at ``start``."""
    if len(data) < FILLER_HEAD.size:
        return False
    size, magic = FILLER_HEAD.unpack_from(data)
    if magic == MAGIC_BLANK:
        return bool(size == left)
    is_record = magic in (MAGIC_V1, MAGIC_V2) and size >= MIN_RECORD_BYTES and len(data) >= _LEAST_BYTES
    return is_record and commit_log_offset_at(data) == start


def _whole_bytes(data: bytes, limit: int) -> int:
    """Return the length of the records that end within the limit, or of the first record alone."""
    position, unpack, last = 0, FILLER_HEAD.unpack_from, len(data) - FILLER_HEAD.size
    while position <= last:
        size = unpack(data, position)[0]
        if position and (size < FILLER_HEAD.size or position + size > limit):
            break
        position += size
    return position


def last_record(files: MappedFileQueue, place: int, begin: int) -> int | None:
    """Return where the last record starts that ends at or before ``place``; None if none starts at or after ``begin``.

    Blocks. The record is found by its magic number in a part before ``place``, which grows until it holds a record.
    """
    while place > begin and (file := files.find(place - 1)) is not None:
        first = max(file.start_offset, begin)
        reach = WINDOW_BYTES
        while True:
            start = max(place - reach, first)
            found = next_record(files, start - 1)
            if found is not None and found < place:
                last = _last_of(files, found, place)
                if last is not None:
                    return last
            if start == first:
                break
            reach *= 2
        place = file.start_offset
    return None


def _last_of(files: MappedFileQueue, start: int, place: int) -> int | None:
    """Return where the last record starts of those from ``start`` on that end at or before ``place``."""
    last = None
    for message in LogScan(files, start, place, check_crc=False):
        if message.commit_log_offset + message.total_size > place:
            break
        last = message.commit_log_offset
    return last


def record_begins(files: MappedFileQueue, place: int, begin: int) -> list[int]:
    """Return where records start that two logs should share if they are equal below ``place``; blocks.

    The first is the last record before ``place``; each further one lies several times as far back, and the last one is
    the first record at or after ``begin``. There are at most ``MAX_COMPARED``.
    """
    found: list[int] = []
    for bound in _bounds(place, begin):
        record = last_record(files, bound, begin)
        if record is not None and record not in found:
            found.append(record)
    first = next_record(files, begin - 1) if found else None
    if first is not None and first not in found:
        found.append(first)
    return found


def _bounds(place: int, begin: int) -> Iterator[int]:
    """Yield offsets, each several times as far before ``place`` as the one before."""
    yield place
    steps = MAX_COMPARED - 2
    factor = max(2.0, ((place - begin) / FIRST_STEP_BYTES) ** (1 / steps))
    back = float(FIRST_STEP_BYTES)
    for _ in range(steps):
        if place - back <= begin:
            return
        yield place - int(back)
        back *= factor
