"""The timer log: an entry for every waiting message, in order of arrival, in files that are never changed.

The timer log is derived from the queue of the timer topic, so nothing waits for it to be on disk. The reactor's thread
appends; any thread reads. (Upstream: ``TimerLog``.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.telemetry.logs import EventLog
from wire.disk.timer_log import END_MARK, ENTRY, ENTRY_BYTES, NONE, build_end_mark, is_entry, room_for_entry

log = EventLog("schedule")

BLOCK_BYTES = 4096
"""The bytes of one read of a chain: its entries are close together if many messages are due in the same second."""
CHUNK_BYTES = 20_000 * ENTRY_BYTES
AHEAD_BYTES = 1 << 20
"""The bytes of room left in a file below which the next file is made."""
MAX_UNWRITTEN_BYTES = 16 << 20
"""The bytes of entries, 300,000 of them, that wait in memory for a file or for a disk that takes them."""


class TimerEntry(NamedTuple):
    """One entry as it stands in a file."""

    size: int
    previous: int
    kind: int
    written_at_ms: int
    delay_ms: int
    commit_log_offset: int
    record_size: int
    topic_hash: int
    due_ms: int

    @property
    def slot_ms(self) -> int:
        """The start of the entry's slot."""
        return self.written_at_ms + self.delay_ms


class Unwritten(NamedTuple):
    """Entries that are not in a file yet: the position of the first one, and their bytes."""

    start: int
    data: bytes


class TimerLog:
    """The timer log files of one directory.

    :param file_bytes: the size of new files, if there is none yet.
    """

    def __init__(self, files: FileLayer, directory: Path, file_bytes: int) -> None:
        self._store = files
        self._files = MappedFileQueue(files, directory, file_bytes, what=("timer log", "mappedFileSizeTimerLog"))
        self._gathered = bytearray()
        self.end = 0
        """The position of the next entry."""
        self.written = 0
        """The position below which all entries are in the files."""
        self._synced = 0
        """The position below which all entries are on disk."""
        self.is_doubtful = False
        """True if a sync failed: the system may have dropped unwritten data, and a later sync would still succeed."""

    @property
    def begin(self) -> int:
        """The first position in the log."""
        return self._files.min_offset

    def load(self) -> None:
        """Find the files; blocks.

        :raises GatewayError: the files do not fit together.
        :raises OSError: the files cannot be read.
        """
        self._files.load()
        self.end = self.written = self._files.end_offset

    def cut(self, end: int) -> None:
        """Remove everything at ``end`` and after it; blocks."""
        end = max(end, self.begin)
        if self._files.list and end < self._files.end_offset:
            self._files.remove_after(end)
            last = self._files.find(end)
            if last is not None and self._store.exists(last.path):  # it may only be planned
                last.erase(end - last.start_offset)
        self.end = self.written = end
        self._synced = min(self._synced, end)

    # --- appending -----------------------------------------------------------------------------------------------

    def append(self, entry: TimerEntry) -> int:
        """Gather an entry, which ``write`` will write; return its position."""
        file_bytes = self._files.file_size
        inside = self.end % file_bytes
        if not room_for_entry(inside, file_bytes):
            self._gathered += build_end_mark(file_bytes - inside)
            self.end += file_bytes - inside
        position = self.end
        self._gathered += ENTRY.pack(*entry)
        self.end += ENTRY_BYTES
        return position

    def write(self) -> bool:
        """Write gathered entries, if there are files for them; return whether all of them are written.

        :raises OSError: entries cannot be written; they stay gathered.
        """
        while self._gathered and (file := self._files.find(self.written)) is not None and file.is_open:
            inside = self.written - file.start_offset
            piece = self._gathered[: file.size - inside]
            file.write(inside, [piece])
            del self._gathered[: len(piece)]
            self.written += len(piece)
        return not self._gathered

    def write_all(self) -> None:
        """Write all gathered entries, and make the files for them; blocks.

        :raises OSError: entries cannot be written, or a file cannot be made; the rest stays gathered.
        """
        while not self.write():
            if (missing := self.missing_file()) is not None:
                self.make(missing)

    @property
    def is_full(self) -> bool:
        """True if so many entries are gathered that no more should come."""
        return len(self._gathered) >= MAX_UNWRITTEN_BYTES

    def unwritten(self) -> Unwritten:
        """Return the entries that wait for a file or for the disk, for ``chain``; on the reactor's thread."""
        return Unwritten(self.written, bytes(self._gathered))

    def make(self, file: MappedFile) -> None:
        """Make a missing file; blocks.

        :raises OSError: the file cannot be made.
        """
        if file.start_offset == 0:
            self._store.make_directory(self._files.directory)
            self._store.fsync_directory(self._files.directory.parent)
        file.open(create=True)

    def missing_file(self) -> MappedFile | None:
        """Return a file that has to be made now or soon, in a thread with ``make``; None if no file is missing."""
        file = self._files.at(self.written)
        if file.is_open and file.start_offset + file.size - self.end < AHEAD_BYTES:
            file = self._files.at(file.start_offset + file.size)
        return None if file.is_open else file

    def sync(self, position: int) -> None:
        """Bring everything written below a position to the disk; blocks, for any thread.

        Do not call ``sync`` again after it failed.

        :raises OSError: the content of the disk is unknown; the log ``is_doubtful`` from then on.
        """
        assert not self.is_doubtful, "a sync after one that failed says nothing"
        try:
            for file in self._files.list:
                if self._synced < file.start_offset + file.size and file.start_offset < position and file.is_open:
                    file.sync()
        except OSError:
            self.is_doubtful = True
            raise
        self._synced = max(self._synced, position)

    # --- reading -------------------------------------------------------------------------------------------------

    def chain(self, position: int, unwritten: Unwritten | None = None) -> Iterator[TimerEntry]:
        """Yield the entries of a slot, the newest first; blocks, for any thread. A damaged log ends the chain early.

        :param unwritten: the entries that were not in the files when the slot opened; without it, entries below
            ``written`` can be read.
        """
        begin, block = unwritten or (0, b"")
        while position >= 0:
            if not begin <= position <= begin + len(block) - ENTRY_BYTES:
                begin, block = self._block(position)
                if not block:
                    return
            entry = TimerEntry._make(ENTRY.unpack_from(block, position - begin))
            if not is_entry(entry.size, entry.kind) or not NONE <= entry.previous < position:
                log.error(
                    "timer log damaged, earlier messages of this second are not delivered",
                    position=position,
                    remedy=f"stop the broker and remove {self._files.directory}: it is made again",
                )
                return
            yield entry
            position = entry.previous

    def _block(self, position: int) -> tuple[int, bytes]:
        """Return the entry at a position, and the bytes before it in the same file."""
        file = self._files.find(position)
        if file is None:
            return 0, b""
        inside = position - file.start_offset
        begin = max(inside + ENTRY_BYTES - BLOCK_BYTES, 0)
        data = file.read(begin, inside + ENTRY_BYTES - begin)
        return (file.start_offset + begin, data) if len(data) == inside + ENTRY_BYTES - begin else (0, b"")

    def entries(self, start: int, end: int | None = None) -> Iterator[tuple[int, TimerEntry]]:
        """Yield positions and entries from ``start`` to ``end``, or to the first bytes that are no entry; blocks."""
        position, file_bytes = start, self._files.file_size
        while (file := self._files.find(position)) is not None and (end is None or position < end):
            inside = position - file.start_offset
            if not room_for_entry(inside, file_bytes):
                position = file.start_offset + file_bytes
                continue
            whole = (file_bytes - inside - END_MARK.size) // ENTRY_BYTES * ENTRY_BYTES
            data = file.read(inside, min(whole, CHUNK_BYTES))
            if not data:
                return
            for values in ENTRY.iter_unpack(memoryview(data)[: len(data) // ENTRY_BYTES * ENTRY_BYTES]):
                if not is_entry(values[0], values[2]) or (end is not None and position >= end):
                    return
                yield position, TimerEntry._make(values)
                position += ENTRY_BYTES

    def entry_at(self, position: int) -> TimerEntry | None:
        """Return the entry at a position, or None without an entry. Blocks, for any thread."""
        return next(self.chain(position), None)

    # --- deleting ------------------------------------------------------------------------------------------------

    def take_below(self, position: int) -> list[MappedFile]:
        """Take the files that end below a position out of the list, for deletion; on the reactor's thread.

        The last file always stays.
        """
        taken = []
        while len(self._files.list) > 1 and self._files.list[1].start_offset <= position:
            taken.append(self._files.take_first())
        return taken

    def remove(self, taken: list[MappedFile]) -> None:
        """Delete files that were taken out of the list; blocks."""
        for file in taken:
            self._store.unlink(file.path)
            self._store.fsync_directory(file.path.parent)
