"""One consume queue: where the messages of one queue of a topic lie in the commit log.

Derived data: lost or stale queues are rebuilt from the log. Units are written at once and synced by a timer. Files are
made when their first unit is written; a queue that starts above 0 begins with filler units, as upstream
``ConsumeQueue.fillPreBlank`` writes them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.store.files import FileLayer
from gateway.store.open_files import OpenFile, OpenFiles
from gateway.store.paths import offset_name, parse_offset_name
from wire.disk.consume_queue import FILLER, UNIT, UNIT_BYTES, is_filler, is_written

Unit = tuple[int, int, int]


class QueueFiles:
    """What all consume queues share: the disk, the open files, and the size of a file."""

    __slots__ = ("directory", "file_bytes", "files", "open_files")

    def __init__(self, files: FileLayer, directory: Path, file_bytes: int, max_open_files: int) -> None:
        self.files = files
        self.directory = directory
        self.file_bytes = file_bytes
        self.open_files = OpenFiles(files, max_open_files)


class ConsumeQueue:
    """The state of one queue. A plain class: it is touched for every message.

    ``next_offset`` is what the next appended message gets, ``max_offset`` what readers may see; between the two are
    messages on their way to the disk. ``min_offset`` is the first unit whose message still exists. ``starts`` are the
    byte offsets of its files. Changed on the reactor's thread; other threads may read.
    """

    __slots__ = ("_shared", "max_offset", "min_offset", "next_offset", "queue_id", "starts", "topic")

    def __init__(self, shared: QueueFiles, topic: str, queue_id: int) -> None:
        self._shared = shared
        self.topic = topic
        self.queue_id = queue_id
        self.starts: list[int] = []
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return self._shared.directory / self.topic / str(self.queue_id)

    def path(self, start: int) -> Path:
        """The file that starts at a byte offset."""
        return self.directory / offset_name(start)

    # --- writing -------------------------------------------------------------------------------------------------

    def write_units(self, first_offset: int, units: bytes) -> list[int]:
        """Write units for the messages from ``first_offset`` on; may be repeated. The starts of the files written.

        :raises OSError: nothing is shown to readers; write the same units again later.
        """
        file_bytes = self._shared.file_bytes
        position = first_offset * UNIT_BYTES
        if not self.starts:
            self.min_offset = first_offset
        touched = []
        while units:
            start = position - position % file_bytes
            part = units[: start + file_bytes - position]
            file = self._file(start) or self._make_file(start, position)
            self._shared.files.pwrite(file.fd, part, position - start)
            touched.append(start)
            position += len(part)
            units = units[len(part) :]
        self.max_offset = position // UNIT_BYTES
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset
        return touched

    def _file(self, start: int) -> OpenFile | None:
        """The open file, opened when it is known; None when it has to be made."""
        file = self._shared.open_files.get((self, start))
        if file is None and start in self.starts:
            file = self._shared.open_files.open((self, start), self.path(start))
        return file

    def _make_file(self, start: int, first_position: int) -> OpenFile:
        files = self._shared.files
        files.make_directory(self.directory)
        file = self._shared.open_files.open((self, start), self.path(start), create=True)
        try:
            files.truncate(file.fd, self._shared.file_bytes)
            if not self.starts and first_position > start:
                files.pwrite(file.fd, FILLER * ((first_position - start) // UNIT_BYTES), 0)
        except OSError:
            self._shared.open_files.forget((self, start))  # half made: the next attempt makes it anew
            raise
        self.starts = [*self.starts, start]
        return file

    # --- reading -------------------------------------------------------------------------------------------------

    def read_units(self, offset: int, count: int) -> bytes:
        """Up to ``count`` units from ``offset`` on, as far as readers may see and the file goes; b"" when none.

        For any thread.
        """
        position = offset * UNIT_BYTES
        file_bytes = self._shared.file_bytes
        start = position - position % file_bytes
        end = min(position + count * UNIT_BYTES, self.max_offset * UNIT_BYTES, start + file_bytes)
        if end <= position or start not in self.starts:
            return b""
        try:
            file = self._file(start)
        except FileNotFoundError:  # retention was quicker
            return b""
        return b"" if file is None else self._shared.files.pread(file.fd, end - position, position - start)

    def unit(self, offset: int) -> Unit | None:
        """(commit log offset, size, tags code) of one message; None when it has no unit."""
        data = self.read_units(offset, 1)
        return UNIT.unpack_from(data) if len(data) == UNIT_BYTES else None

    def next_file_offset(self, offset: int) -> int:
        """The first queue offset behind the file that covers ``offset``."""
        units = self._shared.file_bytes // UNIT_BYTES
        return (offset // units + 1) * units

    def covered_end(self) -> int:
        """The commit log offset after its last message; −1 when it has none."""
        unit = self.unit(self.max_offset - 1) if self.max_offset else None
        return -1 if unit is None or is_filler(unit[0], unit[1]) else unit[0] + unit[1]

    # --- opening and trimming ------------------------------------------------------------------------------------

    def load(self, names: list[str]) -> list[str]:
        """Take over the files of its directory; returns remarks about what cannot be taken over.

        With a file of a wrong size, or one missing in between, nothing is: the queue is to be rebuilt.
        """
        remarks = []
        for name in names:
            start = parse_offset_name(name)
            if start is None or start % self._shared.file_bytes:
                remarks.append(f"{self.directory / name} is not a consume queue file and was left alone")
            else:
                self.starts.append(start)
        for index, start in enumerate(self.starts):
            file = self._file(start)
            size = self._shared.files.size(file.fd) if file is not None else 0
            if size != self._shared.file_bytes or start != self.starts[0] + index * self._shared.file_bytes:
                remarks.append(f"{self.path(start)} has {size} bytes or stands after a gap; the queue is rebuilt")
                self.clear()
                break
        self._find_end(partial(_is_past, limit=None))
        return remarks

    def cut(self, commit_log_end: int) -> bool:
        """Forget the units of messages at or above a commit log offset; whether there were any.

        What is behind the new end is erased: later readers of the files take zeros for the end.
        """
        before = self.max_offset
        if self.max_offset and self.covered_end() > commit_log_end:
            self._find_end(partial(_is_past, limit=commit_log_end))
        self._erase_from(self.max_offset * UNIT_BYTES)
        return self.max_offset != before

    def _find_end(self, is_past: Callable[[Unit], bool]) -> None:
        """Set the end to the first unit that is past; units are in commit log order, so halving finds it."""
        units = self._shared.file_bytes // UNIT_BYTES
        end = self.starts[0] // UNIT_BYTES if self.starts else 0
        for start in reversed(self.starts):
            first = start // UNIT_BYTES
            offsets = range(first, first + units)
            used = bisect_left(offsets, True, key=lambda offset: is_past(self._raw(offset)))
            if used:
                end = first + used
                break
        self.max_offset = self.next_offset = end

    def _raw(self, offset: int) -> Unit:
        """A unit of an existing file, whatever the end is."""
        position = offset * UNIT_BYTES
        start = position - position % self._shared.file_bytes
        file = self._file(start)
        data = b"" if file is None else self._shared.files.pread(file.fd, UNIT_BYTES, position - start)
        return UNIT.unpack_from(data.ljust(UNIT_BYTES, b"\x00"))

    def _erase_from(self, position: int) -> None:
        for start in reversed(self.starts):
            if start + self._shared.file_bytes <= position:
                return
            if start > position or (start == position and start != self.starts[0]):
                self.remove_file(start)
            else:
                file = self._file(start)
                if file is not None and self._has_data(file, position - start):
                    self._shared.files.truncate(file.fd, position - start)
                    self._shared.files.truncate(file.fd, self._shared.file_bytes)

    def _has_data(self, file: OpenFile, position: int) -> bool:
        """Whether anything but zeros follows; after a power failure also behind a gap of zeros."""
        files = self._shared.files
        ranges = files.data_ranges(file.fd, position, self._shared.file_bytes)
        return any(files.pread(file.fd, end - start, start).strip(b"\x00") for start, end in ranges)

    def remove_file(self, start: int) -> None:
        """Delete one of its files."""
        self.starts = [kept for kept in self.starts if kept != start]
        self._shared.open_files.forget((self, start))
        self._shared.files.unlink(self.path(start))

    def clear(self) -> None:
        """Delete all its files; the next message may start anywhere."""
        for start in self.starts:
            self.remove_file(start)
        self.min_offset = self.max_offset = self.next_offset = 0

    # --- retention -----------------------------------------------------------------------------------------------

    def correct_min(self, commit_log_min: int) -> None:
        """Move the minimum past the units whose messages are deleted."""
        first = max(self.min_offset, self.starts[0] // UNIT_BYTES) if self.starts else self.max_offset
        if first < self.max_offset and self._is_gone(first, commit_log_min):
            span = range(first, self.max_offset)
            first += bisect_left(span, True, key=lambda offset: not self._is_gone(offset, commit_log_min))
        self.min_offset = first

    def _is_gone(self, offset: int, commit_log_min: int) -> bool:
        position, size, _ = self._raw(offset)
        return position < commit_log_min or is_filler(position, size)

    def remove_expired(self) -> int:
        """Delete files wholly below the minimum, never the last one; how many."""
        expired = [
            start for start in self.starts[:-1] if (start + self._shared.file_bytes) // UNIT_BYTES <= self.min_offset
        ]
        for start in expired:
            self.remove_file(start)
        return len(expired)


def _is_past(unit: Unit, limit: int | None) -> bool:
    position, size, _ = unit
    if not is_written(position, size):
        return True
    return limit is not None and position >= limit and not is_filler(position, size)
