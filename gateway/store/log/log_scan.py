"""Walks through the commit log record by record, as recovery and the rebuilding of derived files do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.log.log_window import LogWindow
from wire.errors import RecordError
from wire.message.record import (
    BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    StoredMessage,
    check_record,
    parse_record,
)

_MAGICS = [re.compile(re.escape((magic & 0xFFFFFFFF).to_bytes(4, "big"))) for magic in (MAGIC_V1, MAGIC_V2)]
_MAGIC_AT = 4
_UNWRITTEN = b"\x00" * 8
_ZEROS = re.compile(rb"\x00+")
_CHUNK_BYTES = 1024 * 1024
_SPLIT_MAGIC_BYTES = 3
"""So much of a magic number can lie in one chunk and its end in the next."""
_SECTOR_BYTES = 512
"""A disk writes as many, or none of them."""


class LogScan:
    """Iterate to get the messages; afterwards ``end`` is where it stopped and ``problem`` why.

    ``problem`` is None at ``limit`` and at the end of the files, "" where nothing was ever written, and otherwise
    says what is wrong with the record at ``end``.

    :param unsynced_from: records that end behind this offset may lack sectors that a power failure kept from the disk,
        or that a process did not come to write before it was killed; None when that cannot be.
    """

    __slots__ = ("_check_crc", "_files", "_unsynced_from", "end", "limit", "problem")

    def __init__(
        self,
        files: MappedFileQueue,
        start: int,
        limit: int | None = None,
        *,
        check_crc: bool = True,
        unsynced_from: int | None = None,
    ) -> None:
        self._files = files
        self._check_crc = check_crc
        self._unsynced_from = unsynced_from
        self.end = start
        self.limit = files.end_offset if limit is None else limit
        self.problem: str | None = None

    def __iter__(self) -> Iterator[StoredMessage]:
        while self.end < self.limit and (file := self._files.find(self.end)) is not None:
            yield from self._walk(file)
            if self.end < file.start_offset + file.size:
                return

    def _walk(self, file: MappedFile) -> Iterator[StoredMessage]:
        check_crc, start, window = self._check_crc, file.start_offset, LogWindow(file)
        position = self.end - start
        last = min(self.limit - start, file.size)
        while position < last:
            try:
                data, at = window.record(position)
                message = parse_record(data, at, check_crc=check_crc)
            except RecordError as error:
                if _is_filler(window, position):
                    self.end = start + file.size
                else:
                    self.problem = "" if file.read(position, 8) == _UNWRITTEN else str(error)
                return
            if message.commit_log_offset != start + position:
                self.problem = f"the record says it lies at {message.commit_log_offset}"
                return
            end = position + message.total_size
            is_unsynced = self._unsynced_from is not None and start + end > self._unsynced_from
            if is_unsynced and _lacks_sector(message.properties, end):
                self.problem = "a part of its properties was never written"
                return
            position = end
            self.end = start + position
            yield message


def _lacks_sector(properties: bytes, end: int) -> bool:
    """Whether sectors of the properties, which end at a position of the file, were never written.

    The checksum of a record does not cover them, and everything else of it shows that a sector is missing. Zeros that
    somebody sent do not begin and end where sectors do.
    """
    begin = end - len(properties)
    for zeros in _ZEROS.finditer(properties):
        first, last = begin + zeros.start(), begin + zeros.end()
        if first == begin and (begin - 1) % _SECTOR_BYTES == 0:  # it lacks the second byte of their length as well
            first -= 1
        if first % _SECTOR_BYTES == 0 and (last % _SECTOR_BYTES == 0 or last == end):
            return True
    return False


def _is_filler(window: LogWindow, position: int) -> bool:
    try:
        return check_record(*window.record(position), None) == BLANK
    except RecordError:
        return False


def is_record_at(files: MappedFileQueue, offset: int) -> bool:
    """Whether an intact record, or a filler, starts at an offset of the log."""
    file = files.find(offset)
    return file is not None and _is_intact(LogWindow(file), offset - file.start_offset, offset)


def _is_intact(window: LogWindow, position: int, offset: int) -> bool:
    try:
        check_record(*window.record(position), offset)
    except RecordError:
        return False
    return True


def next_record(files: MappedFileQueue, after: int) -> int | None:
    """The offset of the first intact record above ``after``, found by its magic number; None when there is none."""
    offset = after + 1
    while (file := files.find(offset)) is not None:
        found = _next_in_file(file, offset - file.start_offset)
        if found is not None:
            return file.start_offset + found
        offset = file.start_offset + file.size
    return None


def _next_in_file(file: MappedFile, position: int) -> int | None:
    window, end = LogWindow(file), file.data_end(position)
    while end - position >= MIN_RECORD_BYTES:
        chunk = file.read(position, min(_CHUNK_BYTES, end - position))
        for place in sorted(found.start() for magic in _MAGICS for found in magic.finditer(chunk, _MAGIC_AT)):
            candidate = position + place - _MAGIC_AT
            if _is_intact(window, candidate, file.start_offset + candidate):
                return candidate
        if len(chunk) < MIN_RECORD_BYTES:  # it was cut meanwhile
            return None
        position += len(chunk) - _MAGIC_AT - _SPLIT_MAGIC_BYTES
    return None
