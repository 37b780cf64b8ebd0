"""One consume queue: the places in the commit log of the messages of one queue of a topic.

Consume queues are derived data: lost or stale queues are rebuilt from the log. Units of new messages are held in memory
for a moment, so that the units of many batches are written at once; readers find held units there. A timer makes the
files in a thread, and writes and syncs held units. A queue that starts above 0 starts with filler units, as upstream
``ConsumeQueue.fillPreBlank`` writes them.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from errno import ENOENT
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Final

from gateway.store.disk.erasing import erase
from gateway.store.disk.files import FileLayer
from gateway.store.disk.open_files import OpenFile, OpenFiles
from gateway.store.disk.paths import offset_name, parse_offset_name
from gateway.store.queues.queue_addresses import first_address
from gateway.store.queues.queue_extension import QueueExtension
from gateway.store.queues.queue_file import FileEnd, Unit, end_of, file_end, is_past, lowest_behind
from wire.disk.consume_queue import FILLER, UNIT, UNIT_BYTES, is_filler, is_written
from wire.disk.queue_extension import FILE_BYTES as EXTENSION_FILE_BYTES

QueueState = tuple[int, int, int, int, int, int]
"""The state of a queue, as six figures.

The figures: max offset; min offset; log offset after the last message; log offset of the message at the min offset (−1:
to be read); start of the first file; start of the last file (−1: no file).
"""

FIRST_FILE: Final = (0,)
"""The ``starts`` of nearly all queues: 80,000 queues share this tuple."""
NEAR_UNITS = 200
"""The number of last units examined first: few messages came after the last flush."""


class QueueFiles:
    """The things that all consume queues share: the disk, the open files, and the sizes of files.

    :param directory: the directory of the queues; the directory beside it holds their extensions.
    """

    __slots__ = (
        "directory",
        "erased",
        "extended",
        "extension_directory",
        "extension_file_bytes",
        "file_bytes",
        "files",
        "lock",
        "open_files",
        "removed",
    )

    def __init__(
        self,
        files: FileLayer,
        directory: Path,
        file_bytes: int,
        max_open_files: int,
        extension_file_bytes: int = EXTENSION_FILE_BYTES,
    ) -> None:
        self.files = files
        self.lock = Lock()
        self.directory = directory
        self.extension_directory = directory.with_name("consumequeue_ext")
        self.file_bytes = file_bytes
        self.extension_file_bytes = extension_file_bytes
        self.open_files = OpenFiles(files, max_open_files)
        self.erased: list[tuple[ConsumeQueue, int]] = []
        """The files that were erased in part and not synced since; a crash may bring the erased bytes back."""
        self.removed: list[ConsumeQueue] = []
        """The queues with a removed file whose directory was not synced since the removal."""
        self.extended: dict[Path, None] = {}
        """The files of extensions that were written and not synced since. Changed under ``lock``."""

    def note_extension(self, path: Path) -> None:
        """Remember to sync a file of an extension; for any thread."""
        with self.lock:
            self.extended[path] = None

    def take_extended(self) -> dict[Path, None]:
        """Return the files of extensions that wait for a sync, and forget them."""
        with self.lock:
            extended, self.extended = self.extended, {}
        return extended


class ConsumeQueue:
    """The state of one queue. A plain class for speed: every message uses it.

    - ``next_offset``: the offset of the next appended message.
    - ``max_offset``: the offset after the last message that readers may see. Messages between ``max_offset`` and
      ``next_offset`` are on their way to the disk.
    - ``min_offset``: the offset of the first unit whose message still exists.
    - ``starts``: the byte offsets of the queue's files.
    - ``is_damaged``: True if the files do not fit together; they stay until ``clear``.

    The reactor's thread changes the state, except that ``write_held`` adds the files that it makes; other threads may
    read the state.
    """

    __slots__ = (
        "_extension",
        "_held",
        "_held_at",
        "_known_unit",
        "_last_end",
        "_shared",
        "is_damaged",
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "starts",
        "topic",
    )

    def __init__(self, shared: QueueFiles, topic: str, queue_id: int) -> None:
        self._shared = shared
        # Both values are kept from loading, so that a start reads each file at most once; None: read the file.
        # ``_known_unit``: the offset of a unit, and the place of its message in the log (−1 for a filler).
        # ``_last_end``: the log offset after the last message, known only while zeros follow the last unit.
        self._known_unit: tuple[int, int] | None = None
        self._last_end: int | None = None
        self._extension: QueueExtension | None = None
        # The last units of the queue, which are not in its files yet (None: all are), and their byte offset there.
        self._held: bytearray | None = None
        self._held_at = 0
        self.topic = topic
        self.queue_id = queue_id
        self.starts: tuple[int, ...] = ()
        self.is_damaged = False
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0

    @property
    def directory(self) -> Path:
        """The directory of the queue's files."""
        return Path(f"{self._shared.directory}/{self.topic}/{self.queue_id}")  # one Path object: a start makes 80 000

    @property
    def file_bytes(self) -> int:
        """The size of the queue's files in bytes."""
        return self._shared.file_bytes

    def path(self, start: int) -> Path:
        """Return the path of the file that starts at a byte offset."""
        return Path(f"{self._shared.directory}/{self.topic}/{self.queue_id}/{offset_name(start)}")

    @property
    def extension(self) -> QueueExtension:
        """The data that units keep elsewhere; made on first use, because nearly no queue has an extension."""
        found = self._extension
        if found is None:
            shared = self._shared
            with shared.lock:  # two extension objects would know different files
                found = self._extension
                if found is None:
                    directory = shared.extension_directory / self.topic / str(self.queue_id)
                    found = self._extension = QueueExtension(
                        shared.files,
                        shared.open_files,
                        directory,
                        shared.extension_file_bytes,
                        shared.note_extension,
                    )
        return found

    # --- writing -------------------------------------------------------------------------------------------------

    def hold_units(self, units: bytes) -> None:
        """Show units that continue the queue, and write them later. On the reactor's thread."""
        position = self.max_offset * UNIT_BYTES
        self._last_end = None
        with self._shared.lock:
            held = self._held
            if held is None:
                self._held_at = position
                self._held = bytearray(units)
            else:
                held += units
        self.max_offset = (position + len(units)) // UNIT_BYTES
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset

    def write_held(self) -> list[int]:
        """Write the held units, and before them what they lead to in the extension; return the starts of their files.

        Any thread may call, one at a time.

        :raises OSError: the units are still held.
        """
        with self._shared.lock:
            position, units = self._held_at, bytes(self._held or b"")
        if self._extension is not None:
            self._extension.write_held()
        touched = self._write(position, units)
        with self._shared.lock:  # more units may have been added meanwhile
            self._held_at += len(units)
            held = self._held
            if held is not None and len(held) > len(units):
                del held[: len(units)]
            else:
                self._held = None
        return touched

    def _drop_held(self) -> None:
        with self._shared.lock:
            self._held = None

    def _held_units(self, position: int, end: int) -> bytes:
        """Return the held units among the bytes [position, end) of the queue; they are the last of these bytes."""
        if self._held is None:
            return b""
        with self._shared.lock:
            held = self._held
            if held is None:  # written meanwhile
                return b""
            first = self._held_at
            return bytes(held[max(position - first, 0) : max(end - first, 0)])

    def write_units(self, first_offset: int, units: bytes) -> list[int]:
        """Write units for the messages from ``first_offset`` on; return the starts of the written files.

        :raises OSError: readers see nothing new; write the same units again later.
        """
        position = first_offset * UNIT_BYTES
        if not self.starts:
            self.min_offset = first_offset
        self._last_end = None
        touched = self._write(position, units)
        self.max_offset = (position + len(units)) // UNIT_BYTES
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset
        return touched

    def _write(self, position: int, units: bytes) -> list[int]:
        """Write units from a byte offset of the queue on; return the starts of the written files.

        :raises OSError: some units may be written.
        """
        file_bytes = self._shared.file_bytes
        touched = []
        while units:
            start = position - position % file_bytes
            part = units[: start + file_bytes - position]
            with self._file_to_write(start, position) as fd:
                self._shared.files.pwrite(fd, part, position - start)
            touched.append(start)
            position += len(part)
            units = units[len(part) :]
        return touched

    def correct_unit(self, offset: int, unit: bytes) -> int:
        """Replace an existing unit; return the start of the written file. For any thread.

        :raises OSError: the unit may be written in part; the call may be repeated.
        """
        position = offset * UNIT_BYTES
        start = position - position % self._shared.file_bytes
        file = self._file(start)
        if file is None:
            raise FileNotFoundError(ENOENT, "No such consume queue file", str(self.path(start)))
        self._known_unit = self._last_end = None
        with file as fd:
            self._shared.files.pwrite(fd, unit, position - start)
        return start

    def _file(self, start: int) -> OpenFile | None:
        """Lend a file for a ``with`` statement, opened if it is known; return None if the file has to be made."""
        open_files, key = self._shared.open_files, (self, start)
        file = open_files.lend(key)
        if file is None and start in self.starts:
            file = open_files.open(key, self.path(start))
            if start not in self.starts:  # deleted meanwhile: kept open, it would still take disk space
                open_files.forget(key)
        return file

    def _file_to_write(self, start: int, first_position: int) -> OpenFile:
        file = self._file(start)
        if file is None:
            self._make_file(start, first_position)
            file = self._file(start)
            assert file is not None, "it was just made"
        return file

    def _make_file(self, start: int, first_position: int) -> None:
        files, open_files, key = self._shared.files, self._shared.open_files, (self, start)
        files.make_directory(self.directory)
        try:
            with open_files.open(key, self.path(start), create=True) as fd:
                files.truncate(fd, 0)  # the folder may contain a file that does not belong to the queue
                files.truncate(fd, self._shared.file_bytes)
                if not self.starts and first_position > start:
                    files.pwrite(fd, FILLER * ((first_position - start) // UNIT_BYTES), 0)
        except OSError:
            self._shared.open_files.forget((self, start))  # made in part: the next attempt makes the file again
            raise
        with self._shared.lock:  # the reactor's thread may leave out a file meanwhile
            self.starts = (*self.starts, start) if self.starts or start else FIRST_FILE
        self._known_unit = None

    # --- reading -------------------------------------------------------------------------------------------------

    def read_units(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` visible units from ``offset`` on, only from one file; b"" if there are none.

        For any thread.
        """
        start, position, wanted = self._span(offset, count)
        held = self._held_units(start + position, start + position + wanted) if wanted > 0 else b""
        if len(held) >= wanted:
            return held
        try:
            file = self._file(start)
        except FileNotFoundError:  # retention has just deleted the file
            return b""
        if file is None:
            return b""
        with file as fd:
            return self._shared.files.pread(fd, wanted - len(held), position) + held

    def read_units_now(self, offset: int, count: int) -> bytes | None:
        """Return the result of ``read_units`` if it is in memory.

        Return None if to open or read the file would wait for the disk.
        """
        start, position, wanted = self._span(offset, count)
        held = self._held_units(start + position, start + position + wanted) if wanted > 0 else b""
        if len(held) >= wanted or start not in self.starts:
            return held
        file = self._shared.open_files.lend((self, start))
        if file is None:
            return None
        with file as fd:
            units = self._shared.files.pread_now(fd, wanted - len(held), position)
        return None if units is None else units + held

    def _span(self, offset: int, count: int) -> tuple[int, int, int]:
        """Return (start of the file, position in the file, number of bytes) of the visible units from ``offset`` on."""
        position = offset * UNIT_BYTES
        file_bytes = self._shared.file_bytes
        start = position - position % file_bytes
        end = min(position + count * UNIT_BYTES, self.max_offset * UNIT_BYTES, start + file_bytes)
        return start, position - start, end - position

    def unit(self, offset: int) -> Unit | None:
        """Return (commit log offset, size, tags code) of one message; None if it has no unit."""
        data = self.read_units(offset, 1)
        return UNIT.unpack_from(data) if len(data) == UNIT_BYTES else None

    def next_file_offset(self, offset: int) -> int:
        """Return the first queue offset after the file that covers ``offset``."""
        units = self._shared.file_bytes // UNIT_BYTES
        return (offset // units + 1) * units

    def covered_end(self) -> int:
        """Return the commit log offset after the queue's last message; −1 if the queue has no message."""
        if self._last_end is not None:
            return self._last_end
        unit = self.unit(self.max_offset - 1) if self.max_offset else None
        return -1 if unit is None else end_of(unit)

    # --- opening and trimming ------------------------------------------------------------------------------------

    def load(self, names: list[str]) -> list[str]:
        """Take over the files of the queue's directory; return remarks about files that cannot be taken over.

        If a file has a wrong size, or is out of order or missing in between, no file is taken over: the queue
        ``is_damaged`` and has to be rebuilt.
        """
        remarks = []
        found: list[int] = []
        self.is_damaged = False
        self._known_unit = self._last_end = None
        for name in names:
            start = parse_offset_name(name)
            if start is None or start % self._shared.file_bytes:
                remarks.append(f"{self.directory / name} is not a consume queue file and was left alone")
            else:
                found.append(start)
        self.starts = FIRST_FILE if found == [0] else tuple(found)
        ends: list[FileEnd] = []
        for index in reversed(range(len(self.starts))):
            start = self.starts[index]
            size, end = self.look_at(start, known=bool(ends))
            if size != self._shared.file_bytes or start != self.starts[0] + index * self._shared.file_bytes:
                remarks.append(f"{self.path(start)} has {size} bytes or stands after a gap; the queue is rebuilt")
                self.is_damaged = True
                self.min_offset = self.max_offset = self.next_offset = 0
                return remarks
            if end.units:
                ends.append(end)
        wrong = self._file_out_of_order() if len(self.starts) > 1 else None
        if wrong is not None:
            remarks.append(f"{self.path(wrong)} does not go on where the file before ends; the queue is rebuilt")
            self.is_damaged = True
            self.min_offset = self.max_offset = self.next_offset = 0
            return remarks
        self._take_end(ends[0] if ends else None)
        return remarks

    def _file_out_of_order(self) -> int | None:
        """Return the start of the first file whose messages precede those of the file before; None if there is none.

        Such a file is a copy, or belongs to another queue.
        """
        lowest = 0
        for start in self.starts:
            position, size, code = self.stored_unit(start // UNIT_BYTES)
            if is_written(position, size) and not is_filler(position, size):
                if position < lowest:
                    return start
                lowest = lowest_behind((position, size, code))
        return None

    def look_at(self, start: int, *, known: bool) -> tuple[int, FileEnd]:
        """Return size and end of a file, in one opening.

        With ``known`` the end is not read, because a later file has the queue's end.
        """
        files, path = self._shared.files, self.path(start)
        fd = files.open(path)
        try:
            size = files.size(fd)
            empty = FileEnd(start, 0, None, None)
            return size, empty if known or size != self._shared.file_bytes else file_end(files, fd, start, size)
        finally:
            files.close(fd)

    def _take_end(self, end: FileEnd | None) -> None:
        if end is None:
            self.max_offset = self.next_offset = self.starts[0] // UNIT_BYTES if self.starts else 0
            return
        self.max_offset = self.next_offset = end.start // UNIT_BYTES + end.units
        if end.start == self.starts[0]:
            self._known_unit = None if end.first_position is None else (end.start // UNIT_BYTES, end.first_position)
        if end.start == self.starts[-1]:
            self._last_end = end.last_end

    def state(self, commit_log_end: int) -> QueueState:
        """Return the state with regard to the messages below an offset of the log, for ``restore``; for any thread.

        Units of later messages may be written meanwhile; the next start finds these messages in the log.
        """
        # Read the end before ``_last_end``: a write clears ``_last_end`` before it moves the end.
        end, last_end, known = self.max_offset, self._last_end, self._known_unit
        minimum, starts = self.min_offset, self.starts
        if not starts:
            return 0, 0, -1, -1, -1, -1
        first = starts[0] // UNIT_BYTES
        if last_end is None or last_end > commit_log_end:
            end, last_end = self._end_below(first, end, commit_log_end)
        last = max((end - 1) * UNIT_BYTES // self._shared.file_bytes * self._shared.file_bytes, starts[0])
        minimum = min(max(minimum, first), end)
        if minimum == end:
            position = -1
        elif known is not None and known[0] == minimum:
            position = known[1]
        else:
            unit = self.unit(minimum)
            position = -1 if unit is None or is_filler(unit[0], unit[1]) else unit[0]
        return end, minimum, last_end, position, starts[0], last

    def _end_below(self, first: int, end: int, commit_log_end: int) -> tuple[int, int]:
        """Return the end of the units below an offset of the log, and the log offset after their last message."""
        is_beyond = partial(self._is_beyond, commit_log_end)
        if end > first and is_beyond(end - 1):
            end = first + bisect_left(range(first, end), True, key=is_beyond)
        unit = self.unit(end - 1) if end > first else None
        return end, -1 if unit is None else end_of(unit)

    def _is_beyond(self, commit_log_end: int, offset: int) -> bool:
        unit = self.unit(offset)
        return unit is None or end_of(unit) > commit_log_end

    def restore(self, known: Sequence[int]) -> None:
        """Take over a result of ``state`` that follows the queue id in ``known``.

        The files are known not to have changed since.
        """
        _, self.max_offset, self.min_offset, self._last_end, position, first, last, _ = known
        self.next_offset = self.max_offset
        if position >= 0:
            self._known_unit = self.min_offset, position
        if first >= 0:
            self.starts = FIRST_FILE if not last else tuple(range(first, last + 1, self._shared.file_bytes))

    def cut(self, commit_log_end: int) -> bool:
        """Forget the units of messages at or above a commit log offset; return whether there were any.

        The bytes after the new end are erased: later readers of the files take zeros for the end.
        """
        if self.is_damaged or (self._last_end is not None and self._last_end <= commit_log_end):
            return False  # and no unit follows
        before = self.max_offset
        if self.max_offset and self.covered_end() > commit_log_end:
            self._find_end(partial(is_past, limit=commit_log_end))
        if self._known_unit is not None and self._known_unit[0] >= self.max_offset:
            self._known_unit = None
        self._last_end = None
        self._erase_from(self.max_offset * UNIT_BYTES)
        return self.max_offset != before

    def _find_end(self, is_past: Callable[[Unit], bool]) -> None:
        """Set the end to the first unit that is past; units are in commit log order, so a binary search finds it."""
        near = max(self.max_offset - NEAR_UNITS, self.starts[-1] // UNIT_BYTES if self.starts else 0)
        last = self.read_units(near, NEAR_UNITS)  # the end is nearly always among the last units
        used = bisect_left(
            range(len(last) // UNIT_BYTES), True, key=lambda n: is_past(UNIT.unpack_from(last, n * UNIT_BYTES))
        )
        if used:
            self.max_offset = self.next_offset = near + used
            return
        units = self._shared.file_bytes // UNIT_BYTES
        end = self.starts[0] // UNIT_BYTES if self.starts else 0
        for start in reversed(self.starts):
            first = start // UNIT_BYTES
            offsets = range(first, first + units)
            used = bisect_left(offsets, True, key=lambda offset: is_past(self.stored_unit(offset)))
            if used:
                end = first + used
                break
        self.max_offset = self.next_offset = end

    def stored_unit(self, offset: int) -> Unit:
        """Return a unit of an existing file, wherever the queue ends; zeros if the queue has no such file."""
        position = offset * UNIT_BYTES
        held = self._held_units(position, position + UNIT_BYTES)
        if held:
            return UNIT.unpack_from(held)
        start = position - position % self._shared.file_bytes
        file = self._file(start)
        if file is None:
            return 0, 0, 0
        with file as fd:
            data = self._shared.files.pread(fd, UNIT_BYTES, position - start)
        return UNIT.unpack_from(data.ljust(UNIT_BYTES, b"\x00"))

    def _erase_from(self, position: int) -> None:
        for start in reversed(self.starts):
            if start + self._shared.file_bytes <= position:
                return
            if start > position or (start == position and start != self.starts[0]):
                self.remove_file(start)
            else:
                self._erase_in(start, position - start)

    def _erase_in(self, start: int, position: int) -> None:
        file = self._file(start)
        if file is not None:
            with file as fd:
                if erase(self._shared.files, fd, position, self._shared.file_bytes):
                    self._shared.erased.append((self, start))

    def remove_file(self, start: int) -> None:
        """Delete one of the queue's files."""
        self._leave_out(start)
        self._shared.removed.append(self)
        self._shared.files.unlink(self.path(start))

    def _leave_out(self, start: int) -> None:
        with self._shared.lock:
            self.starts = tuple([kept for kept in self.starts if kept != start])
        self._known_unit = self._last_end = None
        self._shared.open_files.forget((self, start))

    def clear(self) -> None:
        """Delete all files of the queue; the next message may start anywhere."""
        self._drop_held()
        for start in self.starts:
            self.remove_file(start)
        self._extension = None
        self.is_damaged = False
        self.min_offset = self.max_offset = self.next_offset = 0

    @property
    def is_new(self) -> bool:
        """True if the queue never had a message, and none is on its way."""
        return self.next_offset == 0 and not self.starts

    def start_at(self, offset: int) -> None:
        """Let a queue that is new begin at an offset; the first unit makes its file."""
        assert self.is_new, "it has no units"
        self.min_offset = self.max_offset = self.next_offset = offset

    # --- an end without messages ---------------------------------------------------------------------------------

    def keep_below(self, end: int) -> None:
        """Forget everything from offset ``end`` on, where no message exists any more; the queue goes on at ``end``.

        The files that prove this end are never gone: another start after a crash finds the same end.
        """
        position = end * UNIT_BYTES
        if not end or not self.starts or position < self.starts[0]:
            self.clear()
            return
        for start in reversed(self.starts):
            if start >= position and (start > position or start != self.starts[0]):
                self.remove_file(start)
        # The files after the last gap prove the end.
        gaps = [start for before, start in pairwise(self.starts) if start - before > self._shared.file_bytes]
        if gaps:
            for start in [start for start in self.starts if start < gaps[-1]]:
                self.remove_file(start)
        if self.starts[0] == position:
            self._empty_file(position)
        else:
            self._erase_from(position)
        self._known_unit = self._last_end = None
        self.is_damaged = False
        self.min_offset = self.max_offset = self.next_offset = end

    def _empty_file(self, start: int) -> None:
        file = self._file(start)
        assert file is not None, "it is listed"
        with file as fd:
            self._shared.files.truncate(fd, 0)
            self._shared.files.truncate(fd, self._shared.file_bytes)
        self._shared.erased.append((self, start))

    def begin_at(self, offset: int) -> int:
        """Make a file in a queue without files, for the offset of the next message; return the file's start."""
        position = offset * UNIT_BYTES
        start = position - position % self._shared.file_bytes
        self._make_file(start, position)
        self.min_offset = self.max_offset = self.next_offset = offset
        return start

    # --- retention -----------------------------------------------------------------------------------------------

    def correct_min(self, commit_log_min: int) -> None:
        """Move the minimum past the units whose messages are deleted."""
        self.min_offset = self.min_for(commit_log_min)

    def min_for(self, commit_log_min: int) -> int:
        """Return the minimum offset for a log that starts at ``commit_log_min``; for any thread."""
        starts, end = self.starts, self.max_offset
        first = max(self.min_offset, starts[0] // UNIT_BYTES) if starts else self.min_offset
        if first < end and self._is_gone(first, commit_log_min):
            span = range(first, end)
            first += bisect_left(span, True, key=lambda offset: not self._is_gone(offset, commit_log_min))
        return first

    def _is_gone(self, offset: int, commit_log_min: int) -> bool:
        known = self._known_unit
        if known is not None and known[0] == offset:
            return -1 <= known[1] < max(commit_log_min, 0)
        position, size, _ = self.stored_unit(offset)
        # A negative place is damage and does not mean that the message is deleted.
        return 0 <= position < commit_log_min or is_filler(position, size)

    def take_expired(self) -> list[Path]:
        """Leave out files wholly below the minimum, but never the last file; return their paths for deletion."""
        expired = [
            start for start in self.starts[:-1] if (start + self._shared.file_bytes) // UNIT_BYTES <= self.min_offset
        ]
        for start in expired:
            self._leave_out(start)
        return [self.path(start) for start in expired]

    def take_expired_extension(self) -> list[Path]:
        """Leave out files of the extension wholly below the minimum, but never the last file; return their paths.

        Blocks.
        """
        return self.extension.take_expired(partial(first_address, self))

    def let_go(self) -> None:
        """Forget all files of the queue, which the caller deletes."""
        self._drop_held()
        for start in self.starts:
            self._leave_out(start)
        if self._extension is not None:
            self._extension.let_go()
        self.min_offset = self.max_offset = self.next_offset = 0
