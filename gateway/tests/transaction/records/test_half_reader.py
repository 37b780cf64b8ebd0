"""Records of half messages, from memory at once and from the disk in a thread, in their order either way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.in_thread import Failed, in_this_thread
from gateway.tests.transaction.world import World
from gateway.transaction.records.half_reader import Found, HalfReader


class Reading:
    """A reader whose thread is run by hand."""

    def __init__(self, directory: Path, count: int = 4) -> None:
        self.world = World(directory)
        self.halves = [self.world.send(f"k{number}") for number in range(count)]
        self.places = [(half.commit_log_offset, half.size) for half in self.halves]
        self.waiting: list[tuple[Callable[[], object], Callable[[Any], None]]] = []
        self.reader = HalfReader(self.world.log, lambda work, done: self.waiting.append((work, done)))
        self.found: list[list[Found]] = []

    def chill(self, *numbers: int) -> None:
        self.world.log.cold |= {self.places[number][0] for number in numbers}

    def run_thread(self) -> None:
        in_this_thread(*self.waiting.pop(0))

    def keys(self) -> list[str | None]:
        [found] = self.found
        return [getattr(half, "unique_key", None) for half in found]


def error_of(found: Found) -> BaseException:
    assert isinstance(found, Failed)
    return found.error


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    return Reading(tmp_path)


def test_what_is_in_memory_needs_no_thread(reading: Reading) -> None:
    reading.reader.read(reading.places, reading.found.append)
    assert reading.keys() == ["k0", "k1", "k2", "k3"]
    assert not reading.waiting


def test_what_is_on_disk_is_read_in_one_go_and_handed_over_in_order(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading.chill(0, 2)
    read: list[int] = []
    message_at = reading.world.log.message_at

    def noting(commit_log_offset: int, size: int | None = None) -> object:
        read.append(commit_log_offset)
        return message_at(commit_log_offset, size)

    monkeypatch.setattr(reading.world.log, "message_at", noting)
    backwards = reading.places[::-1]
    reading.reader.read(backwards, reading.found.append)
    in_memory, read[:] = len(read), []
    assert (in_memory, reading.found, reading.reader.is_busy, len(reading.waiting)) == (2, [], True, 1)
    reading.run_thread()
    assert reading.keys() == ["k3", "k2", "k1", "k0"]
    assert read == [backwards[3][0], backwards[1][0]], "the disk is asked in the order of the log"
    assert not reading.reader.is_busy


def test_what_is_gone_is_none_and_what_cannot_be_read_is_its_error(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    del reading.world.log.records[reading.places[1][0]]
    reading.chill(2)
    message_at = reading.world.log.message_at

    def failing(commit_log_offset: int, size: int | None = None) -> object:
        if commit_log_offset == reading.places[2][0]:
            raise OSError(5, "Input/output error")
        return message_at(commit_log_offset, size)

    monkeypatch.setattr(reading.world.log, "message_at", failing)
    reading.reader.read(reading.places, reading.found.append)
    reading.run_thread()
    [found] = reading.found
    assert (found[1], type(error_of(found[2]))) == (None, OSError)
    assert [reading.keys()[number] for number in (0, 3)] == ["k0", "k3"]


def test_a_thread_that_fails_as_a_whole_leaves_its_error_with_each(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no thread")

    reading.chill(0, 3)
    monkeypatch.setattr(reading.world.log, "message_at", broken)
    reading.world.log.cold.update(place for place, _ in reading.places)
    reading.reader.read(reading.places, reading.found.append)
    reading.run_thread()
    assert [type(error_of(half)) for half in reading.found[0]] == [RuntimeError] * 4
    assert not reading.reader.is_busy
