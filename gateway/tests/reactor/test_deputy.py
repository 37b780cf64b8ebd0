"""A deputy runs the reactor while the reactor's thread waits for long, and gives it back."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, current_thread

import pytest

from gateway.reactor.deputy import Deputy

LONGEST_WAIT_S = 10


class Reactor:
    """A reactor whose turns are counted and take only the time of ``on_turn``; the test says when the deputy looks."""

    def __init__(self) -> None:
        self.looks: SimpleQueue[None] = SimpleQueue()
        self.rests: SimpleQueue[None] = SimpleQueue()
        self.turned = Event()
        self.turns: list[str] = []
        self.on_turn: Callable[[], bool] = lambda: True
        self.woken = 0
        self.on_wake: Callable[[], None] = lambda: None
        self.deputy = Deputy(self._turn, self._wake, self._rest)

    def _turn(self) -> bool:
        self.turns.append(current_thread().name)
        self.turned.set()
        return self.on_turn()

    def _wake(self) -> None:
        self.woken += 1
        self.on_wake()

    def _rest(self) -> None:
        self.rests.put(None)
        self.looks.get()

    def look(self) -> None:
        """The time between two looks is over."""
        self.rests.get(timeout=LONGEST_WAIT_S)
        self.looks.put(None)

    def wait_long(self) -> None:
        """Until the deputy runs the reactor."""
        self.deputy.wait_for(self.hang)

    def hang(self) -> None:
        self.turned.clear()
        self.rests.get(timeout=LONGEST_WAIT_S)
        assert not self.turned.is_set(), "it may have begun a moment before the first look"
        self.looks.put(None)
        assert self.turned.wait(LONGEST_WAIT_S)

    def wait_shortly(self) -> str:
        return self.deputy.wait_for(lambda: "short")


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


def test_the_value_of_the_work_is_returned_and_what_it_raises_is_raised(reactor: Reactor) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    assert reactor.wait_shortly() == "short"
    with pytest.raises(OSError, match="Input/output"):
        reactor.deputy.wait_for(fail)
    assert reactor.wait_shortly() == "short"
    assert reactor.turns == []
    assert reactor.woken == 0


def test_the_work_is_done_by_the_thread_that_waits(reactor: Reactor) -> None:
    assert reactor.deputy.wait_for(current_thread) is current_thread()


def test_a_long_wait_has_the_deputy_run_the_reactor(reactor: Reactor) -> None:
    reactor.wait_long()
    assert set(reactor.turns) == {"reactor-deputy"}


def test_two_waits_at_two_looks_are_not_a_long_one(reactor: Reactor) -> None:
    for _ in range(5):
        reactor.deputy.wait_for(reactor.look)
    assert reactor.turns == []


def test_the_reactor_is_given_back_before_the_wait_returns(reactor: Reactor) -> None:
    """Nothing of the deputy's turn is left undone when the thread of the reactor goes on."""
    ended = Event()
    may_end = Event()

    def long_turn() -> bool:
        assert may_end.wait(LONGEST_WAIT_S)
        ended.set()
        return True

    reactor.on_turn = long_turn
    reactor.on_wake = may_end.set
    reactor.wait_long()
    assert ended.is_set()
    assert reactor.woken == 1
    turns = len(reactor.turns)
    reactor.wait_shortly()
    assert len(reactor.turns) == turns


def test_a_stopped_reactor_is_not_run_any_longer(reactor: Reactor) -> None:
    reactor.on_turn = lambda: False

    def work() -> None:
        reactor.hang()
        reactor.rests.get(timeout=LONGEST_WAIT_S)

    reactor.deputy.wait_for(work)
    assert len(reactor.turns) == 1


def test_a_deputy_sleeps_while_there_are_no_waits_and_is_there_for_the_next(reactor: Reactor) -> None:
    for _ in range(3):
        reactor.wait_shortly()
        deadline_s = time.monotonic() + LONGEST_WAIT_S
        while not reactor.deputy._is_asleep:
            if not reactor.rests.empty():
                reactor.look()
            assert time.monotonic() < deadline_s
    reactor.wait_long()
    assert reactor.turns


def test_waits_that_begin_while_the_deputy_falls_asleep_are_looked_after() -> None:
    """Many times, with a deputy that hardly rests."""
    turned = Event()

    def turn() -> bool:
        turned.set()
        return True

    deputy = Deputy(turn, lambda: None, lambda: None)
    for number in range(1_000):
        turned.clear()
        if number % 3 == 0:
            assert deputy.wait_for(lambda: turned.wait(LONGEST_WAIT_S)), number
        else:
            deputy.wait_for(lambda: None)


def test_a_wait_that_saw_the_deputy_awake_a_moment_before_it_fell_asleep_is_looked_after() -> None:
    class Drowsy(Deputy):
        """Falls asleep just after a wait began that took it to be awake, and so did not ring."""

        asleep = False
        sleeps = 0

        @property
        def _is_asleep(self) -> bool:
            return self.asleep

        @_is_asleep.setter
        def _is_asleep(self, asleep: bool) -> None:
            self.asleep = asleep
            self.sleeps += asleep
            if asleep and self.sleeps == 2:  # the first is that of its making
                turned.clear()
                self._waits += 1
                asleep_once.set()

    turned = Event()
    asleep_once = Event()

    def turn() -> bool:
        turned.set()
        return False

    deputy = Drowsy(turn, lambda: None, lambda: None)
    deputy.wait_for(lambda: None)
    assert asleep_once.wait(LONGEST_WAIT_S)
    assert turned.wait(LONGEST_WAIT_S)
    deputy._waits += 1
