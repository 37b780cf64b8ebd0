"""Carries out a repair plan: everything that is changed is kept first, then the log is mended, then a store opens.

    recovered/repair-<time>/        the bytes, files and folders as they were, at the same places below it
    recovered/repair-<time>/report  what was found and what was done, one line each

A kill in between leaves a directory that says "was killed", without a checkpoint: the next start, or the next
repair, goes on from there. Derived files are made again by opening the store as a server does, so there is one way to
make them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from gateway.clock import Milliseconds
from gateway.store.files import RealFiles
from gateway.store.message_store import MessageStore
from gateway.store_tool.config_check import ConfigState
from gateway.store_tool.progress import Progress
from gateway.store_tool.repair_plan import LogChange, RepairPlan

_REPORT = "report"


class Repair:
    """Carries out one plan.

    :param plan: made from the directory as it is now; its lock is held for writing.
    :param now_ms: names the folder of the originals.
    """

    def __init__(self, plan: RepairPlan, found: Sequence[str], now_ms: int) -> None:
        self._plan = plan
        self._found = found
        self._paths = plan.directory.paths
        self._files = RealFiles()
        moment = datetime.fromtimestamp(now_ms / 1000)
        self.kept = self._paths.recovered / f"repair-{moment:%Y%m%d-%H%M%S}-{now_ms % 1000:03d}"

    def run(self) -> None:
        """Keep the originals and change the files.

        :raises OSError: as far as it came, originals are kept, and running it again goes on.
        """
        plan, files = self._plan, self._files
        files.make_directory(self.kept)
        self._write_report()
        if plan.rebuilds:
            self._mark_killed()
        for path, size in plan.resized:
            self._resize(path, size)
        for change in plan.changes:
            self._keep_bytes(change)
        for change in plan.changes:
            self._change(change)
        for topic, queue_id in plan.queues:
            self._move(self._paths.queue(topic, queue_id))
        for path in plan.index_files:
            self._move(path)
        if plan.rebuilds:
            self._move(self._paths.checkpoint)
        for state in plan.configs:
            self._restore(state)
        files.fsync_directory(self._paths.root)

    def _write_report(self) -> None:
        lines = ["found:", *self._found, "", "done:", *self._plan.lines(), ""]
        lines += [
            f"message lost: {topic} queue {queue_id} offset {offset}"
            for topic, queue_id, offset in self._plan.lost_messages
        ]
        self._write(self.kept / _REPORT, "\n".join(lines).encode() + b"\n")

    def _mark_killed(self) -> None:
        """From now on a start recovers."""
        self._write(self._paths.abort, b"")
        self._files.fsync_directory(self._paths.root)

    # --- the log -------------------------------------------------------------------------------------------------

    def _resize(self, path: Path, size: int) -> None:
        fd = self._files.open(path, create=True)
        try:
            self._files.truncate(fd, size)
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)
        self._files.fsync_directory(path.parent)

    def _keep_bytes(self, change: LogChange) -> None:
        fd = self._files.open(change.path)
        try:
            data = self._files.pread(fd, change.replaced, change.position)
        finally:
            self._files.close(fd)
        folder = self.kept / "commitlog"
        self._files.make_directory(folder)
        self._write(folder / f"{change.commit_log_offset:020d}.bytes", data)

    def _change(self, change: LogChange) -> None:
        fd = self._files.open(change.path)
        try:
            self._files.pwrite(fd, change.data, change.position)
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)

    # --- other files ---------------------------------------------------------------------------------------------

    def _move(self, path: Path) -> None:
        """To the same place below the folder of originals."""
        if not path.exists():
            return
        target = self.kept / path.relative_to(self._paths.root)
        self._files.make_directory(target.parent)
        self._files.rename(path, target)
        self._files.fsync_directory(target.parent)
        self._files.fsync_directory(path.parent)

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
        fd = self._files.open(path, create=True)
        try:
            self._files.truncate(fd, 0)
            self._files.pwrite(fd, data, 0)
            self._files.fdatasync(fd)
        finally:
            self._files.close(fd)
        self._files.fsync_directory(path.parent)


def rebuild(
    plan: RepairPlan, clock_ms: Milliseconds, delay_of: Callable[[int], int | None], progress: Progress
) -> Sequence[str]:
    """Open the store as a server does, let it make what is missing, and close it properly; what it has to say.

    The lock must be given back before: the store takes its own.

    :raises StoreError: it cannot be opened.
    """
    directory = plan.directory
    settings = directory.settings
    if plan.index_shape is not None:
        shape = plan.index_shape
        settings = replace(settings, max_hash_slot_num=shape.slots, max_index_num=shape.entries)
    turns: deque[Callable[[], None]] = deque()
    store = MessageStore(directory.root, settings, clock_ms, delay_of=delay_of, soon=turns.append)
    progress.begin("rebuilding", sum(file.size for file in directory.log_files))
    try:
        report = store.open(lambda done, _total: progress.at(done))
        while turns:
            turns.popleft()()
    finally:
        store.close()
        progress.end()
    return report.remarks
