"""A file that follows a table, one write at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.in_thread import Failed, in_this_thread
from gateway.metadata.saved.json_file import JsonFile
from gateway.metadata.saved.write_behind import WriteBehind


class HeldThread:
    """An ``in_thread`` whose work waits until the test lets it run."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def __call__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))

    def run_one(self) -> None:
        work, done = self.waiting.pop(0)
        in_this_thread(work, done)


class Table:
    """A table with one number."""

    def __init__(self, path: Path) -> None:
        self.value = 0
        self.thread = HeldThread()
        self.path = path
        self.writer = WriteBehind(JsonFile(path), lambda: str(self.value).encode(), self.thread)

    def change(self, value: int, saved: Callable[[BaseException | None], None] | None = None) -> None:
        self.value = value
        self.writer.touch()
        self.writer.save(saved)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "table.json")


def test_a_change_is_written_in_the_thread(table: Table) -> None:
    table.change(1)
    assert not table.path.exists()
    table.thread.run_one()
    assert table.path.read_bytes() == b"1"
    assert not table.writer.dirty


def test_changes_during_a_write_share_the_next_one(table: Table) -> None:
    for value in range(1, 1000):
        table.change(value)
    table.thread.run_one()
    assert table.path.read_bytes() == b"1"
    table.thread.run_one()
    assert table.path.read_bytes() == b"999"
    assert table.thread.waiting == []


def test_each_change_is_reported_once_it_is_on_disk_and_not_before(table: Table) -> None:
    told: list[str] = []
    table.change(1, lambda _: told.append("first"))
    table.change(2, lambda _: told.append("second"))
    assert told == []
    table.thread.run_one()
    assert told == ["first"]
    table.thread.run_one()
    assert told == ["first", "second"]


def test_waiting_without_a_change_joins_the_write_under_way(table: Table) -> None:
    told: list[object] = []
    table.change(1)
    table.writer.save(told.append)
    assert told == []
    table.thread.run_one()
    assert told == [None]
    assert table.thread.waiting == []


def test_waiting_when_everything_is_written_is_over_at_once(table: Table) -> None:
    told: list[object] = []
    table.writer.save(told.append)
    assert told == [None]


def test_a_failed_write_is_reported_and_tried_again_with_the_next_save(table: Table) -> None:
    told: list[object] = []
    table.path.mkdir()
    table.change(1, told.append)
    table.thread.run_one()
    assert isinstance(told[0], OSError)
    assert table.writer.dirty
    table.path.rmdir()
    table.writer.save(told.append)
    table.thread.run_one()
    assert told[1] is None
    assert table.path.read_bytes() == b"1"


def test_a_late_thread_does_not_undo_the_write_at_the_end(table: Table) -> None:
    table.change(1)
    table.value = 2
    table.writer.touch()
    table.writer.save_now()
    assert table.path.read_bytes() == b"2"
    table.thread.run_one()
    assert table.path.read_bytes() == b"2"


def test_a_large_table_is_made_into_text_in_the_thread(tmp_path: Path) -> None:
    thread = HeldThread()
    made: list[str] = []

    def text() -> bytes:
        made.append("text")
        return b"large"

    writer = WriteBehind(JsonFile(tmp_path / "table.json"), lambda: text, thread)
    writer.touch()
    writer.save()
    assert made == []
    thread.run_one()
    assert (tmp_path / "table.json").read_bytes() == b"large"


def test_what_nobody_waits_for_is_not_written_for_one_who_owes_nothing(table: Table) -> None:
    told: list[object] = []
    table.writer.touch()
    table.writer.save_owed(told.append)
    assert (table.thread.waiting, told) == ([], [None])
    table.writer.owe()
    table.writer.save_owed(told.append)
    assert told == [None]
    table.writer.touch()  # meanwhile
    table.writer.save_owed(told.append)
    table.thread.run_one()
    assert (table.thread.waiting, told) == ([], [None, None, None])
    assert table.writer.dirty


def test_an_owed_change_that_could_not_be_written_is_still_owed(table: Table) -> None:
    told: list[object] = []
    table.writer.owe()
    table.writer.save_owed(told.append)
    _, done = table.thread.waiting.pop()
    done(Failed(OSError(28, "No space left on device")))
    table.writer.save_owed(told.append)
    table.thread.run_one()
    assert [type(failure) for failure in told] == [OSError, type(None)]
