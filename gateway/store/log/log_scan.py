"""The walk through the commit log record by record, and the check that each file stands in its own place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.disk.paths import offset_name
from gateway.store.errors import ForeignFile
from wire.errors import RecordError
from wire.message.record import (
    BLANK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    StoredMessage,
    check_record,
    parse_record,
)
from wire.message.record_check import cut_off_text
from wire.message.record_fields import commit_log_offset_at, total_size_at
from wire.message.record_layout import FILLER_HEAD, HEADS

WINDOW_BYTES = 64 * 1024
"""The number of bytes read at once, unless a record is larger."""


class LogWindow:
    """A part of a log file in memory that moves along with its reader, who gets whole records.

    The part is read, not mapped: a bad sector is then an ``OSError`` and does not end the process. On a file system in
    memory, bytes that were never written then take no room.
    """

    __slots__ = ("_begin", "_data", "_file")

    def __init__(self, file: MappedFile) -> None:
        self._file = file
        self._begin = 0
        self._data = b""

    def record(self, position: int) -> tuple[bytes, int]:
        """Return bytes that contain a record of the file, and the position of the record in these bytes.

        The bytes reach as far as the record's stated size. If there is no record, the bytes reach to the end of the
        window or of the file.

        :param position: the position of the record in the file.
        :raises RecordError: the stated size reaches beyond the end of the file.
        :raises OSError: the bytes cannot be read.
        """
        left = self._file.size - position
        at = position - self._begin
        if not 0 <= at <= len(self._data) - min(FILLER_HEAD.size, left):
            at = self._move(position, min(WINDOW_BYTES, left))
        if left >= FILLER_HEAD.size:
            size, magic = FILLER_HEAD.unpack_from(self._data, at)
            if magic in (MAGIC_V1, MAGIC_V2) and at + size > len(self._data):
                if size > left:
                    raise RecordError(cut_off_text(left, size))
                at = self._move(position, max(size, min(WINDOW_BYTES, left)))
        return self._data, at

    def _move(self, position: int, count: int) -> int:
        self._begin, self._data = position, self._file.read(position, count)
        return 0


_SPELLED = {magic: (magic & 0xFFFFFFFF).to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)}
_RECORD = re.compile(b"|".join(re.escape(_SPELLED[magic]) for magic in (MAGIC_V1, MAGIC_V2)))
_RECORD_OR_FILLER = re.compile(b"|".join(map(re.escape, _SPELLED.values())))
_MAGIC_AT = FILLER_HEAD.offset("magic")
_PLACE_AT = HEADS[0].offset("commit_log_offset")
_PLACE_BYTES = 8
"""The length of the field with the record's own offset; equal in all heads."""
_UNWRITTEN = b"\x00" * 8
_ZEROS = re.compile(rb"\x00+")
_CHUNK_BYTES = 1024 * 1024
_SPLIT_MAGIC_BYTES = 3
"""The most bytes of a magic number that can lie in one chunk while its end lies in the next."""
_SECTOR_BYTES = 512
"""The number of bytes that a disk writes as a whole or not at all."""


class LogScan:
    """An iterable of messages; afterwards ``end`` is the offset where the scan stopped, and ``problem`` the reason.

    ``problem`` is None at ``limit`` and at the end of the files, and "" where nothing was ever written. Otherwise the
    text says what is wrong with the record at ``end``.

    :param unsynced_from: records that end after this offset may lack sectors, because a power failure kept them from
        the disk, or because the process was killed before it wrote them; None if no sector can be missing.
    """

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
                self.problem = f"the record says it lies at {message.commit_log_offset}, found at {start + position}"
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
    """Return whether sectors of the properties, which end at position ``end`` of the file, were never written.

    The checksum of a record does not cover properties; for every other part a missing sector shows. Zeros that a client
    sent do not start and end at sector borders.
    """
    begin = end - len(properties)
    for zeros in _ZEROS.finditer(properties):
        first, last = begin + zeros.start(), begin + zeros.end()
        if first == begin and (begin - 1) % _SECTOR_BYTES == 0:  # the second byte of the length is missing too
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
    """Return whether an intact record, or a filler, starts at an offset of the log."""
    file = files.find(offset)
    return file is not None and _is_intact(LogWindow(file), offset - file.start_offset, offset)


def _is_intact(window: LogWindow, position: int, offset: int) -> bool:
    try:
        check_record(*window.record(position), offset)
    except RecordError:
        return False
    return True


def next_record(files: MappedFileQueue, after: int, *, or_filler: bool = False) -> int | None:
    """Return the offset of the first intact record above ``after``, found by its magic number; None if there is none.

    :param or_filler: True to also find a filler that reaches to the end of its file.
    """
    offset = after + 1
    while (file := files.find(offset)) is not None:
        found = _next_in_file(file, offset - file.start_offset, or_filler=or_filler)
        if found is not None:
            return file.start_offset + found
        offset = file.start_offset + file.size
    return None


def _next_in_file(file: MappedFile, position: int, *, or_filler: bool) -> int | None:
    window, end, is_end_known = LogWindow(file), file.size, False
    magic, least = (_RECORD_OR_FILLER, FILLER_HEAD.size) if or_filler else (_RECORD, MIN_RECORD_BYTES)
    while end - position >= least:
        chunk = file.read(position, min(_CHUNK_BYTES, end - position))
        for at in [found.start() - _MAGIC_AT for found in magic.finditer(chunk, _MAGIC_AT)]:
            candidate = position + at
            offset = file.start_offset + candidate
            size, kind = FILLER_HEAD.unpack_from(chunk, at)
            if kind == MAGIC_BLANK:
                if size == file.size - candidate:
                    return candidate
            # A record that states another offset is not read, whatever size it states.
            elif _may_lie_at(offset, chunk, at) and _is_intact(window, candidate, offset):
                return candidate
        if len(chunk) < least:  # the file was cut meanwhile
            return None
        if not is_end_known and not chunk.strip(b"\x00"):  # perhaps no data follows: look for the end, only once
            end, is_end_known = file.data_end(position), True
        position += len(chunk) - _MAGIC_AT - _SPLIT_MAGIC_BYTES
    return None


def _may_lie_at(offset: int, chunk: bytes, at: int) -> bool:
    """Return whether the record at a place of the chunk states ``offset``, or states one only after the chunk."""
    stated = chunk[at + _PLACE_AT : at + _PLACE_AT + _PLACE_BYTES]
    return len(stated) < _PLACE_BYTES or int.from_bytes(stated, "big") == offset


_MAGICS = tuple((magic & 0xFFFFFFFF).to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))


def refuse_misplaced(files: MappedFileQueue) -> None:
    """Check every file: each record says where it lies in the log.

    If two files were exchanged or a file was copied over another, only the stated places differ. Each start checks the
    first two records of each file. One record alone may have a flipped bit, which is no reason not to start.

    :raises ForeignFile: a file starts with the records of another place.
    """
    for file in files.list:
        said = _said_start(file)
        if said is not None and said != file.start_offset and said >= 0 and said % file.size == 0:
            raise ForeignFile(
                file.path,
                f"begins with the records of commit log offset {said}: it is the file {offset_name(said)}, or a copy",
                "nothing was changed; give each file its own name back, or restore this one from a copy",
            )


def _said_start(file: MappedFile) -> int | None:
    """Return the file's start offset by its first two records; None if they do not agree, or if there are not two."""
    data = file.read(0, MIN_RECORD_BYTES)
    first = _place(data)
    if first is None:
        return None
    size = total_size_at(data)
    second = _place(file.read(size, MIN_RECORD_BYTES)) if size + MIN_RECORD_BYTES <= file.size else None
    return first if second == first + size else None


def _place(data: bytes) -> int | None:
    """Return the offset at which a record says that it lies; None if the bytes are no record."""
    if len(data) < MIN_RECORD_BYTES:
        return None
    try:
        if data[4:8] not in _MAGICS or total_size_at(data) < MIN_RECORD_BYTES:
            return None
        return commit_log_offset_at(data)
    except RecordError:
        return None
