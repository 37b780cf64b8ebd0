"""The cut of a log: a replica forgets the end of its log, which no other broker has, and keeps a copy of it.

A cut is made on a closed store, in this order:

    1  check that a record starts at the place, and that the store was closed properly
    2  copy the bytes after the place to ``recovered/``, synced
    3  write the note ``gateway-cut``, synced: from now on the cut counts
    4  lower the checkpoint, empty the list of queues, remove the files after the place, write zeros, all synced
    5  remove the note

A crash before step 3 leaves the log as it was. After a crash later, the next opening repeats step 4. The opening after
a cut takes the store for one that was not closed: it forgets units and keys of what was cut. Upstream's
``truncateDirtyFiles`` only moves a position in memory, and the old bytes come back after a crash.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.settings.store import StoreSettings
from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.disk.paths import StorePaths
from gateway.store.disk.small_files import read_file, replace_file
from gateway.store.disk.store_lock import StoreLock
from gateway.store.durability.checkpoint import CheckpointFile
from gateway.store.errors import StoreError, StoreNotAccessible
from gateway.store.log.log_bytes import last_record
from gateway.store.log.log_scan import LogScan, is_record_at
from gateway.store.queues.queue_journal import QueueJournal
from gateway.store.recovery.log_tail import keep_copy

NOTE_MAX_BYTES = 64


@dataclass(frozen=True, slots=True)
class LogCut:
    """The result of a cut.

    :param offset: where the log ends now.
    :param end: where it ended before.
    :param copy: the file with the bytes between the two; None if nothing was cut.
    """

    offset: int
    end: int
    copy: Path | None


def cut_log(directory: Path, offset: int | None, settings: StoreSettings, files: FileLayer | None = None) -> LogCut:
    """Cut the log of a closed store at the start of a record; blocks.

    :param offset: the start of the record; None if only a filler after the last record is to be cut.
    :raises StoreError: nothing was changed: the store is in use or was not closed properly, or no record starts there.
    """
    layer = FileLayer() if files is None else files
    paths = StorePaths(directory, settings.commit_log_below(directory))
    lock = StoreLock(layer, paths)
    try:
        lock.take()
        try:
            return _cut(layer, paths, offset, settings)
        finally:
            lock.release()
    except OSError as error:
        raise StoreNotAccessible(paths.root, error) from error


def _cut(layer: FileLayer, paths: StorePaths, offset: int | None, settings: StoreSettings) -> LogCut:
    if layer.exists(paths.cut_note) or layer.exists(paths.abort):
        raise StoreError(
            f"{paths.root} was not closed properly, so its log cannot be cut: start the broker and stop it"
        )
    log_files = MappedFileQueue(layer, paths.commit_log, settings.mapped_file_size_commit_log, paths.root)
    log_files.load()
    end = _end(layer, paths)
    if offset is None:
        last = last_record(log_files, end, log_files.min_offset)
        offset = end if last is None else last + next(iter(LogScan(log_files, last, end))).total_size
    if offset == end:
        return LogCut(offset, end, None)
    if not (log_files.min_offset <= offset < end and _is_begin(log_files, offset)):
        raise StoreError(
            f"the log in {paths.commit_log} cannot be cut at {offset}: no record starts there; the log begins at "
            f"{log_files.min_offset} and ends at {end}"
        )
    layer.make_directory(paths.recovered)
    copy = keep_copy(layer, log_files, paths.cut(offset, end), offset, end)
    _note(layer, paths, offset)
    finish_cut(layer, paths, settings)
    return LogCut(offset, end, copy)


def _end(layer: FileLayer, paths: StorePaths) -> int:
    """Return the end of the log of a store that was closed.

    :raises StoreError: another broker served the directory last, so the end is not known.
    """
    checkpoint = CheckpointFile(layer, paths)
    checkpoint.load()
    checkpoint.close()
    if checkpoint.marks is None:
        raise StoreError(f"{paths.root} was not served by the gateway last: start the broker and stop it before a cut")
    return checkpoint.marks.durable


def _is_begin(log_files: MappedFileQueue, offset: int) -> bool:
    """Return whether a record starts at an offset: one that ends there, or the start of a file, comes before it."""
    if not is_record_at(log_files, offset):
        return False
    if offset % log_files.file_size == 0:
        return True
    before = last_record(log_files, offset, log_files.min_offset)
    if before is None:
        return False
    scan = LogScan(log_files, before, offset)
    return any(True for _ in scan) and scan.end == offset


def _note(layer: FileLayer, paths: StorePaths, offset: int) -> None:
    text = f"{offset}"
    replace_file(layer, paths.cut_note, f"{text} {zlib.crc32(text.encode())}\n".encode())


def _noted(layer: FileLayer, paths: StorePaths) -> int:
    """Return the place of an unfinished cut.

    :raises StoreError: the note cannot be read.
    """
    data = read_file(layer, paths.cut_note, NOTE_MAX_BYTES)
    text, _, checksum = data.decode("ascii", "replace").strip().partition(" ")
    if not text.isdecimal() or checksum != str(zlib.crc32(text.encode())):
        raise StoreError(f"{paths.cut_note} cannot be read: it says where the log was being cut; remove it to keep all")
    return int(text)


def finish_cut(
    layer: FileLayer, paths: StorePaths, settings: StoreSettings, tell: Callable[[str], None] = lambda _: None
) -> None:
    """Carry out the cut that is noted, if there is one; the directory is locked, and nothing of it is loaded; blocks.

    :param tell: called with a remark if there was one.
    :raises StoreError: the note cannot be read.
    """
    if not layer.exists(paths.cut_note):
        return
    offset = _noted(layer, paths)
    log_files = MappedFileQueue(layer, paths.commit_log, settings.mapped_file_size_commit_log, paths.root)
    log_files.load()
    StoreLock(layer, paths).mark_open()
    checkpoint = CheckpointFile(layer, paths)
    checkpoint.load()
    last = last_record(log_files, offset, log_files.min_offset)
    checkpoint.cut(offset, -1 if last is None else last)
    checkpoint.close()
    journal = QueueJournal(layer, paths)
    journal.begin()
    log_files.remove_after(max(offset - 1, log_files.min_offset))
    file = log_files.find(offset)
    if file is not None:
        file.erase(offset - file.start_offset)
    layer.unlink(paths.cut_note)
    layer.fsync_directory(paths.root)
    tell(f"the log was cut at {offset}; what followed is kept in {paths.recovered}")
