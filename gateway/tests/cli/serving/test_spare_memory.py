"""Free memory goes back to the system, but is not looked for again and again."""

from __future__ import annotations

import ctypes
import gc
import mmap
import subprocess
import sys

import pytest

from gateway.cli.serving import spare_memory
from gateway.cli.serving.spare_memory import CHANGED_SHARE, FIRST_AGAIN, GARBAGE_SHARE, SETTLED_BYTES, SpareMemory

IDLE = 30 << 20
CHANGED_BYTES = IDLE // CHANGED_SHARE
GARBAGE_BYTES = IDLE // GARBAGE_SHARE


class Process:
    """A process: its bytes, and what stays of them when memory is given back, garbage included."""

    def __init__(self) -> None:
        self.bytes = self.needed = IDLE
        self.garbage = 0
        self.collected = 0
        self.are_few = True
        self.spare = SpareMemory(lambda: self.bytes, self._give_back, self._collect)

    def _give_back(self) -> None:
        self.bytes = self.needed + self.garbage

    def _collect(self) -> bool:
        self.collected += 1
        if self.are_few:
            self.garbage = 0
        return self.are_few

    def looks(self, *sizes: int) -> list[bool]:
        looks = []
        for self.bytes in sizes:
            looks.append(self.spare.look())
        return looks


def test_memory_is_given_back_when_the_process_has_grown_and_grows_no_more() -> None:
    process = Process()
    grown = IDLE + 2 * SETTLED_BYTES
    assert process.looks(grown, grown) == [False, True]
    assert process.bytes == IDLE
    assert process.looks(IDLE, IDLE) == [False, False]


def test_nothing_is_looked_for_while_it_grows_and_seldom_when_it_has_grown_a_little() -> None:
    process = Process()
    assert not any(process.looks(*(IDLE + number * 2 * SETTLED_BYTES for number in range(100))))
    process = Process()
    assert process.looks(*[IDLE + CHANGED_BYTES - 1] * FIRST_AGAIN).count(True) == 1
    assert process.looks(*[IDLE + CHANGED_BYTES - 1] * FIRST_AGAIN).count(True) == 0


def test_after_many_rounds_it_is_within_a_tenth_of_what_it_was() -> None:
    process = Process()
    for round_bytes in (IDLE // 8, IDLE // 15, CHANGED_BYTES - 1, 10 * IDLE) * 10:
        process.looks(IDLE + round_bytes, IDLE + round_bytes)
        after = process.bytes
        process.looks(after, after, after)
        assert process.bytes < IDLE * 1.1


def test_garbage_is_looked_for_when_the_process_stays_larger_however_slowly_it_grew() -> None:
    process = Process()
    grown_by = []
    while not process.collected:
        process.garbage += CHANGED_BYTES
        grown_by.append(process.garbage)
        process.looks(IDLE + process.garbage)
    assert GARBAGE_BYTES <= grown_by[-1] < GARBAGE_BYTES + 3 * CHANGED_BYTES
    assert process.bytes == IDLE


def test_garbage_of_a_peak_with_too_many_objects_is_looked_for_after_it() -> None:
    process = Process()
    process.needed, process.garbage = 4 * IDLE, IDLE
    process.are_few = False
    process.looks(*[5 * IDLE] * 2)
    process.needed, process.are_few = IDLE, True
    process.looks(*[2 * IDLE] * 2)
    assert process.bytes == IDLE


def test_garbage_is_not_looked_for_when_what_it_needed_is_free_again() -> None:
    process = Process()
    for _ in range(20):
        process.looks(*[IDLE + 2 * GARBAGE_BYTES] * 2)
        process.looks(IDLE, IDLE)
    assert process.collected == 0


def test_what_is_needed_is_not_looked_through_again_and_again() -> None:
    process = Process()
    process.needed = IDLE + 10 * CHANGED_BYTES
    assert process.looks(*[process.needed] * FIRST_AGAIN).count(True) == 1
    assert process.looks(*[process.needed] * 1_000).count(True) < 10


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


LARGE_READS = """
import ctypes, sys, threading
from gateway.cli.serving.spare_memory import own_bytes, share_one_heap, spare_memory

if sys.argv[1] == "shared":
    share_one_heap()
trim = ctypes.CDLL(None).malloc_trim
both = threading.Barrier(THREADS)

def read():
    for size in (PART, 1 << 22, PART):  # after the second the C library keeps as much at the end of each heap
        both.wait()
        parts = [bytes(size) for _ in range((6 << 20) // size)]
        both.wait()
        parts.clear()
    both.wait()

trim(0)
before = own_bytes()
threads = [threading.Thread(target=read) for _ in range(THREADS)]
for each in threads:
    each.start()
for each in threads:
    each.join()
trim(0)
print(own_bytes() - before)
""".replace("THREADS", "4").replace("PART", "100_000")
"""Prints what stays with a process of whose threads each had 6 MB at once, in parts."""


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_what_threads_had_goes_back_as_well() -> None:
    ended = subprocess.run([sys.executable, "-c", LARGE_READS, "shared"], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 4 << 20


def test_what_is_freed_late_is_looked_for_again_but_less_and_less_often() -> None:
    process = Process()
    high = IDLE + 4 * CHANGED_BYTES
    process.needed = high
    assert process.looks(high, high).count(True) == 1
    process.needed = IDLE  # which shows in no size
    looks = process.looks(*[high] * FIRST_AGAIN)
    assert looks.count(True) == 1
    assert process.bytes == IDLE
    assert process.looks(*[IDLE] * 1_000).count(True) < 10


KEPT_TUPLES = """
import gc
from gateway.cli.serving.spare_memory import own_bytes, spare_memory

gc.disable()  # as good as in a server
spare = spare_memory()
before = own_bytes()
made = [(number, number, number) for number in range(500_000)]
for number in range(0, len(made), 250):
    made[number] = None  # those that Python keeps come from everywhere
del made, number
spare.look(), spare.look()
print(own_bytes() - before)
"""
"""Prints what stays with a process that had 50 MB of tuples."""


@pytest.mark.parametrize("most", [spare_memory.MOST_LOOKED_AT, -(10**9)])
@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_room_around_freed_tuples_goes_back_however_many_objects_there_are(most: int) -> None:
    program = f"from gateway.cli.serving import spare_memory\nspare_memory.MOST_LOOKED_AT = {most}\n{KEPT_TUPLES}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < 8 << 20


@pytest.mark.parametrize(("more", "are_few"), [(0, True), (2 * spare_memory.MOST_LOOKED_AT, False)])
def test_all_objects_are_looked_at_while_they_are_few(
    monkeypatch: pytest.MonkeyPatch, more: int, are_few: bool
) -> None:
    steps: list[object] = []
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda name=name: steps.append(name))
    monkeypatch.setattr(gc, "collect", steps.append)
    assert spare_memory.collect(sys.getallocatedblocks() - more) is are_few
    assert steps == ([2] if are_few else [1, "freeze", 2, "unfreeze"])


def test_where_the_system_does_not_tell_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_memory, "SIZES", spare_memory.SIZES / "missing")
    assert spare_memory.spare_memory() is None


def test_where_it_does_memory_is_looked_at() -> None:
    spare = spare_memory.spare_memory()
    if spare is None:
        pytest.skip("another C library")
    assert spare.look() is False
