"""Carry out a repair plan: everything that changes is kept first, then the log is mended, then a store opens.

    recovered/repair-<time>/        the bytes and files as they were, at the same places below it
    recovered/repair-<time>/report  what was found and what was done, one line each

A kill during the repair leaves a directory that says "was killed", and the next start, or the next repair, goes on from
there. Either reads the whole log, because the checkpoint is gone or says that no queue is on disk. Derived files are
made again by opening the store in the way of a server, so there is only one way to make them.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gateway.clock import Milliseconds
from gateway.store.disk.files import FileLayer
from gateway.store.disk.small_files import read_file
from gateway.store.durability.checkpoint import CheckpointFile
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.errors import StoreError
from gateway.store.message_store import MessageStore
from gateway.store.queues.deleted_topics import DeletedTopics
from gateway.store.queues.queue_journal import QueueJournal
from gateway.store_tool.checks.config_check import ConfigState
from gateway.store_tool.errors import CannotRun
from gateway.store_tool.files.sparse_copy import copy_sparsely
from gateway.store_tool.progress import Progress
from gateway.store_tool.repair.lost_outcomes import lost_outcomes
from gateway.store_tool.repair.repair_plan import LogChange, RepairPlan
from wire.safe_text import safe_text

_REPORT = "report"
SLACK_BYTES = 1 << 20
"""The disk space for the report, the checkpoint, lists, and partly used blocks."""


class Repair:
    """Carry out one plan.

    :param plan: the plan, made from the directory as it is now; the directory's lock is held for writing.
    :param found: the findings, for the report.
    :param now_ms: the time that names the folder of the originals.
    """

    def __init__(self, plan: RepairPlan, found: Sequence[str], now_ms: int) -> None:
        self._plan = plan
        self._found = found
        self._paths = plan.directory.paths
        self._files = FileLayer()
        moment = datetime.fromtimestamp(now_ms / 1000)
        self.kept = self._paths.recovered / f"repair-{moment:%Y%m%d-%H%M%S}-{now_ms % 1000:03d}"

    def run(self) -> None:
        """Keep the originals and change the files.

        :raises CannotRun: there is not enough disk space; nothing was changed.
        :raises OSError: a step failed. The originals of all changes so far are kept, and another run goes on.
        """
        plan, files = self._plan, self._files
        self._refuse_full_disk()
        misfits = [misfit.path for misfit in plan.misfits]
        if self._paths.recovered in misfits:  # where the originals of this repair belong
            misfits.remove(self._paths.recovered)
            files.rename(self._paths.recovered, self._paths.root / f"recovered-before-{self.kept.name}")
        files.make_directory(self.kept)
        self._write_report()
        for path in misfits:  # at first: one may stand where a file of this repair belongs
            self._move_any(path)
        if plan.rebuilds:
            self._keep_deletions()
            self._mark_killed()
        self._mend_log()
        self._clear_derived()
        for state in plan.configs:
            self._restore(state)
        files.fsync_directory(self._paths.root)

    def _refuse_full_disk(self) -> None:
        """Refuse a repair without enough disk space, because a half-done repair is worse than none.

        A renamed file takes no space, but a file that is made again does.

        :raises CannotRun: there is not enough disk space.
        """
        plan, directory = self._plan, self._plan.directory
        again = [file for name in plan.queues for file in directory.queues[name].files]
        again += [file for file in directory.index_files if file.path in plan.index_files]
        needed = SLACK_BYTES + sum(change.replaced for change in plan.changes) + sum(file.used_bytes for file in again)
        free = self._files.disk_space(self._paths.root).free_bytes
        if free < needed:
            raise CannotRun(
                f"a repair needs about {needed >> 10} KiB on the disk of {self._paths.root}, for originals and what is "
                f"made again, {free >> 10} KiB are free; make room there. Nothing was changed"
            )

    def _mend_log(self) -> None:
        plan = self._plan
        for path, size in plan.resized:
            self._resize(path, size)
        for change in plan.changes:
            self._keep_bytes(change)
        for change in plan.changes:
            self._change(change)
        for path in plan.surplus:
            self._move(path)

    def _clear_derived(self) -> None:
        """Move away the files that are made again."""
        plan = self._plan
        for topic, queue_id in plan.queues:
            # Not the directories: they may be links to another disk, and stay these.
            for folder in (self._paths.queue(topic, queue_id), self._paths.extension(topic, queue_id)):
                for name in self._files.list(folder):
                    self._move(folder / name)
        for path in plan.index_files:
            self._move_any(path)
        if plan.rebuilds:
            self._distrust_checkpoint()

    def report_more(self, lines: Sequence[str]) -> None:
        """Add to the report what the opening of the repaired directory showed."""
        path = self.kept / _REPORT
        if lines:
            self._write(
                path, path.read_bytes() + b"\nthen:\n" + "".join(f"{safe_text(line)}\n" for line in lines).encode()
            )

    def _write_report(self) -> None:
        lines = ["found:", *self._found, "", "done:", *self._plan.lines(), ""]
        lines += [
            f"message lost: {topic} queue {queue_id} offset {offset}"
            for topic, queue_id, offset in self._plan.lost_messages
        ]
        self._write(self.kept / _REPORT, "\n".join(map(safe_text, lines)).encode() + b"\n")

    def _keep_deletions(self) -> None:
        """Note what was deleted, because queue files that are made again do not show deletions."""
        plan, path = self._plan, self._paths.deleted_topics
        if path.is_file():
            self._write(self.kept / path.name, path.read_bytes())
        deleted = DeletedTopics(self._files, self._paths)
        deleted.load()
        for (topic, queue_id), log_end in plan.hidden.items():
            deleted.note_queue(topic, queue_id, log_end)
        deleted.save()
        if plan.another:
            QueueJournal(self._files, self._paths).begin()

    def _mark_killed(self) -> None:
        """Write the file ``abort``, so that every start from now on recovers."""
        self._write(self._paths.abort, b"")
        self._files.fsync_directory(self._paths.root)

    def _distrust_checkpoint(self) -> None:
        """Let every start from now on walk through the whole log.

        The checkpoint's marks of the index stay, or are moved away with the file.
        """
        path = self._paths.checkpoint
        if not self._plan.keeps_checkpoint:
            self._move(path)
            return
        self._write(self.kept / path.name, path.read_bytes())
        checkpoint = CheckpointFile(self._files, self._paths)
        try:
            checkpoint.load()
            if self._plan.lost_begin is not None:
                checkpoint.begin_log(self._plan.directory.log_min)
            checkpoint.distrust_queues(self._plan.directory.log_min)
            if self._plan.another:
                checkpoint.forget_stale()
        finally:
            checkpoint.close()

    # --- the log -------------------------------------------------------------------------------------------------

    def _resize(self, path: Path, size: int) -> None:
        with self._opened(path) as fd:
            self._files.truncate(fd, size)
            self._files.fdatasync(fd)
        self._files.fsync_directory(path.parent)

    def _keep_bytes(self, change: LogChange) -> None:
        data = read_file(self._files, change.path, change.replaced, change.position)
        folder = self.kept / "commitlog"
        self._files.make_directory(folder)
        self._write(folder / f"{change.commit_log_offset:020d}.bytes", data)

    def _change(self, change: LogChange) -> None:
        with self._opened(change.path) as fd:
            self._files.pwrite(fd, change.data, change.position)
            self._files.fdatasync(fd)

    # --- other files ---------------------------------------------------------------------------------------------

    def _move(self, path: Path) -> None:
        """Move a file to the same place below the folder of originals.

        Links in its path stay, and may lead to another disk.
        """
        if not path.is_file():
            return
        target = self._kept_path(path)
        try:
            self._files.rename(path, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            copy_sparsely(path, target, lambda _count: None)
            self._files.unlink(path)
        self._files.fsync_directory(target.parent)
        self._files.fsync_directory(path.parent)

    def _move_any(self, path: Path) -> None:
        """Move a file, which may be on another disk, or an entry of another kind."""
        if path.is_file():
            self._move(path)
        else:
            self._move_entry(path)

    def _move_entry(self, path: Path) -> None:
        """Move an entry of any kind as a whole. A link is moved as a link."""
        target = self._kept_path(path)
        self._files.rename(path, target)
        self._files.fsync_directory(target.parent)
        self._files.fsync_directory(path.parent)

    def _kept_path(self, path: Path) -> Path:
        paths = self._paths
        if path.parent == paths.commit_log:  # which may be elsewhere
            target = self.kept / "commitlog" / path.name
        else:
            target = self.kept / path.relative_to(paths.root)
        self._files.make_directory(target.parent)
        return target

    def _restore(self, state: ConfigState) -> None:
        if state.fault is not None:
            self._move(state.path)
            if state.backup_exists and state.backup_fault is None:
                fresh = state.path.with_name(state.path.name + ".tmp")
                self._write(fresh, state.backup.read_bytes())
                self._files.rename(fresh, state.path)
        if state.backup_fault is not None:
            self._move(state.backup)
        self._files.fsync_directory(state.path.parent)

    def _write(self, path: Path, data: bytes) -> None:
        with self._opened(path) as fd:
            self._files.truncate(fd, 0)
            self._files.pwrite(fd, data, 0)
            self._files.fdatasync(fd)
        self._files.fsync_directory(path.parent)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        """Open a file, which is made if missing, and add its path to errors, because a descriptor does not name it."""
        fd = self._files.open(path, create=True)
        try:
            yield fd
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        finally:
            self._files.close(fd)


def rebuild(
    plan: RepairPlan, clock_ms: Milliseconds, delay_of: Callable[[int], int | None], progress: Progress
) -> Sequence[str]:
    """Open the store in the way of a server, let it make what is missing, and close it properly; return its remarks.

    The caller must release the lock before, because the store takes its own lock.

    :raises StoreError: the store cannot be opened, or the rebuilt files cannot be flushed to the disk.
    """
    directory = plan.directory
    # All that is cut is kept: here a person waits, and asked for it.
    settings = replace(directory.settings, max_tail_copy_bytes=directory.log_file_bytes)
    if plan.index_shape is not None:
        shape = plan.index_shape
        settings = replace(settings, max_hash_slot_num=shape.slots, max_index_num=shape.entries)
    turns: deque[Callable[[], None]] = deque()
    store = MessageStore(
        directory.root, settings, StoreSurroundings(clock_ms=clock_ms, soon=turns.append), delay_of=delay_of
    )
    progress.begin("rebuilding", sum(file.size for file in directory.log_files))
    try:
        report = store.open(lambda done, _total: progress.at(done))
        while turns:
            turns.popleft()()
        outcomes = lost_outcomes(store, directory.root, plan.lost_messages)
    finally:
        is_flushed = store.close()
        progress.end()
    if not is_flushed:
        raise StoreError(f"what was rebuilt in {directory.root} could not be flushed to the disk; repair it again")
    return [*report.remarks, *outcomes]
