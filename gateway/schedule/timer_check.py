"""The file ``config/timercheck``: how far timers are delivered, and from which place a start has to read.

The first 56 bytes are Apache RocketMQ's own. After these bytes, in a place that Apache RocketMQ never reads, the
gateway adds its own marks:

    0     seven int64 of upstream's TimerCheckpoint
    256   magic · the seven once more · commit log offset of the first delivery of a slot that is not done ·
          timer log position of the first entry that waits · CRC32 of these

If the seven numbers at the start differ from our copy, Apache's broker has served the directory since, and our marks
are stale. Both parts lie in the first sector of 512 bytes, which a disk writes as a whole.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import msgspec

from gateway.store.disk.files import FileLayer
from gateway.store.disk.small_files import read_file
from wire.disk.timer_checkpoint import FILE_BYTES, VALUES, TimerCheckpoint
from wire.disk.timer_log import NONE
from wire.errors import LayoutError

# On disk: never change.
MARKS_AT = 256
_MARKS = struct.Struct(f">8s{VALUES.size}sqq")
_CRC = struct.Struct(">I")
_MAGIC = b"RMQGWT\x00\x01"


class TimerMarks(msgspec.Struct, frozen=True, kw_only=True):
    """The progress that is known to be on disk.

    :param read_to_ms: all slots before this time are done.
    :param scan_from: the commit log offset at or after which deliveries of later slots lie; ``NONE`` if unknown.
    :param log_end: the timer log holds the timer queue's messages below ``queue_offset`` up to this position.
    :param waits_from: entries before this position of the timer log are done.
    """

    read_to_ms: int = 0
    scan_from: int = NONE
    log_end: int = 0
    queue_offset: int = 0
    waits_from: int = 0
    is_foreign: bool = False
    """True if another broker wrote the marks, or nobody did."""


class TimerCheckFile:
    """A reader and writer of the file; for one thread at a time."""

    def __init__(self, files: FileLayer, path: Path) -> None:
        self._files = files
        self._path = path
        self._counter = 0
        self.newest = TimerCheckpoint()
        """The values in the file."""

    def load(self) -> TimerMarks:
        """Return the marks in the file; blocks. If the file is missing, nothing is known.

        :raises OSError: the file cannot be read.
        """
        if not self._files.exists(self._path):
            return TimerMarks(is_foreign=True)
        data = read_file(self._files, self._path, FILE_BYTES)
        try:
            self.newest = found = TimerCheckpoint.parse(data)
        except LayoutError:
            return TimerMarks(is_foreign=True)
        self._counter = found.counter
        own = _own(data)
        return TimerMarks(
            read_to_ms=found.read_to_ms,
            scan_from=own[0] if own else NONE,
            log_end=found.log_flushed,
            queue_offset=found.queue_offset,
            waits_from=own[1] if own else 0,
            is_foreign=own is None,
        )

    def save(self, marks: TimerMarks, now_ms: int) -> None:
        """Write and sync the file; blocks.

        :raises OSError: the file cannot be written or synced.
        """
        self._counter += 1
        values = TimerCheckpoint(
            read_to_ms=marks.read_to_ms,
            log_flushed=marks.log_end,
            queue_offset=marks.queue_offset,
            master_queue_offset=marks.queue_offset,
            state_version=self.newest.state_version,
            changed_at_ms=now_ms,
            counter=self._counter,
        )
        packed = _MARKS.pack(_MAGIC, values.build(), marks.scan_from, marks.waits_from)
        data = values.build().ljust(MARKS_AT, b"\x00") + packed + _CRC.pack(zlib.crc32(packed))
        files = self._files
        is_new = not files.exists(self._path)
        if is_new:
            files.make_directory(self._path.parent)
        fd = files.open(self._path, create=is_new)
        try:
            if files.size(fd) != FILE_BYTES:
                files.truncate(fd, FILE_BYTES)
            files.pwrite(fd, data, 0)
            files.fdatasync(fd)
        finally:
            files.close(fd)
        if is_new:
            files.fsync_directory(self._path.parent)
        self.newest = values


def _own(data: bytes) -> tuple[int, int] | None:
    """Return our marks if they were written with the values at the start of the file; otherwise None."""
    if len(data) < MARKS_AT + _MARKS.size + _CRC.size:
        return None
    packed = data[MARKS_AT : MARKS_AT + _MARKS.size]
    (crc,) = _CRC.unpack_from(data, MARKS_AT + _MARKS.size)
    magic, values, scan_from, waits_from = _MARKS.unpack(packed)
    if magic != _MAGIC or crc != zlib.crc32(packed) or values != data[: VALUES.size]:
        return None
    return scan_from, waits_from
