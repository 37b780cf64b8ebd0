"""Functions run once everything that had arrived was read, and the reactor does not wait before them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.selectreactor import SelectReactor
from twisted.internet.task import Clock

from gateway.reactor.interface import QuickReactor
from gateway.reactor.loop import loop_on
from gateway.reactor.turn_end import TurnEnd
from gateway.remoting.answers.flush_group import FlushGroup


class Iterations(QuickReactor):
    """The part of a reactor that reads and waits; remembers for how long it was to wait."""

    def __init__(self) -> None:
        self.delays: list[float | None] = []
        self.on_read: Callable[[], None] = lambda: None

    def doIteration(self, delay: float | None) -> None:  # noqa: N802 (Twisted's name)
        self.delays.append(delay)
        self.on_read()


def test_what_a_read_asks_for_runs_when_all_is_read() -> None:
    reactor = Iterations()
    end = TurnEnd(reactor, FlushGroup(Clock()).carry_out)
    order: list[str] = []

    def reads() -> None:
        end.call(lambda: order.append("end"))
        order.append("read")

    reactor.on_read = reads
    reactor.doIteration(5)
    assert order == ["read", "read", "end", "end"]


def test_what_came_while_the_first_was_read_belongs_to_the_turn() -> None:
    reactor = Iterations()
    arriving, read = ["second", "first"], list[str]()
    end = TurnEnd(reactor, FlushGroup(Clock()).carry_out)

    def reads() -> None:
        if arriving:
            read.append(arriving.pop())
            end.call(lambda: read.append("end"))

    reactor.on_read = reads
    reactor.doIteration(None)
    assert read == ["first", "second", "end", "end"]
    assert reactor.delays == [None, 0]


def test_it_is_looked_once_when_there_is_nothing_to_end() -> None:
    reactor = Iterations()
    TurnEnd(reactor, FlushGroup(Clock()).carry_out)
    reactor.doIteration(5)
    assert reactor.delays == [5]


def test_the_reactor_does_not_wait_while_something_is_to_run() -> None:
    reactor = Iterations()
    end = TurnEnd(reactor, FlushGroup(Clock()).carry_out)
    end.call(lambda: end.call(lambda: None))
    reactor.doIteration(None)
    reactor.doIteration(None)
    reactor.doIteration(None)
    assert reactor.delays == [0, 0, 0, 0, None]


def test_a_function_that_fails_keeps_neither_the_others_nor_the_reactor(caplog: pytest.LogCaptureFixture) -> None:
    reactor = Iterations()
    end = TurnEnd(reactor, FlushGroup(Clock()).carry_out)
    ran: list[int] = []
    end.call(lambda: ran.append(1 // 0))
    end.call(lambda: ran.append(2))
    reactor.doIteration(0)
    assert ran == [2]
    assert "end of turn failed" in caplog.text


class Written:
    """A channel that says when it is written."""

    def __init__(self, order: list[str]) -> None:
        self._order = order

    def write_out(self) -> None:
        self._order.append("written")


def test_what_a_function_answers_is_written_before_the_next_one_runs() -> None:
    reactor, group = Iterations(), FlushGroup(Clock())
    end = TurnEnd(reactor, group.carry_out)
    order: list[str] = []
    end.call(lambda: group.mark(Written(order)))
    end.call(lambda: order.append("next"))
    reactor.doIteration(0)
    assert order == ["written", "next"]


def test_a_reactor_without_iterations_uses_its_timers() -> None:
    clock = Clock()
    ran: list[int] = []
    loop_on(clock, FlushGroup(clock).carry_out).at_end_of_turn(lambda: ran.append(1))
    assert ran == []
    clock.advance(0)
    assert ran == [1]


def test_what_a_timer_of_such_a_reactor_answers_is_written_at_once() -> None:
    clock = Clock()
    group = FlushGroup(clock)
    order: list[str] = []
    loop_on(clock, group.carry_out).at_end_of_turn(lambda: group.mark(Written(order)))
    clock.advance(0)
    assert order == ["written"]
    assert clock.getDelayedCalls() == []


def test_twisted_s_own_loop_runs_them() -> None:
    reactor = SelectReactor()
    end = TurnEnd(reactor, FlushGroup(Clock()).carry_out)
    left = [1, 2, 3]

    def step() -> None:
        left.pop()
        if left:
            end.call(step)
        else:
            reactor.callLater(0, reactor.stop)

    reactor.callWhenRunning(end.call, step)
    reactor.run(installSignalHandlers=False)
    assert left == []
