"""No call to the disk may lose its descriptor, whatever other threads let go meanwhile: one test for each place.

Compiled code drops a local after its last use, so that an object is no pin for what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.paths import StorePaths
from gateway.store.figures import StoreFigures
from gateway.store.index.index_file import IndexFile, IndexSnapshot, read_head
from gateway.store.log.commit_log import CommitLog
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.telemetry.metrics import Registry
from gateway.tests.store.index.test_index_file import rows
from gateway.tests.store.losing_files import LosingFiles
from gateway.tests.store.small_store import LOG_FILE_BYTES, SMALL, START_MS, Disk, opened, put
from wire.disk.consume_queue import UNIT
from wire.disk.index_file import IndexShape
from wire.disk.queue_extension import ExtensionUnit

FILE_UNITS = 10
SETTINGS = replace(SMALL, mapped_file_size_consume_queue_ext=200)
SHAPE = IndexShape(2000, 100)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LosingFiles]:
    files = LosingFiles(tmp_path / "foreign")
    yield files
    files.end()


def check(disk: LosingFiles, calls: set[str]) -> None:
    """Each of the calls was made, and arrived."""
    assert (set(disk.arrived), disk.astray) == (calls, [])


# --- consume queues and their extensions ---------------------------------------------------------------------------


def units(first: int, count: int) -> bytes:
    return b"".join(UNIT.pack(number * 100, 100, number) for number in range(first, first + count))


class Queues:
    """Consume queues whose open files are all let go in the middle of each call."""

    def __init__(self, disk: LosingFiles, root: Path) -> None:
        self.disk, self.root = disk, root
        self.all = ConsumeQueues(disk, StorePaths(root), SETTINGS)
        self.make = self.all.make
        disk.losses.append(self.all._shared.open_files.clear)

    def undisturbed(self, read: Callable[[], bytes]) -> bytes:
        """Return the bytes that are read while nobody closes anything; the file stays open."""
        losses, self.disk.losses = self.disk.losses, []
        data = read()
        self.disk.losses = losses
        return data

    def again(self) -> ConsumeQueues:
        """Open the files as another start finds them."""
        other = Queues(self.disk, self.root).all
        assert other.load() == []
        return other


def filled(queues: Queues) -> ConsumeQueue:
    """Three files, the last half full."""
    queue = queues.make("T", 0)
    queue.write_units(0, units(0, 25))
    return queue


def write(queues: Queues) -> None:
    queue = filled(queues)
    queue.write_units(25, units(25, 10))
    assert b"".join(queue.read_units(first, FILE_UNITS) for first in range(0, 40, FILE_UNITS)) == units(0, 35)


def write_above_zero(queues: Queues) -> None:
    queue = queues.make("T", 1)
    queue.write_units(7, units(7, 2))
    assert queue.read_units(7, 2) == units(7, 2)


def write_held(queues: Queues) -> None:
    queue = filled(queues)
    queue.hold_units(units(25, 3))
    assert queue.write_held() == [2 * FILE_UNITS * 20]
    assert queue.read_units(20, 8) == units(20, 8)


def correct(queues: Queues) -> None:
    queue = filled(queues)
    queue.correct_unit(3, UNIT.pack(1, 2, 3))
    assert queue.unit(3) == (1, 2, 3)


def read_now(queues: Queues) -> None:
    queue = filled(queues)
    assert queues.undisturbed(lambda: queue.read_units(12, 5)) == units(12, 5)
    assert queue.read_units_now(12, 5) == units(12, 5)


def read_a_stored_unit(queues: Queues) -> None:
    queue = filled(queues)
    assert queue.stored_unit(24) == (2400, 100, 24)
    assert queue.min_for(1000) == 10


def cut(queues: Queues) -> None:
    queue = filled(queues)
    assert queue.cut(1500)
    assert queue.max_offset == 15
    assert queue.stored_unit(15) == (0, 0, 0)


def empty_the_first_file(queues: Queues) -> None:
    queue = queues.make("T", 1)
    queue.write_units(10, units(10, 5))
    queue.keep_below(10)
    assert queue.stored_unit(10) == (0, 0, 0)


def begin(queues: Queues) -> None:
    assert queues.make("T", 1).begin_at(33) == 30 * 20


def load(queues: Queues) -> None:
    filled(queues)
    found = queues.again().find(("T", 0))
    assert found is not None
    assert found.max_offset == 25
    assert found.state(1 << 40)[:2] == (25, 0)


def sync(queues: Queues) -> None:
    queues.all.write(queues.make("T", 0), 0, units(0, 25))
    queues.all.sync()


def extended(queues: ConsumeQueues, first: int, count: int) -> ConsumeQueue:
    queue = queues.make("T", 2)
    messages = [(number * 100, 100, ExtensionUnit(number, START_MS, b"map")) for number in range(first, first + count)]
    queues.write_extended(queue, first, messages)
    queues.write_held()
    return queue


def write_extension(queues: Queues) -> None:
    queue = extended(queues.all, 0, 12)
    assert queue.extension.unit(0) == ExtensionUnit(0, START_MS, b"map")


def read_extension_now(queues: Queues) -> None:
    extension = extended(queues.all, 0, 12).extension
    data = queues.undisturbed(lambda: extension.read(0, 40))
    assert extension.read_now(0, 40) == data != b""


def erase_extension(queues: Queues) -> None:
    """Erase what lies after the last address of the queue."""
    queue = extended(queues.all, 0, 3)
    queue.extension.hold([ExtensionUnit(9, START_MS, b"lost")], queue)
    queue.extension.write_held()
    found = extended(queues.again(), 3, 1)
    assert found.extension.unit(3 * ExtensionUnit(0, START_MS, b"map").size) == ExtensionUnit(3, START_MS, b"map")


READ, WRITE, MADE = {"pread"}, {"pwrite"}, {"truncate"}
QUEUES: list[tuple[Callable[[Queues], None], set[str]]] = [
    (write, READ | WRITE | MADE),
    (write_above_zero, READ | WRITE | MADE),
    (write_held, READ | WRITE | MADE),
    (correct, READ | WRITE | MADE),
    (read_now, WRITE | MADE | {"pread_now"}),
    (read_a_stored_unit, READ | WRITE | MADE),
    (cut, READ | WRITE | MADE | {"data_ranges"}),
    (empty_the_first_file, READ | WRITE | MADE),
    (begin, WRITE | MADE),
    (load, READ | WRITE | MADE | {"data_ranges", "size"}),
    (sync, WRITE | MADE | {"fdatasync"}),
    (write_extension, READ | WRITE | MADE),
    (read_extension_now, WRITE | MADE | {"pread_now"}),
    (erase_extension, READ | WRITE | MADE | {"data_ranges", "size"}),
]


@pytest.mark.parametrize(("work", "calls"), QUEUES, ids=[work.__name__ for work, _ in QUEUES])
def test_calls_to_consume_queues_arrive(
    disk: LosingFiles, tmp_path: Path, work: Callable[[Queues], None], calls: set[str]
) -> None:
    queues = Queues(disk, tmp_path)
    work(queues)
    check(disk, calls)
    disk.losses.clear()
    queues.all.close()


def test_what_was_opened_while_it_was_deleted_is_not_kept(tmp_path: Path) -> None:
    """By a reader who was about to open it: it would take its room on the disk until it is the oldest."""
    disk = Disk()
    queues = ConsumeQueues(disk, StorePaths(tmp_path), SETTINGS)
    queue = queues.make("T", 0)
    queue.write_units(0, units(0, 25))
    queues._shared.open_files.clear()
    queue.min_offset = 10
    taken: list[Path] = []
    disk.on_open = lambda _: taken.extend(queue.take_expired())
    assert queue.unit(3) == (300, 100, 3)
    assert taken == [queue.path(0)]
    assert disk.open_fds == {}


# --- the commit log ------------------------------------------------------------------------------------------------


def logged(disk: LosingFiles, root: Path) -> CommitLog:
    """Four messages in the first file; all files are left out, as expired, in the middle of each call."""
    store = opened(root)
    for number in range(4):
        put(store, b"%d" % number)
    store.close()
    log = CommitLog(disk, StorePaths(root), LOG_FILE_BYTES, StoreFigures(Registry()))
    log.files.load()
    log.visible_end = log.checked_from = LOG_FILE_BYTES
    disk.losses.append(partial(setattr, log.files, "list", []))
    return log


LOG: list[tuple[str, Callable[[CommitLog], object], set[str]]] = [
    ("record", lambda log: log.record_at(0), {"pread"}),
    ("message", lambda log: log.message_at(0), {"pread"}),
    ("store time", lambda log: log.stored_at_ms(0), {"pread"}),
    ("sync", lambda log: log.sync_range(0, LOG_FILE_BYTES), {"fdatasync"}),
]


@pytest.mark.parametrize(("work", "calls"), [case[1:] for case in LOG], ids=[case[0] for case in LOG])
def test_calls_to_the_commit_log_arrive(
    disk: LosingFiles, tmp_path: Path, work: Callable[[CommitLog], object], calls: set[str]
) -> None:
    work(logged(disk, tmp_path))
    check(disk, calls)


FILE: list[tuple[Callable[[MappedFile], object], set[str]]] = [
    (lambda file: file.write(0, [b"one"]), {"pwritev"}),
    (lambda file: file.read(0, 10), {"pread"}),
    (lambda file: file.read_now(0, 10), {"pread_now"}),
    (lambda file: file.read_ahead(0, 10), {"read_ahead"}),
    (lambda file: file.prepare(0), {"pwrite"}),
    (lambda file: file.sync(), {"fdatasync"}),
    (lambda file: file.erase(0), {"data_ranges", "pwrite", "fdatasync"}),
    (lambda file: file.data_end(0), {"data_ranges", "pread"}),
]


@pytest.mark.parametrize(("work", "calls"), FILE)
def test_calls_to_a_log_file_arrive(
    disk: LosingFiles, tmp_path: Path, work: Callable[[MappedFile], object], calls: set[str]
) -> None:
    file = MappedFile(disk, tmp_path / f"{0:020d}", 0, LOG_FILE_BYTES)
    file.write(0, [b"there"])
    disk.losses.append(partial(setattr, file, "_file", None))
    work(file)
    check(disk, calls)


# --- the key index -------------------------------------------------------------------------------------------------


def indexed(disk: LosingFiles, path: Path) -> IndexFile:
    """Three entries of one slot, on disk; the descriptor is let go in the middle of each call."""
    file = IndexFile(disk, path, SHAPE)
    file.make()
    file.add_rows(rows((7, 100, START_MS), (7, 200, START_MS), (7, 300, START_MS)))
    IndexSnapshot(file).write(nullcontext())
    disk.losses.append(partial(setattr, file, "_open", None))
    return file


def flush(file: IndexFile) -> None:
    file.add_rows(rows((8, 400, START_MS)))
    IndexSnapshot(file).write(nullcontext())


def roll_back(file: IndexFile) -> None:
    file.roll_back(200, START_MS)
    file.load_slots()
    file.save_roll_back()


def find(file: IndexFile) -> None:
    other = IndexFile(file.files, file.path, SHAPE)
    other.take(file.head())
    assert [found[0] for found in other.find(7, nullcontext()) if found is not None] == [300, 200, 100]


def head(file: IndexFile) -> None:
    found = read_head(file.files, file.path, SHAPE)
    assert found is not None
    assert found.end_offset == 300


INDEX: list[tuple[Callable[[IndexFile], None], set[str]]] = [
    (flush, {"pwrite", "fdatasync"}),
    (roll_back, {"pread", "data_ranges", "pwrite", "fdatasync"}),
    (find, {"pread"}),
    (head, {"pread", "size"}),
]


@pytest.mark.parametrize(("work", "calls"), INDEX, ids=[work.__name__ for work, _ in INDEX])
def test_calls_to_an_index_file_arrive(
    disk: LosingFiles, tmp_path: Path, work: Callable[[IndexFile], None], calls: set[str]
) -> None:
    work(indexed(disk, tmp_path / "20260101000000000"))
    check(disk, calls)
