"""A part of a commit log file in memory that moves along with its reader.

The part is read, not mapped: a bad sector is then an ``OSError`` and does not end the process. On a file system in
memory, bytes that were never written then take no room.
"""

from __future__ import annotations

from gateway.store.disk.mapped_file import MappedFile
from wire.errors import RecordError
from wire.message.record import MAGIC_V1, MAGIC_V2
from wire.message.record_check import cut_off_text
from wire.message.record_layout import FILLER_HEAD

WINDOW_BYTES = 64 * 1024
"""The number of bytes read at once, unless a record is larger."""


class LogWindow:
    """A view of the whole records of one file."""

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
