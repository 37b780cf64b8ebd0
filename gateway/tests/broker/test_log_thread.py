"""The commit log's thread: work in order, outcomes on the reactor's side, failures handed over whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import current_thread
from typing import Any, cast
from weakref import ref

import pytest
from twisted.internet.interfaces import IReactorFromThreads

from gateway.broker.log_thread import LogThread

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
    assert running.seen == [error, "written out", "done", "written out"]


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
