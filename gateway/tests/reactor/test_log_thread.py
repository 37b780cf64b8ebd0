"""The commit log's thread: work in order, outcomes on the reactor's side, failures handed over whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, current_thread
from typing import Any, cast
from weakref import ref

import pytest
from twisted.internet.interfaces import IReactorFromThreads

from gateway.in_thread import Failed
from gateway.reactor.log_thread import QUICK_S, LogThread

LONGEST_WAIT_S = 10


class Calls:
    """The reactor's side: calls from threads, carried out when the test asks for the next one."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = SimpleQueue()

    def callFromThread(self, function: Callable[..., object], *args: Any) -> None:  # noqa: N802 (Twisted's name)
        self._calls.put((function, args))

    def next(self) -> None:
        function, args = self._calls.get(timeout=LONGEST_WAIT_S)
        function(*args)

    def empty(self) -> bool:
        return self._calls.empty()


class Running:
    """A started thread and what it reported."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.seen: list[object] = []
        self.thread = LogThread(cast(IReactorFromThreads, self.calls), self._carry_out)
        self.thread.start()

    def _carry_out(self, outcome: Callable[[Any], None], value: object) -> None:
        outcome(value)
        self.seen.append("written out")


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.thread.stop()


def test_work_runs_in_order_in_one_other_thread_and_answers_are_written_after_each(running: Running) -> None:
    names: list[str] = []

    def work(number: int) -> Callable[[], int]:
        def run() -> int:
            names.append(current_thread().name)
            return number

        return run

    for number in range(3):
        running.thread.submit(work(number), running.seen.append)
    for _ in range(3):
        running.calls.next()
    assert running.seen == [0, "written out", 1, "written out", 2, "written out"]
    assert names == ["commit-log"] * 3


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SystemExit(1)])
def test_a_failure_is_reported_and_the_next_work_runs(running: Running, error: BaseException) -> None:
    def fail() -> None:
        raise error

    running.thread.submit(fail, running.seen.append)
    running.thread.submit(lambda: "done", running.seen.append)
    running.calls.next()
    running.calls.next()
    failed, *rest = running.seen
    assert isinstance(failed, Failed)
    assert [failed.error, *rest] == [error, "written out", "done", "written out"]


class Batch:
    """Something large."""

    def sync(self) -> None:
        """Done."""


def test_nothing_of_what_is_done_is_kept_until_there_is_something_else_to_do(running: Running) -> None:
    batch = Batch()
    running.thread.submit(batch.sync, running.seen.append)
    gone = ref(batch)
    del batch
    running.calls.next()
    assert gone() is None


def test_stopping_ends_after_what_is_queued() -> None:
    running = Running()
    done: list[int] = []
    for number in range(5):
        running.thread.submit(lambda number=number: done.append(number), running.seen.append)  # type: ignore[misc]
    running.thread.stop()
    assert done == [0, 1, 2, 3, 4]


def test_the_reactor_is_told_that_an_outcome_is_awaited_and_that_it_is_there() -> None:
    calls = Calls()
    told: list[object] = []
    thread = LogThread(cast(IReactorFromThreads, calls), lambda outcome, value: outcome(value), told.append)
    thread.start()
    thread.submit(lambda: told.append("work"), lambda _: told.append("outcome"))
    calls.next()
    thread.stop()
    assert told == [True, "work", False, "outcome"]


# -- syncs of a quick disk ----------------------------------------------------------------------------------------


class Waiting:
    """A log thread with a reactor that may wait, and a disk as quick as the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.takes_s = 0.0
        self.seen: list[object] = []
        self.calls = Calls()
        self.waits: list[tuple[Callable[[], object], Callable[[Any], None]]] = []
        self.thread = LogThread(
            cast(IReactorFromThreads, self.calls),
            lambda outcome, value: outcome(value),
            wait_for=lambda work, outcome: self.waits.append((work, outcome)),
            seconds=lambda: self.now_s,
        )
        self.thread.start()

    def work(self) -> str:
        self.now_s += self.takes_s
        return current_thread().name

    def sync(self, takes_s: float) -> object:
        """One sync, and the name of the thread that did it."""
        self.takes_s = takes_s
        self.thread.sync(self.work, self.seen.append)
        self.carry_out()
        return self.seen.pop()

    def carry_out(self) -> None:
        if self.waits:
            work, outcome = self.waits.pop()
            outcome(work())
        else:
            self.calls.next()

    def prove_quick(self) -> None:
        for _ in range(40):
            self.sync(QUICK_S / 10)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    waiting = Waiting()
    yield waiting
    waiting.thread.stop()


def test_the_reactor_waits_for_a_disk_that_has_proved_to_be_quick_only(waiting: Waiting) -> None:
    assert waiting.sync(QUICK_S / 10) == "commit-log"
    waiting.prove_quick()
    assert waiting.sync(QUICK_S / 10) == current_thread().name
    assert waiting.sync(100 * QUICK_S) == current_thread().name, "nobody could know"
    for _ in range(10):
        waiting.sync(100 * QUICK_S)
    assert waiting.sync(QUICK_S / 10) == "commit-log"
    waiting.prove_quick()
    assert waiting.sync(QUICK_S / 10) == current_thread().name


def test_other_work_is_never_waited_for(waiting: Waiting) -> None:
    waiting.prove_quick()
    waiting.thread.submit(waiting.work, waiting.seen.append)
    waiting.carry_out()
    assert waiting.seen == ["commit-log"]


def test_a_sync_comes_after_what_was_submitted_before_it(waiting: Waiting) -> None:
    waiting.prove_quick()
    waiting.thread.submit(lambda: "before", waiting.seen.append)
    waiting.thread.sync(lambda: "after", waiting.seen.append)
    assert waiting.waits == []
    waiting.carry_out()
    waiting.carry_out()
    assert waiting.seen == ["before", "after"]
    assert waiting.sync(0) == current_thread().name


def test_what_is_submitted_while_the_reactor_waits_comes_after_it(waiting: Waiting) -> None:
    waiting.prove_quick()
    order: list[str] = []
    begun = Event()

    def other() -> None:
        order.append("other")

    def sync() -> None:
        waiting.thread.submit(other, waiting.seen.append)
        assert not begun.wait(0.05)
        order.append("sync")

    waiting.thread.sync(sync, waiting.seen.append)
    waiting.carry_out()
    waiting.carry_out()
    assert order == ["sync", "other"]


def test_a_failed_sync_the_reactor_waited_for_is_reported(waiting: Waiting) -> None:
    waiting.prove_quick()
    error = OSError(5, "Input/output error")

    def fail() -> None:
        raise error

    waiting.thread.sync(fail, waiting.seen.append)
    assert waiting.waits
    waiting.carry_out()
    [failed] = waiting.seen
    assert isinstance(failed, Failed)
    assert failed.error is error
    assert waiting.sync(0) == current_thread().name
