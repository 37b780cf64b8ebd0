"""The extension of one consume queue: its files, the place of a message's unit in them, and their end.

Nothing is read before a caller asks: a queue without addresses in its units costs nothing. Units are written one after
the other, without a gap, because Apache RocketMQ searches for their end from the front (``ConsumeQueueExt.recover``).
The end is not kept on disk: the last address in the queue gives the end. Bytes after the end belong to messages that
the queue does not have, and are erased.

New units are held in memory until the units of the queue that lead to them are written; readers find held units there.
The thread that writes both makes the files, so the reactor makes none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from gateway.store.disk.erasing import erase
from gateway.store.disk.files import FileLayer
from gateway.store.disk.open_files import OpenFile, OpenFiles
from gateway.store.disk.paths import offset_name, parse_offset_name
from gateway.store.disk.small_files import file_size
from gateway.store.queues.queue_addresses import ExtendedQueue, last_address
from wire.disk.queue_extension import END_BYTES, END_MARK, HEAD, MAX_BITMAP_BYTES, ExtensionUnit, address_of
from wire.errors import LayoutError

_MAX_UNIT_BYTES = HEAD.size + MAX_BITMAP_BYTES
NOTHING_HELD = 1 << 63
"""A place beyond every extension, in the place of the first held byte."""


class QueueExtension:
    """The files of one extension.

    The reactor's thread holds units, and one thread at a time writes them; any thread may read and call
    ``take_expired``.

    :param directory: the directory of the files, which may not exist yet.
    :param file_bytes: the size of new files, unless there are files of another size already.
    :param note_written: is called with the path of each file that was written and needs a sync.
    """

    __slots__ = (
        "_directory",
        "_end",
        "_file_bytes",
        "_files",
        "_held",
        "_held_at",
        "_lock",
        "_note_written",
        "_open_files",
        "_starts",
    )

    def __init__(
        self,
        files: FileLayer,
        open_files: OpenFiles,
        directory: Path,
        file_bytes: int,
        note_written: Callable[[Path], None] = lambda _path: None,
    ) -> None:
        self._files = files
        self._note_written = note_written
        self._held = bytearray()
        self._held_at = 0
        self._open_files = open_files
        self._directory = directory
        self._file_bytes = file_bytes
        self._starts: list[int] | None = None
        self._end = -1
        self._lock = Lock()

    @property
    def directory(self) -> Path:
        """The directory of the extension's files."""
        return self._directory

    def path(self, start: int) -> Path:
        """Return the path of the file whose first byte is byte ``start`` of the extension."""
        return self._directory / offset_name(start)

    # --- reading -------------------------------------------------------------------------------------------------

    def read(self, position: int, count: int) -> bytes:
        """Return up to ``count`` bytes from ``position`` on, only from one file; b"" if there are none. Blocks."""
        held_at, held = self._held_part(position, count)
        if held_at <= position:
            return held
        start = self._start_at(self._known_starts(), position)
        try:
            file = None if start is None else self._open(start)
        except FileNotFoundError:  # retention has just deleted the file
            return b""
        if file is None or start is None:
            return b""
        with file as fd:
            end = min(position + count, start + self._file_bytes, held_at)
            return self._files.pread(fd, end - position, position - start) + held

    def read_now(self, position: int, count: int) -> bytes | None:
        """Return the result of ``read`` if it is in memory; None if the read would wait for the disk."""
        held_at, held = self._held_part(position, count)
        if held_at <= position:
            return held
        if self._starts is None:
            return None
        start = self._start_at(self._starts, position)
        if start is None:
            return b""
        file = self._open_files.lend((self, start))
        if file is None:
            return None
        with file as fd:
            end = min(position + count, start + self._file_bytes, held_at)
            data = self._files.pread_now(fd, end - position, position - start)
        return None if data is None else data + held

    def _held_part(self, position: int, count: int) -> tuple[int, bytes]:
        """Return the held bytes among ``count`` bytes, up to the end of their file, and where held bytes begin."""
        with self._lock:
            if not self._held:
                return NOTHING_HELD, b""
            first = self._held_at
            end = min(position + count, position - position % self._file_bytes + self._file_bytes)
            return first, bytes(self._held[max(position - first, 0) : max(end - first, 0)])

    def unit(self, position: int) -> ExtensionUnit | None:
        """Return the unit at a place; None if no unit, or a damaged one, is there. Blocks."""
        return parse_unit(self.read, position)

    def _known_starts(self) -> list[int]:
        starts = self._starts
        if starts is None:
            with self._lock:
                starts = self._starts
                if starts is None:
                    starts = self._starts = self._look()
        return starts

    def _look(self) -> list[int]:
        try:
            names = self._files.list(self._directory)
        except NotADirectoryError:
            return []
        starts = [start for start in map(parse_offset_name, names) if start is not None]
        if starts:
            size = file_size(self._files, self.path(starts[0]))
            if size > HEAD.size + END_BYTES:
                self._file_bytes = size  # made by a broker with another setting
        return starts

    def _start_at(self, starts: Sequence[int], position: int) -> int | None:
        number = bisect_right(starts, position)
        if not number or position >= starts[number - 1] + self._file_bytes:
            return None
        return starts[number - 1]

    def _open(self, start: int) -> OpenFile:
        """Lend an existing file for a ``with`` statement."""
        key = (self, start)
        file = self._open_files.lend(key)
        if file is None:
            file = self._open_files.open(key, self.path(start))
            if start not in (self._starts or ()):  # deleted meanwhile: kept open, it would still take disk space
                self._open_files.forget(key)
        return file

    # --- writing -------------------------------------------------------------------------------------------------

    def hold(self, units: Sequence[ExtensionUnit], queue: ExtendedQueue) -> list[int]:
        """Hold units after the existing units until ``write_held``. On the reactor's thread.

        The first call after a start looks for the end of the extension on disk.

        :returns: the contents for the queue's units: addresses, or the tags codes of units for which no file has room.
        :raises OSError: nothing is held.
        """
        if self._end < 0:
            self._end = self._find_end(queue)
        codes = []
        size, end = self._file_bytes, self._end
        parts = bytearray()
        for unit in units:
            if unit.size + END_BYTES > size:
                codes.append(unit.tags_code)
                continue
            left = size - end % size
            if unit.size + END_BYTES > left:
                parts += END_MARK + bytes(left - END_BYTES)
                end += left
            codes.append(address_of(end))
            parts += unit.build()
            end += unit.size
        with self._lock:
            if not self._held:
                self._held_at = self._end
            self._held += parts
            self._end = end
        return codes

    def write_held(self) -> None:
        """Write the held units. Any thread may call, one at a time.

        :raises OSError: the units are still held.
        """
        with self._lock:
            position, units = self._held_at, bytes(self._held)
        at = 0
        while at < len(units):
            start = (position + at) - (position + at) % self._file_bytes
            part = units[at : start + self._file_bytes - position]
            if start not in self._known_starts():
                self._make(start)
            with self._open(start) as fd:
                self._files.pwrite(fd, part, position + at - start)
            self._note_written(self.path(start))
            at += len(part)
        with self._lock:  # more units may have been added meanwhile
            self._held_at += len(units)
            del self._held[: len(units)]

    def _make(self, start: int) -> None:
        files = self._files
        files.make_directory(self._directory)
        try:
            with self._open_files.open((self, start), self.path(start), create=True) as fd:
                files.truncate(fd, 0)  # the folder may contain a file that does not belong to the extension
                files.truncate(fd, self._file_bytes)
        except OSError:
            self._open_files.forget((self, start))
            raise
        with self._lock:
            self._starts = [*(self._starts or ()), start]

    def _find_end(self, queue: ExtendedQueue) -> int:
        """Return the place at which to go on, and erase everything after that place."""
        starts, size = self._known_starts(), self._file_bytes
        if not starts:  # new files start at an offset beyond every address that a message can have so far
            return -(-queue.max_offset * _MAX_UNIT_BYTES // size) * size
        last = last_address(queue)
        if last is None:
            end = 0
        elif (unit := self.unit(last)) is not None:
            end = last + unit.size
        else:  # the unit is lost or damaged, and so may be the data after it
            end = (last // size + 1) * size
        for start in reversed(starts):
            if start >= end:
                self._remove(start)
            elif start + size > end:
                with self._open(start) as fd:
                    if erase(self._files, fd, end - start, size):
                        self._note_written(self.path(start))
        return end

    def _remove(self, start: int) -> None:
        self._leave_out((start,))
        self._files.unlink(self.path(start))

    def _leave_out(self, gone: Sequence[int]) -> None:
        with self._lock:
            self._starts = [start for start in self._starts or () if start not in gone]
        for start in gone:
            self._open_files.forget((self, start))

    # --- removal -------------------------------------------------------------------------------------------------

    def take_expired(self, first_address: Callable[[], int | None]) -> list[Path]:
        """Leave out the files below the first address that the queue still has, but never the last file. Blocks.

        Return the paths of the files for deletion.
        """
        starts = self._known_starts()
        if len(starts) < 2:
            return []
        first = first_address()
        expired = [] if first is None else [start for start in starts[:-1] if start + self._file_bytes <= first]
        self._leave_out(expired)
        return [self.path(start) for start in expired]

    def let_go(self) -> None:
        """Forget held units and open files, which the caller deletes."""
        self._held.clear()
        for start in self._starts or ():
            self._open_files.forget((self, start))


def parse_unit(read: Callable[[int, int], bytes], position: int) -> ExtensionUnit | None:
    """Return the unit at a place of an extension; None if no unit, or a damaged one, is there.

    :param read: returns up to ``count`` bytes from a position on.
    """
    head = read(position, HEAD.size)
    if len(head) < HEAD.size:
        return None
    bitmap_bytes = HEAD.unpack_from(head)[3]
    try:
        return ExtensionUnit.parse(head + (read(position + HEAD.size, bitmap_bytes) if bitmap_bytes > 0 else b""))
    except LayoutError:
        return None
