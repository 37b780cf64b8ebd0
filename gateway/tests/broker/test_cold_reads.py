"""A bounded number of reads at a time, a bounded number that wait, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.broker.cold_reads import ColdReads
from gateway.errors import RequestRefused
from gateway.in_thread import in_this_thread
from wire.codes import ResponseCode


class Threads:
    """Takes work and does the oldest of it when told to."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def __call__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.work.append((work, done))

    def end_one(self) -> None:
        work, done = self.work.pop(0)
        in_this_thread(work, done)


def test_reads_beyond_the_threads_wait_and_are_done_in_order() -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=2, limit=3)
    seen: list[int] = []
    for number in range(5):
        reads.read(lambda number=number: number, seen.append, "c")  # type: ignore[misc]
    assert (len(threads.work), reads.count) == (2, 5)
    with pytest.raises(RequestRefused) as refused:
        reads.read(lambda: 5, seen.append, "c")
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    threads.end_one()
    assert len(threads.work) == 2
    reads.read(lambda: 6, seen.append, "c")
    while threads.work:
        threads.end_one()
    assert (seen, reads.count) == ([0, 1, 2, 3, 4, 6], 0)


def test_who_reads_piece_after_piece_does_not_pass_others_between_two_pieces() -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=1, limit=100)
    seen: list[str] = []

    def long(_: object = None) -> None:
        seen.append("long")
        reads.read(lambda: 0, long, "tools", is_long=True)

    long()
    for holder in ("tools", "another"):
        reads.read(lambda: "short", seen.append, holder, is_long=True)
    for _ in range(4):
        threads.end_one()
    assert seen.count("short") == 2


def test_an_outcome_that_cannot_be_used_does_not_hold_up_the_others() -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=1, limit=3)
    seen: list[object] = []

    def fails(_: object) -> None:
        raise ValueError("no use for it")

    reads.read(lambda: 1, fails)
    reads.read(lambda: 2, seen.append)
    with pytest.raises(ValueError, match="no use"):
        threads.end_one()
    threads.end_one()
    assert seen == [2]


def test_a_coroutine_gets_the_value_or_the_error() -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=1, limit=3)
    seen: list[object] = []

    async def ask(work: Callable[[], object]) -> None:
        try:
            seen.append(await reads.result(work))
        except OSError as error:
            seen.append(error.errno)

    def fails() -> object:
        raise OSError(5, "Input/output error")

    for work in (lambda: "value", fails):
        coroutine = ask(work)
        waiting = coroutine.send(None)
        threads.end_one()
        assert waiting is not None
        with pytest.raises(StopIteration):
            coroutine.send(None)
    assert seen == ["value", 5]


def test_a_greedy_connection_is_refused_while_an_honest_one_gets_through() -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=2, limit=1_000)
    seen: list[str] = []

    def ask(holder: str) -> None:
        reads.read(lambda: holder, seen.append, holder)

    for _ in range(752):
        ask("greedy")
    with pytest.raises(RequestRefused, match="750, of all: 750, the limit is 1000") as refused:
        ask("greedy")
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    ask("honest")
    reads.read(lambda: "broker", seen.append)
    for _ in range(6):
        threads.end_one()
    assert seen.count("honest") == seen.count("broker") == 1, "connections take turns"
    while threads.work:
        threads.end_one()
    assert len(seen) == 754


def test_the_broker_itself_is_never_refused() -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=1, limit=1)
    for _ in range(10):
        reads.read(lambda: None, lambda _: None)
    assert reads.count == 10


def test_long_searches_get_half_of_the_threads_and_their_turn() -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=4, limit=1_000)
    seen: list[str] = []
    for _ in range(20):
        reads.read(lambda: "long", seen.append, "greedy", is_long=True)
    assert len(threads.work) == 2
    for _ in range(20):
        reads.read(lambda: "short", seen.append, "honest")
    assert len(threads.work) == 4
    for _ in range(10):
        threads.end_one()
    assert seen.count("short") >= 4
    assert seen.count("long") >= 4
    while threads.work:
        threads.end_one()
    assert (len(seen), reads.count) == (40, 0)


@pytest.mark.parametrize("long_first", [True, False])
def test_with_one_thread_long_and_short_reads_alternate(long_first: bool) -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=1, limit=1_000)
    seen: list[bool] = []
    for is_long in (long_first, not long_first):
        for _ in range(5):
            reads.read(lambda is_long=is_long: is_long, seen.append, "c", is_long=is_long)  # type: ignore[misc]
    while threads.work:
        threads.end_one()
    assert seen == [long_first, not long_first] * 5
