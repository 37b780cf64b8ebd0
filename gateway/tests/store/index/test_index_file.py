"""One index file: the age in an entry, and flushes while keys are added."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import RLock

import pytest

from gateway.store.disk.files import Buffer, FileLayer
from gateway.store.index.index_file import IndexFile, IndexSnapshot, read_head
from gateway.tests.store.small_store import START_MS
from wire.disk.index_file import ENTRY, IndexShape

_ROW = struct.Struct(">iqq")


def rows(*entries: tuple[int, int, int]) -> bytes:
    """Hash, commit log offset and store time of each, as ``IndexEntries`` keeps them."""
    return b"".join(_ROW.pack(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("begin_ms", "stored_at_ms", "seconds"),
    [
        (0, 5_000, 0),
        (-1, 5_000, 0),
        (1_000, 1_000, 0),
        (1_000, 1_999, 0),
        (1_000, 2_000, 1),
        (5_000, 1_000, 0),
        (1, 1 + (2**31 - 1) * 1000, 2**31 - 1),
        (1, 1 + 2**31 * 1000, 2**31 - 1),
    ],
)
def test_the_age_in_an_entry_is_cut_as_upstream_cuts_it(
    tmp_path: Path, begin_ms: int, stored_at_ms: int, seconds: int
) -> None:
    file = IndexFile(FileLayer(), tmp_path / "20260101000000000", IndexShape(10, 20))
    file.make()
    file.add_rows(rows((1, 0, begin_ms)))
    file.add_rows(rows((2, 10, stored_at_ms), (2, 20, max(stored_at_ms, 7))))
    assert ENTRY.unpack_from(file.pending, ENTRY.size)[2] == seconds
    assert [found[1] for found in file.find(2, RLock()) if found is not None][-1] == seconds


class BusyFiles(FileLayer):
    """Files whose sync takes so long that keys are added meanwhile; how large the writes are."""

    def __init__(self) -> None:
        self.meanwhile: list[Callable[[], None]] = []
        self.written: list[int] = []

    def fdatasync(self, fd: int) -> None:
        if self.meanwhile:
            self.meanwhile.pop()()
        super().fdatasync(fd)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        self.written.append(len(data))
        super().pwrite(fd, data, offset)


def add_keys(file: IndexFile, numbers: Iterable[int]) -> None:
    file.add_rows(rows(*((number * 37, number * 37, START_MS) for number in numbers)))


def offsets_of(file: IndexFile, number: int) -> list[int]:
    return [found[0] for found in file.find(number * 37, RLock()) if found is not None]


def test_a_flush_writes_what_was_there_when_it_began_and_the_next_one_the_rest(tmp_path: Path) -> None:
    files, shape, path = BusyFiles(), IndexShape(5_000, 20_000), tmp_path / "20260101000000000"
    file = IndexFile(files, path, shape)
    file.make()
    add_keys(file, range(1_000))
    files.meanwhile.append(lambda: add_keys(file, range(500, 1_500)))  # changes pages that are not written yet
    snapshot = IndexSnapshot(file)
    snapshot.write(RLock())
    file.written(snapshot)
    cut = read_head(FileLayer(), path, shape)
    assert cut is not None
    assert cut.next_entry == 1_001
    assert [offsets_of(cut, number) for number in range(1_000)] == [[number * 37] for number in range(1_000)]
    assert offsets_of(cut, 1_499) == []
    assert len(offsets_of(file, 700)) == 2
    snapshot = IndexSnapshot(file)
    snapshot.write(RLock())
    file.written(snapshot)
    whole = read_head(FileLayer(), path, shape)
    assert whole is not None
    assert [len(offsets_of(whole, number)) for number in range(1_500)] == [1] * 500 + [2] * 500 + [1] * 500
    assert file.pending_count == 0


def test_pages_of_a_flush_that_failed_are_written_by_the_next_one(tmp_path: Path) -> None:
    shape, path = IndexShape(5_000, 20_000), tmp_path / "20260101000000000"
    file = IndexFile(FileLayer(), path, shape)
    file.make()
    add_keys(file, range(1_000))
    snapshot = IndexSnapshot(file)
    add_keys(file, range(500, 1_500))
    file.thaw_pages(snapshot.pages)
    IndexSnapshot(file).write(RLock())
    whole = read_head(FileLayer(), path, shape)
    assert whole is not None
    assert [len(offsets_of(whole, number)) for number in range(1_500)] == [1] * 500 + [2] * 500 + [1] * 500


def test_nobody_waits_for_more_than_a_slice_of_a_flush(tmp_path: Path) -> None:
    files = BusyFiles()
    file = IndexFile(files, tmp_path / "20260101000000000", IndexShape(200 * 1024, 50_000))
    file.make()
    add_keys(file, range(0, 200 * 1024, 7))
    snapshot = IndexSnapshot(file)
    assert len(snapshot.pages) == 200
    snapshot.write(RLock())
    assert max(files.written) <= 64 * 4096
