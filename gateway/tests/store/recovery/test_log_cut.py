"""The cut of a log: what it keeps, what it refuses, and what a start finds after it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from gateway.clock import END_OF_TIME_MS
from gateway.settings.store import StoreSettings
from gateway.store.disk.files import FileLayer
from gateway.store.errors import StoreError, StoreInUse
from gateway.store.recovery.log_cut import LogCut, cut_log
from gateway.tests.store.recovering import MODES, expected, fill
from gateway.tests.store.small_store import (
    LOG_FILE_BYTES,
    SMALL,
    Disk,
    bodies,
    content,
    killed,
    message,
    opened,
    put,
    small_store,
)

COUNT = 100
"""Messages of a directory: more than two files of the log."""


@MODES
@pytest.mark.parametrize("kept", [0, 1, 30, 44, 45, 46, 99])
def test_after_a_cut_the_log_goes_on_at_the_place(tmp_path: Path, settings: StoreSettings, kept: int) -> None:
    ends = fill(tmp_path / "s", COUNT, settings)
    place = ends[kept - 1] if kept else 0
    if place % LOG_FILE_BYTES and LOG_FILE_BYTES - place % LOG_FILE_BYTES < ends[0]:
        place += LOG_FILE_BYTES - place % LOG_FILE_BYTES
    log = b"".join(path.read_bytes() for path in sorted((tmp_path / "s" / "commitlog").iterdir()))

    found = cut_log(tmp_path / "s", place, settings)

    assert found == LogCut(place, ends[-1], found.copy)
    assert found.copy is not None
    assert found.copy.name == f"{place:020d}-{ends[-1]:020d}.cut"
    assert found.copy.read_bytes() == log[place : ends[-1]]
    store = small_store(tmp_path / "s", settings)
    report = store.open()
    assert (report.end_offset, report.durable_bytes_lost, report.torn_bytes) == (place, 0, 0)
    assert bodies(store) == expected(kept)
    result = put(store, b"next")
    assert (result.commit_log_offset, result.queue_offset) == (place, kept)
    store.close()
    store = opened(tmp_path / "s", settings)
    assert bodies(store) == [*expected(kept), b"next"]
    store.close()


def test_keys_of_what_was_cut_are_found_no_more(tmp_path: Path) -> None:
    store = opened(tmp_path)
    places = [put(store, message(b"%d" % number, KEYS=f"k{number}")).commit_log_offset for number in range(150)]
    store.close()
    cut_log(tmp_path, places[40], SMALL)
    store = opened(tmp_path)
    put(store, message(b"new", KEYS="k40"))

    def found(key: str) -> list[bytes]:
        return [stored.body for stored in store.query_by_key("T", key, 64, 0, END_OF_TIME_MS)]

    assert [found(f"k{number}") for number in range(150)] == [
        *([b"%d" % number] for number in range(40)),
        [b"new"],
        *([] for _ in range(109)),
    ]
    store.close()


def test_a_queue_without_messages_after_a_cut_begins_at_the_offset_it_had(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, b"first")
    place = put(store, message(b"other", topic="U")).commit_log_offset
    store.close()
    cut_log(tmp_path, place, SMALL)
    store = opened(tmp_path)
    assert store.max_offset("U", 0) == 0
    assert put(store, message(b"again", topic="U")).queue_offset == 0
    store = opened(killed(tmp_path))
    assert (bodies(store), bodies(store, "U")) == ([b"first"], [b"again"])


@pytest.mark.parametrize("place", [1, -1, 100_000_000])
def test_a_place_within_a_record_or_outside_is_refused(tmp_path: Path, place: int) -> None:
    fill(tmp_path / "s", 10)
    before = content(tmp_path / "s")
    with pytest.raises(StoreError, match=f"cannot be cut at {place}: no record starts there; the log begins at 0"):
        cut_log(tmp_path / "s", place, SMALL)
    after = content(tmp_path / "s")
    assert {name for name in after if after[name] != before.get(name)} <= {"lock"}


def test_the_end_is_no_place_to_cut_anything(tmp_path: Path) -> None:
    ends = fill(tmp_path / "s", 10)
    assert cut_log(tmp_path / "s", ends[-1], SMALL) == LogCut(ends[-1], ends[-1], None)
    assert small_store(tmp_path / "s").open().clean


def test_a_record_in_a_body_is_no_place_to_cut(tmp_path: Path) -> None:
    store = opened(tmp_path / "s")
    for number in range(4):
        put(store, b"%d" % number)
    place = store.max_commit_log_offset
    record = store.record_at(put(store, b"the record").commit_log_offset)
    assert record is not None
    store.close()
    head = len(store.record_at(0) or b"") - len(b"0T") - 3  # up to the body, of which a topic and three lengths follow
    store = opened(tmp_path / "other")
    put(store, b"x" * (place - head) + record)
    outer = store.record_at(0) or b""
    store.close()
    assert outer.index(record) == place
    with pytest.raises(StoreError, match="no record starts there"):
        cut_log(tmp_path / "other", place, SMALL)


def test_a_store_in_use_or_killed_is_not_cut(tmp_path: Path) -> None:
    ends = fill(tmp_path / "s", 10, close=False)
    with pytest.raises(StoreInUse):
        cut_log(tmp_path / "s", ends[3], SMALL)
    with pytest.raises(StoreError, match="was not closed properly"):
        cut_log(killed(tmp_path / "s"), ends[3], SMALL)


class Ending(FileLayer):
    """A disk of a process that is killed before one of its changes."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def _count(self) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1

    def pwrite(self, *arguments: object) -> None:
        self._count()
        super().pwrite(*arguments)  # type: ignore[arg-type]

    def truncate(self, *arguments: object) -> None:
        self._count()
        super().truncate(*arguments)  # type: ignore[arg-type]

    def unlink(self, path: Path) -> None:
        self._count()
        super().unlink(path)

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)


def test_a_cut_that_is_killed_anywhere_leaves_the_old_log_or_the_cut_one(tmp_path: Path) -> None:
    ends = fill(tmp_path / "s", COUNT)
    seen = []
    for changes in range(100):
        directory = killed(tmp_path / "s", changes)
        disk = Ending(changes)
        with suppress(KeyboardInterrupt):
            cut_log(directory, ends[9], SMALL, disk)
        store = opened(killed(directory))
        seen.append(len(bodies(store)))
        assert bodies(store) == expected(seen[-1])
        store.close()
        if disk.left:
            break
    assert set(seen) == {COUNT, 10}
    assert seen == sorted(seen, reverse=True)
    assert 8 < len(seen) < 100


def test_a_note_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    fill(tmp_path / "s", 3)
    (tmp_path / "s" / "gateway-cut").write_text("12 34\n")
    with pytest.raises(StoreError, match="gateway-cut cannot be read"):
        small_store(tmp_path / "s").open()


def test_an_error_of_the_disk_is_told_as_the_stores_others(tmp_path: Path) -> None:
    ends = fill(tmp_path / "s", 3)
    disk = Disk()
    disk.fail("write", "recovered")
    with pytest.raises(StoreError, match="Input/output error"):
        cut_log(tmp_path / "s", ends[0], SMALL, disk)
    store = opened(tmp_path / "s")
    assert bodies(store) == expected(3)
    store.close()
