"""Walks through the commit log record by record, as recovery and the rebuilding of derived files do."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.store.mapped_file_queue import MappedFileQueue
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

_MAGICS = tuple((magic & 0xFFFFFFFF).to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_AT = 4
_UNWRITTEN = b"\x00" * 8


class LogScan:
    """Iterate to get the messages; afterwards ``end`` is where it stopped and ``problem`` why.

    ``problem`` is None at ``limit`` and at the end of the files, "" where nothing was ever written, and otherwise
    says what is wrong with the record at ``end``.
    """

    __slots__ = ("_check_crc", "_files", "end", "limit", "problem")

    def __init__(self, files: MappedFileQueue, start: int, limit: int | None = None, *, check_crc: bool = True) -> None:
        self._files = files
        self._check_crc = check_crc
        self.end = start
        self.limit = files.end_offset if limit is None else limit
        self.problem: str | None = None

    def __iter__(self) -> Iterator[StoredMessage]:
        while self.end < self.limit and (file := self._files.find(self.end)) is not None:
            view = file.view()
            yield from self._walk(view, file.start_offset)
            if self.end < file.start_offset + file.size:
                return

    def _walk(self, view: memoryview, start: int) -> Iterator[StoredMessage]:
        check_crc = self._check_crc
        position = self.end - start
        last = min(self.limit - start, len(view))
        while position < last:
            try:
                message = parse_record(view, position, check_crc=check_crc)
            except RecordError as error:
                if _is_filler(view, position):
                    self.end = start + len(view)
                else:
                    self.problem = "" if view[position : position + 8] == _UNWRITTEN else str(error)
                return
            if message.commit_log_offset != start + position:
                self.problem = f"the record says it lies at {message.commit_log_offset}"
                return
            position += message.total_size
            self.end = start + position
            yield message


def _is_filler(view: memoryview, position: int) -> bool:
    try:
        return check_record(view, position, None) == BLANK
    except RecordError:
        return False


def is_record_at(files: MappedFileQueue, offset: int) -> bool:
    """Whether an intact record, or a filler, starts at an offset of the log."""
    file = files.find(offset)
    if file is None:
        return False
    try:
        check_record(file.view(), offset - file.start_offset, offset)
    except RecordError:
        return False
    return True


def next_record(files: MappedFileQueue, after: int) -> int | None:
    """The offset of the first intact record above ``after``, found by its magic number; None when there is none."""
    offset = after + 1
    while (file := files.find(offset)) is not None:
        position = offset - file.start_offset
        end = file.data_end(position)
        view = file.view()
        found = _next_in_file(view, position, min(end, len(view)), file.start_offset)
        if found is not None:
            return found
        offset = file.start_offset + file.size
    return None


def _next_in_file(view: memoryview, position: int, end: int, start: int) -> int | None:
    data = view.obj
    while end - position >= MIN_RECORD_BYTES:
        found = [at for magic in _MAGICS if (at := data.find(magic, position + _MAGIC_AT, end)) >= 0]  # type: ignore[attr-defined]
        if not found:
            return None
        candidate: int = min(found) - _MAGIC_AT
        try:
            check_record(view, candidate, start + candidate)
        except RecordError:
            position = candidate + 1
            continue
        return start + candidate
    return None
