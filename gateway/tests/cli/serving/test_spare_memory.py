"""Free memory goes back to the system, but is not looked for again and again."""

from __future__ import annotations

import mmap
import sys

import pytest

from gateway.cli.serving import spare_memory
from gateway.cli.serving.spare_memory import CHANGED_BYTES, SETTLED_BYTES, SpareMemory

IDLE = 30 << 20


class Process:
    """Its bytes, and what stays of them when memory is given back."""

    def __init__(self) -> None:
        self.bytes = self.needed = IDLE
        self.given_back = 0
        self.spare = SpareMemory(lambda: self.bytes, self._give_back)

    def _give_back(self) -> None:
        self.given_back += 1
        self.bytes = self.needed

    def looks(self, *sizes: int) -> list[bool]:
        looks = []
        for self.bytes in sizes:
            looks.append(self.spare.look())
        return looks


def test_memory_is_given_back_when_the_process_has_grown_and_grows_no_more() -> None:
    process = Process()
    grown = IDLE + CHANGED_BYTES
    assert process.looks(grown, grown) == [False, True]
    assert process.bytes == IDLE
    assert process.looks(IDLE, IDLE) == [False, False]


def test_nothing_is_looked_for_while_it_grows_or_has_grown_a_little() -> None:
    process = Process()
    assert not any(process.looks(*(IDLE + number * 2 * SETTLED_BYTES for number in range(100))))
    process = Process()
    assert not any(process.looks(*[IDLE + CHANGED_BYTES - 1] * 10))


def test_what_is_needed_is_not_looked_through_again() -> None:
    process = Process()
    process.needed = IDLE + 10 * CHANGED_BYTES
    assert process.looks(*[process.needed] * 100).count(True) == 1


def test_when_part_of_what_was_needed_is_free_the_rest_of_it_is_looked_for() -> None:
    process = Process()
    process.needed = high = IDLE + 10 * CHANGED_BYTES
    assert process.looks(high, high) == [False, True]
    process.needed = IDLE
    partly = IDLE + 5 * CHANGED_BYTES
    assert process.looks(partly, partly) == [False, True]
    assert process.bytes == IDLE


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_a_process_knows_its_own_bytes() -> None:
    # Pages straight from the system: what the C library kept of earlier tests is resident already.
    with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        before = spare_memory.own_bytes()
        held.write(b"x" * len(held))
        assert spare_memory.own_bytes() - before > 60 << 20


def test_where_the_system_does_not_tell_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_memory, "SIZES", spare_memory.SIZES / "missing")
    assert spare_memory.spare_memory() is None


def test_where_it_does_memory_is_looked_at() -> None:
    spare = spare_memory.spare_memory()
    if spare is None:
        pytest.skip("another C library")
    assert spare.look() is False
