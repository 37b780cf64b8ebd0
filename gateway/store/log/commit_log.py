"""The commit log: every message of every topic, one record after the other, in files of a fixed size.

A record never spans two files. If a record and the 8 bytes of a filler no longer fit, the filler ends the file and the
record starts the next file (upstream ``CommitLog.DefaultAppendMessageCallback``). The bytes after a filler stay a hole.
The log knows offsets and bytes, but not to which queue a record belongs.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from librt.strings import BytesWriter

from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.disk.paths import StorePaths
from gateway.store.errors import NO_SPACE, NOT_OPENED, DiskFull, NoDescriptor, WriteFailed
from gateway.store.figures import StoreFigures
from gateway.store.log.log_batch import NO_END, LogBatch
from wire.errors import RecordError
from wire.message.properties import MAX_PROPERTIES_BYTES
from wire.message.record import (
    END_OF_FILE_BYTES,
    MAX_TOPIC_BYTES,
    StoredMessage,
    build_blank,
    parse_record,
    parse_record_ends,
    tail_start,
)
from wire.message.record_fields import commit_log_offset_at, stored_at_ms_at, total_size_at

FIRST_READ_BYTES = 4096
"""The number of bytes read first if a record's size is unknown: most records are smaller."""
HEAD_READ_BYTES = 112
"""The longest record head in bytes, with two IPv6 hosts."""
LEAST_LOOK_BYTES = 1024 * 1024
"""The free space is checked again after a quarter of it is written, or after this many bytes if they are more."""


class CommitLog:
    """The files, and the place of the next record.

    ``position`` is the offset of the next record, ``room`` the number of bytes that its file still has for records.
    Nothing is appended beyond ``space_end`` until the free space was checked again; the check is due when the log
    reaches ``look_end``.

    :param ahead_bytes: the next file is made when fewer bytes than this are left; 0: when the file is needed.
    :param batch_bytes: a batch that has more bytes than this takes no more messages.
    """

    def __init__(
        self,
        files: FileLayer,
        paths: StorePaths,
        file_size: int,
        figures: StoreFigures,
        *,
        ahead_bytes: int = 0,
        batch_bytes: int = NO_END,
    ) -> None:
        self.files = MappedFileQueue(files, paths.commit_log, file_size, paths.root)
        self._figures = figures
        self._ahead_bytes = ahead_bytes
        self._batch_bytes = batch_bytes
        self._out = BytesWriter()
        self._no_ahead_at = -1  # making this file early failed for lack of space: its first write makes the file
        self.position = 0
        self.room = 0
        self.space_end = NO_END
        self.look_end = NO_END
        self.visible_end = 0  # readers see only records below this offset
        self.checked_from = 0  # this process checked or wrote every record from this offset on

    @property
    def min_offset(self) -> int:
        """The offset of the oldest byte that the log still has."""
        return self.files.min_offset

    @property
    def largest_append(self) -> int:
        """The number of bytes that fit into one file."""
        return self.files.file_size - END_OF_FILE_BYTES

    def move_to(self, offset: int) -> None:
        """Append from ``offset`` on: called after recovery, and after a batch was undone."""
        self.position = offset
        start = offset // self.files.file_size * self.files.file_size
        self.room = start + self.files.file_size - offset - END_OF_FILE_BYTES

    def file_ahead(self) -> MappedFile | None:
        """Return the next file if it is time to make it; otherwise None.

        The file is already listed; the caller opens it with ``create`` in a thread.
        """
        files = self.files
        if self.room >= min(self._ahead_bytes, files.file_size // 2) or self.room < 0:
            return None
        current = files.find(self.position)
        if current is None or not current.is_open:
            return None  # not made yet, but planned by a batch: if the next file came first, a crash would leave a gap
        next_start = self.position - self.position % files.file_size + files.file_size
        if files.end_offset != next_start or next_start == self._no_ahead_at:
            return None
        return files.at(next_start)

    def forget_ahead(self, file: MappedFile) -> None:
        """Note that a file could not be made ahead; remove it from the list unless a batch is directed to it."""
        self._no_ahead_at = file.start_offset
        if self.position <= file.start_offset:
            self.files.forget_last(file)

    def remove_files_ahead(self) -> None:
        """Remove files without any record, so that none is left after a clean stop, as with upstream. Blocks."""
        self.files.remove_after(max(self.position - 1, self.min_offset))

    def new_batch(self) -> LogBatch:
        """Return an empty batch at the current place; the batch before is sealed."""
        return LogBatch(self.position, self._out, self._limit_from(self.position))

    def _limit_from(self, start: int) -> int:
        return min(start + self._batch_bytes, self.space_end)

    def fits(self, seen_end: int, more_bytes: int | None, gathering: LogBatch) -> None:
        """Note the result of a check of the free space.

        :param seen_end: the offset up to which the log was written when the space was checked.
        :param more_bytes: the number of bytes that fit beyond ``seen_end``; None if space is not watched.
        :param gathering: the batch that is gathered; gets the new limit.
        """
        if more_bytes is None:
            self.space_end = self.look_end = NO_END
        else:
            self.space_end = seen_end + more_bytes
            next_file = self.position - self.position % self.files.file_size + self.files.file_size
            self.look_end = min(seen_end + min(max(more_bytes // 4, LEAST_LOOK_BYTES), more_bytes), next_file)
        gathering.limit = self._limit_from(gathering.start)

    def begin_write(self, batch: LogBatch) -> None:
        """Direct the unsealed part of the batch to the file of the current place."""
        file = self.files.at(self.position)
        batch.buffers = []
        batch.writes.append((file, self.position - file.start_offset, batch.buffers))

    def roll(self, batch: LogBatch) -> None:
        """End the current file with a filler and go on in the next file."""
        remaining = self.room + END_OF_FILE_BYTES
        if remaining < self.files.file_size:
            if not batch.writes:
                self.begin_write(batch)
            batch.add(build_blank(remaining))
            self.move_to(self.position + remaining)
        batch.seal()
        self.begin_write(batch)

    def write(self, batch: LogBatch) -> None:
        """Hand a sealed batch to the system; blocks. Any thread may call, one at a time.

        :raises DiskFull: no space; nothing of the batch is left in the log.
        :raises NoDescriptor: a file could not be opened; nothing of the batch is left in the log.
        :raises WriteFailed: another error; the batch may or may not be in the log.
        """
        try:
            for file, position, buffers in batch.writes:
                file.write(position, buffers)
        except OSError as error:
            if error.errno not in NO_SPACE and error.errno not in NOT_OPENED:
                raise WriteFailed(_text("write", error)) from error
            self._undo(batch)
            passing = DiskFull if error.errno in NO_SPACE else NoDescriptor
            raise passing(_text("write", error)) from error
        batch.is_written = True

    def sync(self, batch: LogBatch) -> None:
        """Return when a written batch is on disk; blocks. Any thread may call, one at a time.

        Also prepare the place of the next batches in the last file.

        :raises WriteFailed: the sync failed. A failed sync is never tried again: the kernel may drop the pages and
            report the next sync as good.
        """
        try:
            last = batch.writes[-1][0]
            last.prepare(batch.end - last.start_offset)
            for file in dict.fromkeys(file for file, _, _ in batch.writes):
                file.sync()
                self._figures.log_syncs.value += 1
        except OSError as error:
            raise WriteFailed(_text("sync", error)) from error

    def _undo(self, batch: LogBatch) -> None:
        """Erase the written records of a batch that is answered as refused: recovery would deliver them."""
        try:
            for file, position, _ in reversed(batch.writes):
                if file.is_open:
                    file.erase(position)
        except OSError as error:
            raise WriteFailed(_text("undo of a write", error)) from error

    def sync_range(self, start: int, end: int) -> None:
        """Return when the written bytes [start, end) are on disk; blocks.

        :raises NoDescriptor: a file could not be opened; the sync may be tried again.
        :raises WriteFailed: the sync failed; it must not be tried again.
        """
        for file in self.files.list:
            if file.start_offset < end and file.start_offset + file.size > start:
                try:
                    file.sync()
                except OSError as error:
                    if error.errno in NOT_OPENED and not file.is_open:
                        raise NoDescriptor(_text("sync", error)) from error
                    raise WriteFailed(_text("sync", error)) from error
                self._figures.log_syncs.value += 1

    def record_at(self, offset: int, size: int | None = None) -> bytes | None:
        """Return the bytes of the record at ``offset``; None if no visible record starts there.

        :param size: the size in bytes from a consume queue; read from the record itself if left out.
        """
        if not self.min_offset <= offset < self.visible_end:
            return None
        file = self.files.find(offset)
        if file is None:
            return None
        position = offset - file.start_offset
        if size is not None and size > min(file.size - position, self.visible_end - offset):
            return None
        data = _read(file, position, FIRST_READ_BYTES if size is None else size)
        if len(data) < HEAD_READ_BYTES - 24 or commit_log_offset_at(data) != offset:
            return None
        if size is None:
            size = int.from_bytes(data[:4], "big", signed=True)
            if not 0 < size <= min(file.size - position, self.visible_end - offset):
                return None
            data = data[:size] if size <= len(data) else data + _read(file, position + len(data), size - len(data))
        return data if len(data) == size else None

    def message_at(self, offset: int, size: int | None = None) -> StoredMessage | None:
        """Return the message whose record starts at ``offset``; None if there is none, or if the record is damaged."""
        data = self.record_at(offset, size)
        if data is None:
            return None
        try:
            return parse_record(data, check_crc=offset < self.checked_from)
        except RecordError:
            return None

    def stored_at_ms(self, offset: int) -> int:
        """Return the time when the record at ``offset`` was stored, in milliseconds; −1 if the record is gone."""
        file = self.files.find(offset)
        if file is None or offset >= self.visible_end:
            return -1
        data = _read(file, offset - file.start_offset, HEAD_READ_BYTES)
        try:
            return stored_at_ms_at(data)
        except RecordError:
            return -1


def _read(file: MappedFile, position: int, count: int) -> bytes:
    return file.read(position, min(count, file.size - position))


def _text(what: str, error: OSError) -> str:
    return f"{what} of the commit log failed: {error}"


MAX_TAIL_BYTES = 2 + MAX_TOPIC_BYTES + 2 + MAX_PROPERTIES_BYTES
"""The longest part of a record after its body, in bytes."""

ReadPart: TypeAlias = Callable[[MappedFile, int, int], bytes]
"""A function ``read(file, position, count)`` that waits for the disk, or raises an exception instead of waiting."""


def head_at(log: CommitLog, offset: int, read: ReadPart) -> StoredMessage | None:
    """Return the message whose record starts at ``offset``; None if there is none, or if its ends are damaged.

    For callers that decide by a message's head and properties: a body may have 4 MB, the rest of a record has some
    hundred bytes. The body is empty unless the record is small (``StoredMessage.has_body``).
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
