"""A bounded number of reads at a time, a bounded number that wait, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.broker.cold_reads import ColdReads
from gateway.errors import RequestRefused
from wire.codes import ResponseCode


class Threads:
    """Takes work and does the oldest of it when told to."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def __call__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.work.append((work, done))

    def end_one(self) -> None:
        work, done = self.work.pop(0)
        try:
            value = work()
        except OSError as error:
            value = error
        done(value)


def test_reads_beyond_the_threads_wait_and_are_done_in_order() -> None:
    threads = Threads()
    reads = ColdReads(threads, threads=2, limit=3)
    seen: list[int] = []
    for number in range(5):
        reads.read(lambda number=number: number, seen.append)  # type: ignore[misc]
    assert (len(threads.work), reads.count) == (2, 5)
    with pytest.raises(RequestRefused) as refused:
        reads.read(lambda: 5, seen.append)
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    threads.end_one()
    assert len(threads.work) == 2
    reads.read(lambda: 6, seen.append)
    while threads.work:
        threads.end_one()
    assert (seen, reads.count) == ([0, 1, 2, 3, 4, 6], 0)


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
