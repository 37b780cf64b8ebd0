"""Compare everything in a store directory: the commit log first, then the files that are derived from it.

Several processes walk the log in stretches, and their results are joined here in log order. The directory of a killed
server may lack the last units and entries, and may have a torn tail. Such findings are *unsettled* and no damage.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing.sharedctypes import Synchronized
from typing import Any

from gateway.store.disk.paths import offset_name, parse_offset_name
from gateway.store_tool.checks.checkpoint_check import check_checkpoint, expected_begin, read_checkpoint
from gateway.store_tool.checks.config_check import check_configs, known_topics
from gateway.store_tool.checks.findings import REPAIR, Finding, FindingKind, Findings
from gateway.store_tool.checks.index_chains import FileFaults, beyond_log, check_file
from gateway.store_tool.checks.index_check import IndexCheck, IndexFaults
from gateway.store_tool.checks.index_part import IndexPart, NearIndex, PlacedPart, read_part
from gateway.store_tool.checks.queue_check import QueueCheck
from gateway.store_tool.checks.stretch_walk import Gap, LogStretch, WalkResult, walk
from gateway.store_tool.errors import CannotRun
from gateway.store_tool.files.directory import DiskFile, StoreDirectory, data_end, links_in
from gateway.store_tool.progress import Progress
from wire.disk.index_file import ENTRY_BYTES, IndexShape

STRETCH_BYTES = 64 << 20
"""The part of the log that one process walks at once, small enough that all processes end at nearly the same time.

The result of a stretch takes up to a twentieth of this size.
"""
POOL_FROM_BYTES = 64 << 20
"""The size of work from which other processes are started. For less work, starting them would take longer."""
_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class LogGap:
    """A part of the log without an intact record. ``followed`` is True if intact records come later."""

    file: DiskFile
    begin: int
    end: int
    reason: str
    followed: bool


@dataclass(slots=True)
class LogOutline:
    """The findings of the walk through the log. ``end`` is the end of the log, after the last intact record."""

    end: int = 0
    records: int = 0
    hidden: int = 0
    long_topics: int = 0
    walked_bytes: int = 0
    first_stored_at_ms: int = 0
    last_stored_at_ms: int = 0
    gaps: list[LogGap] = field(default_factory=list)


class Verification:
    """One verification. Afterwards its parts hold the facts that a repair needs.

    :param jobs: the number of processes; 0 for one per core.
    :param delay_of: returns the delay of a level in milliseconds.
    """

    def __init__(
        self,
        directory: StoreDirectory,
        *,
        progress: Progress,
        jobs: int = 0,
        delay_of: Callable[[int], int | None] = lambda _level: None,
    ) -> None:
        self.directory = directory
        self.findings = Findings(directory.root)
        self.outline = LogOutline(end=directory.log_min)
        self.lost_begin: tuple[int, int] | None = None
        """The expected and the present start of the log if the first files are lost; otherwise None."""
        self._progress = progress
        self._jobs = jobs or os.cpu_count() or 1
        self.parts = self._index_parts()
        self.queues = QueueCheck(directory, self.findings, known_topics(directory), delay_of)
        self.index = IndexCheck(directory, self.findings, self.parts)
        self._index_results: list[IndexFaults] = []

    def run(self) -> Findings:
        """Check everything, and return all findings."""
        directory, findings = self.directory, self.findings
        self._check_kinds()
        if not directory.log_files and directory.queues:
            self._tell_missing_log()
            check_configs(directory, findings)
            return findings
        self._check_log_files()
        places = self._stretch_places()
        total = sum(end - begin for _, begin, end in places)
        chained = sum(part.entry_count for part in self.parts)
        self._progress.begin("verifying", total + chained * ENTRY_BYTES)
        with _Pool(self._jobs if total + chained * 20 >= POOL_FROM_BYTES else 1, self._progress) as pool:
            files = list(pool.map(_check_file, self.parts))
            stretches = self._stretches(places, files)
            self._take_results(stretches, pool.map(walk, stretches))
            end = max((stretch.start + stretch.end for stretch in stretches), default=0)
            self._judge_gaps()
            for found in self._index_results:
                self.index.add(found, self._is_gap)
            for file in files:
                self.index.add_file([*file.faults, *beyond_log(file, end)])
        self._progress.end()
        outline = self.outline
        outline.walked_bytes = total
        _, marks = read_checkpoint(directory)
        self._finish_queues()
        self.index.finish(marks.index.scanned if marks is not None else None)
        check_checkpoint(directory, findings, outline.end, outline.last_stored_at_ms)
        check_configs(directory, findings)
        self._note_links()
        if directory.killed:
            findings.note("the file abort is there: a server was killed, or its machine; the next start recovers")
        return findings

    def _finish_queues(self) -> None:
        queues = self.directory.queues.values()
        self._progress.begin("comparing queues", sum(file.size for queue in queues for file in queue.files))
        self.queues.finish(self.outline.end, self._progress.more)
        self._progress.end()

    def _check_kinds(self) -> None:
        for misfit in self.directory.misfits:
            remedy = f"{REPAIR} {self.directory.root} moves it away"
            self.findings.add(Finding(FindingKind.ENTRY_KIND, misfit.path, misfit.what, remedy))

    # --- the log -------------------------------------------------------------------------------------------------

    def _check_log_files(self) -> None:
        directory = self.directory
        size = directory.log_file_bytes
        files = directory.log_files
        for number, file in enumerate(files):
            if file.size == size:
                continue
            if file.size == 0 and number == len(files) - 1:
                self._tell_file(file, "is empty: a crash came between making it and giving it its size", settles=True)
            else:
                self._tell_file(file, f"has {file.size} bytes, a commit log file here has {size}")
        self._check_begin()
        for before, file in pairwise(files):
            if file.start != before.start + size:
                self._tell_file(file, f"does not follow {before.path.name}: {before.start + size:020d} is missing")
        if directory.paths.commit_log.is_dir():
            for path in sorted(directory.paths.commit_log.iterdir()):
                if parse_offset_name(path.name) is None:
                    self.findings.note(f"{path} is not a commit log file; a server leaves it alone")

    def _check_begin(self) -> None:
        """Report a lost start of the log.

        A deletion notes the new start of the log before it removes a file, so a file that is missing without a note is
        lost.
        """
        directory = self.directory
        expected, begin = expected_begin(directory), directory.log_min
        if not directory.log_files or not begin > expected >= 0:
            return
        self.lost_begin = (expected, begin)
        path = directory.paths.commit_log / offset_name(begin - directory.log_file_bytes)
        what = f"is missing: the log begins at {begin}, but only what lies below {expected} was deleted as expired"
        remedy = f"restore it from a copy, or accept the loss: {REPAIR} {directory.root}"
        self.findings.add(Finding(FindingKind.LOG_FILE, path, what, remedy))

    def _stretch_places(self) -> list[tuple[DiskFile, int, int]]:
        """Return the stretches of the log files: file, start and end in the file."""
        found: list[tuple[DiskFile, int, int]] = []
        for file in self.directory.log_files:
            end = data_end(file.path, self._size(file))
            for begin in range(0, end, STRETCH_BYTES):
                found.append((file, begin, min(begin + STRETCH_BYTES, end)))
        return found

    def _stretches(self, places: Sequence[tuple[DiskFile, int, int]], files: Sequence[FileFaults]) -> list[LogStretch]:
        """Return the stretches with the index files near each. A walk goes on at most to the end of its log file."""
        index_end = max((part.head.end_commit_log_offset for part in self.parts if part.entry_count), default=-1)
        placed = [PlacedPart(file.part, file.lowest, file.highest) for file in files]
        found: list[LogStretch] = []
        near: list[PlacedPart] = []
        of: DiskFile | None = None
        for file, begin, end in places:
            size = self._size(file)
            if file != of:
                of, near = file, [part for part in placed if part.reaches(file.start, file.start + size)]
            index = NearIndex(tuple(near), index_end, bool(placed))
            found.append(LogStretch(file.path, file.start, size, begin, end, index))
        return found

    def _size(self, file: DiskFile) -> int:
        """Return how many bytes of a file are looked at.

        Bytes after the usual size are ignored: they are a finding, there can be very many, and they mean nothing.
        """
        return min(file.size, self.directory.log_file_bytes)

    def _take_results(self, stretches: Sequence[LogStretch], results: Iterator[WalkResult]) -> None:
        files = {file.path: file for file in self.directory.log_files}
        reached = dict.fromkeys(files, 0)
        for stretch, result in zip(stretches, results, strict=True):
            file = files[stretch.path]
            if result.begin > reached[stretch.path] and stretch.end > reached[stretch.path]:
                followed = result.begin < self._size(file)
                self._add_gap(file, Gap(reached[stretch.path], result.begin, "damaged", followed))
            for gap in result.gaps:
                self._add_gap(file, gap)
            reached[stretch.path] = max(result.end, reached[stretch.path])
            self._add(result, file)
        for file in self.directory.log_files:
            size = self._size(file)
            if reached[file.path] < size and file.start + size <= self.outline.end:
                self._add_gap(file, Gap(reached[file.path], size, "nothing is written here", followed=False))

    def _add_gap(self, file: DiskFile, gap: Gap) -> None:
        begin, end = file.start + gap.position, file.start + gap.end
        self.outline.gaps.append(LogGap(file, begin, end, gap.reason, gap.followed))

    def _add(self, result: WalkResult, file: DiskFile) -> None:
        outline = self.outline
        outline.records += result.records
        outline.hidden += result.hidden
        outline.long_topics += result.long_topics
        if result.records:
            outline.first_stored_at_ms = outline.first_stored_at_ms or result.first_stored_at_ms
            outline.last_stored_at_ms = max(outline.last_stored_at_ms, result.last_stored_at_ms)
        for run in result.runs:
            self.queues.add(run)
        self._index_results.append(result.index)
        # A filler behind no record of this place: the file is another one, or nothing is left of it.
        if result.is_filled and (result.last_end or outline.end > file.start):
            outline.end = file.start + self._size(file)
        elif result.last_end:
            outline.end = file.start + result.last_end

    def _judge_gaps(self) -> None:
        """Report each gap: as a torn tail if nothing intact follows, otherwise as damage."""
        outline = self.outline
        outline.gaps = _joined(outline.gaps, outline.end)
        for gap in outline.gaps:
            is_tail = gap.begin >= outline.end
            is_copy = gap.begin == gap.file.start and gap.reason.startswith("the record says it lies at")
            filler = gap.reason.startswith("the filler says")
            self.findings.add(
                Finding(
                    FindingKind.TAIL if is_tail else FindingKind.FILLER if filler else FindingKind.RECORD,
                    gap.file.path,
                    gap.reason + ("" if is_tail or filler else f"; {gap.end - gap.begin} bytes are unreadable"),
                    settles=is_tail and self.directory.killed and not is_copy,
                    position=gap.begin - gap.file.start,
                    commit_log_offset=gap.begin,
                    commit_log_end=gap.end,
                )
            )

    def _is_gap(self, commit_log_offset: int) -> bool:
        return any(gap.begin <= commit_log_offset < gap.end for gap in self.outline.gaps)

    def _tell_missing_log(self) -> None:
        path = self.directory.paths.commit_log
        remedy = "restore its files, or say where they are: -c broker.conf, or --set storePathCommitLog=DIR"
        what = "holds no commit log file, but there are consume queues"
        self.findings.add(Finding(FindingKind.LOG_FILE, path, what, remedy))

    def _tell_file(self, file: DiskFile, what: str, *, settles: bool = False) -> None:
        remedy = f"restore it from a copy, or {REPAIR} {self.directory.root} puts stand-ins for what is lost"
        self.findings.add(Finding(FindingKind.LOG_FILE, file.path, what, "" if settles else remedy, settles=settles))

    def _note_links(self) -> None:
        """Note symbolic links, because a server follows them and their targets must exist when it starts."""
        links = links_in(self.directory.paths.consume_queue)
        dangling = [link for link in links if not link.exists()]
        for found, what in ((links, "are followed; copies have what they lead to"), (dangling, "lead nowhere")):
            if found:
                more = f" and {len(found) - 1} more" if len(found) > 1 else ""
                self.findings.note(f"symbolic links {what}: {found[0]} → {found[0].readlink()}{more}")

    # --- the index -----------------------------------------------------------------------------------------------

    def _index_parts(self) -> list[IndexPart]:
        settings = self.directory.settings
        configured = IndexShape(settings.max_hash_slot_num, settings.max_index_num)
        parts = []
        for file in self.directory.index_files:
            part = read_part(file, configured)
            if isinstance(part, IndexPart):
                parts.append(part)
                continue
            remedy = f"{REPAIR} {self.directory.root}, or give the broker.conf it was written with (-c FILE)"
            settles = self.directory.killed and file.size == 0 and file.path.is_file()
            self.findings.add(Finding(FindingKind.INDEX, file.path, part, remedy, settles=settles))
        return parts


def _joined(gaps: list[LogGap], log_end: int) -> list[LogGap]:
    """Join adjacent gaps, because stretches may meet inside damage. The whole tail becomes one gap."""
    joined: list[LogGap] = []
    for gap in sorted(gaps, key=lambda gap: gap.begin):
        last = joined[-1] if joined else None
        if last is not None and last.end == gap.begin and last.file == gap.file:
            joined[-1] = LogGap(last.file, last.begin, gap.end, last.reason, gap.followed)
        elif last is None or last.begin < log_end or last.file != gap.file:
            joined.append(gap)
    return joined


def _check_file(part: IndexPart, tell: Callable[[int], None]) -> FileFaults:
    found = check_file(part)
    tell(part.entry_count * ENTRY_BYTES)
    return found


# --- processes -------------------------------------------------------------------------------------------------------

_done: Synchronized[int] | None = None


def _remember(done: Synchronized[int]) -> None:
    """Remember, in each process of the pool, where to count the finished bytes."""
    global _done
    _done = done
    gc.disable()  # millions of numbers in lists, nothing in circles, and the process ends soon


def _counted(count: int) -> None:
    assert _done is not None, "set when the process started"
    with _done.get_lock():
        _done.value += count


def _in_pool(function: Callable[[Any, Callable[[int], None]], Any], item: Any) -> Any:
    return function(item, _counted)


class _Pool:
    """Run a function for many items, in this process or in several, and return the results in order."""

    def __init__(self, jobs: int, progress: Progress) -> None:
        self._progress = progress
        self._executor: ProcessPoolExecutor | None = None
        if jobs > 1:
            context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)
            self._done: Synchronized[int] = context.Value("q", 0)
            self._executor = ProcessPoolExecutor(jobs, context, _remember, (self._done,))
        self._jobs = jobs

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def map(self, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[Any]:
        """Yield ``function(item, tell)`` for each item.

        At most twice as many results are held as there are processes.
        """
        if self._executor is None:
            for item in items:
                yield function(item, self._progress.more)
            return
        waiting: list[Future[Any]] = []
        rest = iter(items)
        while True:
            while len(waiting) < 2 * self._jobs and (item := next(rest, None)) is not None:
                waiting.append(self._executor.submit(partial(_in_pool, function), item))
            if not waiting:
                return
            yield self._wait(waiting.pop(0))

    def _wait(self, future: Future[Any]) -> Any:
        while not future.done():
            wait([future], timeout=_TICK_S, return_when=FIRST_COMPLETED)
            self._progress.at(self._done.value)
        return _result(future)


def _result(future: Future[Any]) -> Any:
    error = future.exception()
    if error is not None:
        if isinstance(error, OSError):
            raise error
        raise CannotRun(f"a process of the verification ended early: {error!r}") from error
    return future.result()
