"""The checkpoint file: how much is known to be on disk.

The first bytes are Apache RocketMQ's own (store times). After these bytes, where Apache RocketMQ never looks, the
gateway keeps exact offsets: with times alone, recovery has to begin at the start of a file of up to 1 GiB.

    0     five int64 of upstream's StoreCheckpoint
    256   magic · durable log offset · queues offset · index offset · last indexed offset · the three store times
          as the gateway wrote them · where the log begins · CRC32 of these

If the times at the start differ from the times at 256, Apache's broker has served the directory since: the offsets are
stale. Both copies lie in the first sector of 512 bytes, which a disk writes as a whole: a power failure cannot make
them differ.

The start of the log is moved before the files below it are deleted: a log that starts later has lost files.

The file is only written after its promises are on disk. The durable offset is also written, unsynced, with every group
commit: after a kill it is exact, after a power failure it may be a little old, never too new.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from threading import Lock

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.index.index import IndexMark
from wire.disk.checkpoint import FILE_BYTES, StoreCheckpoint
from wire.errors import LayoutError

# On disk: never change.
MARKS_AT = 256
_MARKS = struct.Struct(">8sqqqqqqqq")
_MARKS_BEFORE = struct.Struct(">8sqqqqqqq")
"""The earlier layout, without the start of the log."""
_CRC = struct.Struct(">I")
_MAGIC = b"RMQGW\x00\x00\x02"
_MAGIC_BEFORE = b"RMQGW\x00\x00\x01"
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Marks:
    """Offsets of the commit log, below which data is on disk.

    Below ``durable`` the log itself is on disk, below ``queues`` all consume queue units are, below ``index.scanned``
    all index entries are.
    """

    durable: int
    queues: int
    index: IndexMark


class CheckpointFile:
    """The reader and writer of the checkpoint file; any thread may write."""

    def __init__(self, files: FileLayer, paths: StorePaths) -> None:
        self._files = files
        self._path = paths.checkpoint
        self._lock = Lock()
        self._fd = -1
        self.times = StoreCheckpoint()
        self.marks: Marks | None = None
        self.is_foreign = False
        """True if another broker wrote to the file after the gateway did."""
        self.log_begin = UNKNOWN
        """The start of the log after the gateway's deletions; ``UNKNOWN`` if another broker may have deleted files."""

    def load(self) -> None:
        """Open the file, and make it if it is missing; unreadable content counts as "nothing is known"."""
        is_new = not self._files.exists(self._path)
        self._fd = self._files.open(self._path, create=is_new)
        if self._files.size(self._fd) != FILE_BYTES:
            self._files.truncate(self._fd, FILE_BYTES)
        data = self._files.pread(self._fd, FILE_BYTES, 0)
        try:
            self.times = StoreCheckpoint.parse(data)
        except LayoutError:
            self.times = StoreCheckpoint()
        found = _parse_marks(data)
        if found is not None:
            marks, times, log_begin = found
            self.is_foreign = times != _own_times(self.times)
            if not self.is_foreign:
                self.marks, self.log_begin = marks, log_begin

    def log_is_durable(self, offset: int, stored_at_ms: int) -> None:
        """Note the end of a group commit; not synced."""
        with self._lock:
            marks = self.marks
            if marks is not None and offset > marks.durable:
                self.marks = Marks(offset, marks.queues, marks.index)
                if stored_at_ms > self.times.log_stored_at_ms:
                    self.times = replace(self.times, log_stored_at_ms=stored_at_ms)
                self._write()

    def save(self, marks: Marks, *, log_stored_at_ms: int, queues_stored_at_ms: int) -> None:
        """Write times and marks, and return when they are on disk."""
        with self._lock:
            durable = max(marks.durable, self.marks.durable) if self.marks is not None else marks.durable
            self.marks = replace(marks, durable=durable)
            self.times = replace(
                self.times,
                log_stored_at_ms=max(log_stored_at_ms, self.times.log_stored_at_ms),
                queues_stored_at_ms=queues_stored_at_ms,
                index_stored_at_ms=marks.index.stored_at_ms,
            )
            self._write()
            fd = self._fd
        self._files.fdatasync(fd)

    def distrust_queues(self, offset: int) -> None:
        """Note that units are about to be erased and written again; the note is on disk when the method returns.

        If the work is interrupted, the next start has to read the log from ``offset`` on. The next ``save`` ends the
        note.
        """
        with self._lock:
            self.times = replace(self.times, queues_stored_at_ms=0)
            if self.marks is not None:
                self.marks = replace(self.marks, queues=min(offset, self.marks.queues))
                self._write()
            else:
                self._files.pwrite(self._fd, self.times.build(MARKS_AT), 0)
            fd = self._fd
        self._files.fdatasync(fd)

    def cut(self, offset: int, last_record: int) -> None:
        """Note that the log is being cut at an offset; the note is on disk when the method returns.

        What lies at or above the offset is no longer promised, in log, queues and index.

        :param last_record: the offset of the last record that stays; −1 if none does.
        """
        with self._lock:
            self.times = replace(self.times, queues_stored_at_ms=0)
            marks = self.marks
            if marks is None:  # nothing was promised
                self._files.pwrite(self._fd, self.times.build(MARKS_AT), 0)
            else:
                index = marks.index
                kept = IndexMark(min(index.scanned, offset), min(index.last_offset, last_record), index.stored_at_ms)
                self.marks = Marks(min(marks.durable, offset), min(marks.queues, offset), kept)
                self._write()
            fd = self._fd
        self._files.fdatasync(fd)

    def begin_log(self, offset: int) -> None:
        """Note the new start of the log; the bytes below ``offset`` are about to be deleted, or were found missing.

        If marks are known, the note is on disk when the method returns; otherwise the next ``save`` writes the note.
        """
        with self._lock:
            if offset == self.log_begin:
                return
            self.log_begin = offset
            if self.marks is None:
                return
            self._write()
            fd = self._fd
        self._files.fdatasync(fd)

    def forget_stale(self) -> None:
        """Erase the gateway's marks, which are older than what another broker wrote since; sync the file."""
        with self._lock:
            self._files.pwrite(self._fd, bytes(FILE_BYTES - MARKS_AT), MARKS_AT)
            fd = self._fd
        self._files.fdatasync(fd)

    def forget(self) -> None:
        """Drop the marks, because recovery found another end of the log. The next ``save`` makes new marks."""
        with self._lock:
            self.marks = None

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1

    def _write(self) -> None:
        assert self.marks is not None
        marks = _build_marks(self.marks, self.times, self.log_begin)
        self._files.pwrite(self._fd, self.times.build(MARKS_AT) + marks, 0)


def _own_times(times: StoreCheckpoint) -> tuple[int, int, int]:
    return times.log_stored_at_ms, times.queues_stored_at_ms, times.index_stored_at_ms


def _build_marks(marks: Marks, times: StoreCheckpoint, log_begin: int) -> bytes:
    index = marks.index
    packed = _MARKS.pack(
        _MAGIC, marks.durable, marks.queues, index.scanned, index.last_offset, *_own_times(times), log_begin
    )
    return packed + _CRC.pack(zlib.crc32(packed))


def _parse_marks(data: bytes) -> tuple[Marks, tuple[int, int, int], int] | None:
    """Return the marks, the times that were written with them, and the start of the log.

    Return None if there are no valid marks.
    """
    layout = _MARKS_BEFORE if data[MARKS_AT : MARKS_AT + len(_MAGIC)] == _MAGIC_BEFORE else _MARKS
    if len(data) < MARKS_AT + layout.size + _CRC.size:
        return None
    packed = data[MARKS_AT : MARKS_AT + layout.size]
    (crc,) = _CRC.unpack_from(data, MARKS_AT + layout.size)
    magic, durable, queues, scanned, last_offset, log_ms, queues_ms, index_ms, *rest = layout.unpack(packed)
    if magic not in (_MAGIC, _MAGIC_BEFORE) or crc != zlib.crc32(packed):
        return None
    marks = Marks(durable=durable, queues=queues, index=IndexMark(scanned, last_offset, index_ms))
    return marks, (log_ms, queues_ms, index_ms), rest[0] if rest else UNKNOWN
