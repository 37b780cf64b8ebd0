"""The check that each file of the commit log stands in its own place.

Every record says where it lies in the log. If two files were exchanged or a file was copied over another, sizes and
records are intact. Only the stated places differ then. Each start checks the first two records of each file once. One
record alone may have a flipped bit, which is damage and no reason to keep a server from starting.
"""

from __future__ import annotations

from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.disk.paths import offset_name
from gateway.store.errors import ForeignFile
from wire.errors import RecordError
from wire.message.record import MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES
from wire.message.record_fields import commit_log_offset_at, total_size_at

_MAGICS = tuple((magic & 0xFFFFFFFF).to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))


def refuse_misplaced(files: MappedFileQueue) -> None:
    """Check every file.

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
