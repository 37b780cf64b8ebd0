"""The reactor of the servers, with sockets of this machine."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.protocol import ClientFactory, Protocol, ServerFactory, connectionDone
from twisted.python import log
from twisted.python.failure import Failure

epoll = pytest.importorskip("select").epoll  # Linux only

from gateway.reactor import deputy, quick_epoll  # noqa: E402
from gateway.reactor.deputy import Deputy  # noqa: E402
from gateway.reactor.quick_epoll import MOST_ACCEPTS, QuickEpollReactor  # noqa: E402

DEADLINE_S = 10.0


class Recorder(Protocol):
    """Keeps what comes, and fails when it is asked to."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        if data == b"fail":
            raise RuntimeError("as asked")
        self.seen.append(data.decode())

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        self.seen.append(type(reason.value).__name__)


class Listening:
    """A reactor that nobody runs, with a port."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.reactor = QuickEpollReactor()
        factory = ServerFactory.forProtocol(lambda: Recorder(self.seen))
        self.port: Any = self.reactor.listenTCP(0, factory, interface="127.0.0.1")

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port.getHost().port))

    def run_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, self.seen
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0.05)

    def waited_for(self, work: Callable[[], object]) -> list[object]:
        """The outcome of a turn that begins with work and does not sleep after it."""
        outcomes: list[object] = []

        def ended(outcome: object) -> None:
            outcomes.append(outcome)
            self.reactor.wakeUp()

        self.reactor.wait_for(work, ended)
        self.reactor._turn()
        return outcomes


def give_back(reactor: Any) -> None:
    """Close what a reactor has open that nobody runs any more."""
    reactor.runUntilCurrent()  # a port closes in a turn
    for selectable in [*reactor.removeAll(), reactor.waker]:
        selectable.connectionLost(connectionDone)
    os.close(reactor._bell)
    reactor._calls_only.close()
    reactor._poller.close()


@pytest.fixture
def listening() -> Iterator[Listening]:
    made = Listening()
    yield made
    made.port.stopListening()
    give_back(made.reactor)


def test_bytes_reach_their_protocol(listening: Listening) -> None:
    with listening.connected() as one, listening.connected() as other:
        one.sendall(b"1")
        listening.run_until(lambda: listening.seen == ["1"])
        other.sendall(b"2")
        listening.run_until(lambda: listening.seen == ["1", "2"])


def test_a_connection_made_from_here_is_read_as_quickly(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    factory: Any = ClientFactory.forProtocol(lambda: Recorder(made))
    with socket.create_server(("127.0.0.1", 0)) as other:
        connector: Any = listening.reactor.connectTCP("127.0.0.1", other.getsockname()[1], factory)
        listening.run_until(lambda: connector.state == "connected")
        peer, _ = other.accept()
    with peer:
        peer.sendall(b"1")
        listening.run_until(lambda: made == ["1"])
        monkeypatch.setattr(log, "callWithLogger", None)
        peer.sendall(b"2")
        listening.run_until(lambda: made == ["1", "2"])
    listening.run_until(lambda: made == ["1", "2", "ConnectionDone"])


def test_the_end_of_a_connection_is_told(listening: Listening) -> None:
    with listening.connected() as one:
        one.sendall(b"last words")
    listening.run_until(lambda: listening.seen == ["last words", "ConnectionDone"])


def test_few_of_many_connections_are_accepted_in_one_turn(listening: Listening) -> None:
    many = [listening.connected() for _ in range(40)]  # fewer than the port's backlog
    accepted = [len(listening.reactor.getReaders())]  # type: ignore[no-untyped-call]
    while accepted[-1] < accepted[0] + len(many):
        listening.reactor.doIteration(DEADLINE_S)
        accepted.append(len(listening.reactor.getReaders()))  # type: ignore[no-untyped-call]
        assert accepted[-1] - accepted[-2] <= MOST_ACCEPTS
    for one in many:
        one.close()


def test_a_failing_protocol_costs_its_connection_and_is_logged(listening: Listening) -> None:
    events: list[dict[str, Any]] = []
    log.addObserver(events.append)
    try:
        with listening.connected() as one, listening.connected() as other:
            one.sendall(b"fail")
            listening.run_until(lambda: listening.seen == ["RuntimeError"])
            assert one.recv(1) == b""
            other.sendall(b"still here")
            listening.run_until(lambda: listening.seen[1:] == ["still here"])
    finally:
        log.removeObserver(events.append)
    assert [str(event["failure"].value) for event in events if event.get("isError")] == ["as asked"]


class Poll:
    """Stands in for a poller of the reactor; ``on_poll`` is called while the reactor is in it."""

    def __init__(self, reactor: Any, name: str) -> None:
        self.asked: list[float] = []
        self.on_poll: Callable[[], None] = lambda: None
        self._poller = getattr(reactor, name)
        self.fileno, self.unregister, self.close = self._poller.fileno, self._poller.unregister, self._poller.close
        setattr(reactor, name, self)

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        self.asked.append(timeout)
        self.on_poll()
        found: list[tuple[int, int]] = self._poller.poll(timeout, most)
        return found


class Bell(Poll):
    """The poll for everything, and a count of the rings."""

    def __init__(self, reactor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(reactor, "_poller")
        self.rings = 0
        self._ring = os.eventfd_write
        monkeypatch.setattr(os, "eventfd_write", self._rung)

    def _rung(self, fd: int, value: int) -> None:
        self.rings += 1
        self._ring(fd, value)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Bell]]:
    reactor: Any = QuickEpollReactor()
    yield reactor, Bell(reactor, monkeypatch)
    give_back(reactor)


def test_a_call_of_a_thread_before_the_wait_keeps_the_reactor_from_waiting(watched: tuple[Any, Bell]) -> None:
    reactor, bell = watched
    called: list[str] = []
    reactor.callFromThread(called.append, "in time")
    reactor.doIteration(DEADLINE_S)
    reactor.runUntilCurrent()
    reactor.doIteration(0.01)
    assert called == ["in time"]
    assert bell.asked == [0, 0.01]
    assert bell.rings == 0


def test_a_call_of_a_thread_between_the_look_and_the_wait_ends_it() -> None:
    class Looked(QuickEpollReactor):
        """Is woken by another thread right after it has looked whether it was."""

        woken = False

        @property
        def _is_woken(self) -> bool:
            woken = self.woken
            if not called and not self.threadCallQueue:
                self.callFromThread(called.append, "in time")
            return woken

        @_is_woken.setter
        def _is_woken(self, woken: bool) -> None:
            self.woken = woken

    called: list[str] = []
    reactor: Any = Looked()
    begin_s = time.monotonic()
    reactor.doIteration(DEADLINE_S)
    reactor.runUntilCurrent()
    assert called == ["in time"]
    assert time.monotonic() - begin_s < DEADLINE_S / 2
    give_back(reactor)


def test_a_call_of_a_thread_during_the_wait_ends_it(watched: tuple[Any, Bell]) -> None:
    reactor, bell = watched
    called: list[str] = []
    bell.on_poll = lambda: reactor.callFromThread(called.append, "at once") if not called else None
    begin_s = time.monotonic()
    reactor.doIteration(DEADLINE_S)
    reactor.runUntilCurrent()
    assert called == ["at once"]
    assert time.monotonic() - begin_s < DEADLINE_S / 2
    assert bell.rings == 1
    bell.on_poll = lambda: None
    reactor.doIteration(0.01)
    assert bell.asked == [DEADLINE_S, 0.01], "nothing is left to wake it"


def test_calls_of_a_thread_come_however_they_meet_the_waits() -> None:
    """Many times, from a thread that does not wait for the reactor."""
    reactor: Any = QuickEpollReactor()
    calls = 20_000
    came: list[int] = []

    def call() -> None:
        for number in range(calls):
            reactor.callFromThread(came.append, number)

    thread = threading.Thread(target=call)
    thread.start()
    deadline_s = time.monotonic() + 6 * DEADLINE_S
    while len(came) < calls and time.monotonic() < deadline_s:
        reactor.runUntilCurrent()
        if len(came) < calls:
            reactor.doIteration(DEADLINE_S)  # one that is not woken would take so long
    thread.join()
    assert came == list(range(calls))
    assert time.monotonic() < deadline_s
    give_back(reactor)


def test_calls_come_in_time_when_the_clock_of_the_machine_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    reactor: Any = QuickEpollReactor()
    reactor.callLater(0.01, called.append, "in time")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    deadline_s = time.monotonic() + DEADLINE_S
    while not called and time.monotonic() < deadline_s:
        reactor.iterate(0.01)
    assert called == ["in time"]
    give_back(reactor)


def test_what_comes_while_a_call_is_expected_is_read_after_it(listening: Listening) -> None:
    reactor: Any = listening.reactor
    calls = Poll(reactor, "_calls_only")

    def come() -> None:
        reactor.expect_call(False)
        listening.seen.append("call")

    with listening.connected() as one:
        one.sendall(b"1")
        listening.run_until(lambda: listening.seen == ["1"])
        one.sendall(b"2")
        calls.on_poll = lambda: reactor.callFromThread(come)
        reactor.expect_call(True)
        listening.run_until(lambda: len(listening.seen) == 3)
    assert listening.seen == ["1", "call", "2"]
    assert calls.asked == [quick_epoll.EXPECTED_WITHIN_S]


def test_connections_are_read_when_an_expected_call_is_late(listening: Listening) -> None:
    calls = Poll(listening.reactor, "_calls_only")
    with listening.connected() as one:
        one.sendall(b"1")
        listening.run_until(lambda: listening.seen == ["1"])
        one.sendall(b"2")
        listening.reactor.expect_call(True)
        listening.run_until(lambda: listening.seen == ["1", "2"])
    assert calls.asked == [quick_epoll.EXPECTED_WITHIN_S], "once: the next wait is for everything"


def test_a_reactor_with_something_to_do_does_not_sleep_for_an_expected_call(listening: Listening) -> None:
    calls = Poll(listening.reactor, "_calls_only")
    listening.reactor.expect_call(True)
    with listening.connected() as one:
        one.sendall(b"1")
        deadline = time.monotonic() + DEADLINE_S
        while listening.seen != ["1"] and time.monotonic() < deadline:
            listening.reactor.doIteration(0)
    assert listening.seen == ["1"]
    assert calls.asked == []


def test_a_ring_that_was_heard_does_not_end_the_next_wait(listening: Listening) -> None:
    reactor: Any = listening.reactor
    calls = Poll(reactor, "_calls_only")
    os.eventfd_write(reactor._bell, 1)
    reactor.doIteration(DEADLINE_S)
    reactor.expect_call(True)
    reactor.doIteration(DEADLINE_S)
    assert calls.asked == [0, quick_epoll.EXPECTED_WITHIN_S]
    assert not reactor._expects_call, "the time was up"
    os.eventfd_write(reactor._bell, 1)
    reactor.expect_call(True)
    reactor.doIteration(DEADLINE_S)
    begin_s = time.monotonic()
    reactor.expect_call(False)
    reactor.doIteration(0.05)
    assert time.monotonic() - begin_s >= 0.05


def test_connections_are_read_after_a_call_that_is_not_the_expected_one(listening: Listening) -> None:
    reactor: Any = listening.reactor
    calls = Poll(reactor, "_calls_only")
    with listening.connected() as one:
        one.sendall(b"1")
        listening.run_until(lambda: listening.seen == ["1"])
        one.sendall(b"2")
        calls.on_poll = lambda: reactor.callFromThread(listening.seen.append, "another")
        reactor.expect_call(True)
        listening.run_until(lambda: len(listening.seen) == 3)
    assert listening.seen == ["1", "another", "2"]
    assert calls.asked == [quick_epoll.EXPECTED_WITHIN_S], "however many calls come, they are left alone once"


def test_an_expected_call_does_not_hold_up_a_timer(listening: Listening) -> None:
    calls = Poll(listening.reactor, "_calls_only")
    listening.reactor.expect_call(True)
    listening.reactor.doIteration(quick_epoll.EXPECTED_WITHIN_S / 4)
    assert calls.asked == [quick_epoll.EXPECTED_WITHIN_S / 4]


# -- the main loop --------------------------------------------------------------------------------------------------


def test_the_main_loop_runs_timers_and_calls_of_threads_until_it_is_stopped(listening: Listening) -> None:
    reactor: Any = listening.reactor
    seen = listening.seen

    def second() -> None:
        seen.append("second timer")
        thread = threading.Thread(target=reactor.callFromThread, args=(third,))
        reactor.callLater(0, thread.start)

    def third() -> None:
        seen.append("call")
        reactor.callLater(0.01, reactor.stop)

    never = reactor.callLater(0.005, seen.append, "cancelled")
    reactor.callLater(DEADLINE_S, seen.append, "too late")
    reactor.callLater(0.01, seen.append, "first timer")
    put_off = reactor.callLater(0.01, second)
    reactor.addSystemEventTrigger("before", "shutdown", seen.append, "shutdown")
    reactor.callWhenRunning(never.cancel)
    reactor.callWhenRunning(put_off.reset, 0.05)
    reactor.run(installSignalHandlers=False)
    assert seen == ["first timer", "second timer", "call", "shutdown"]


def test_the_main_loop_sleeps_until_the_next_timer(listening: Listening) -> None:
    reactor: Any = listening.reactor
    poll = Poll(reactor, "_poller")
    left_s: list[float] = []

    def look() -> None:
        due_s = min(call.getTime() for call in reactor.getDelayedCalls())
        left_s.append(max(due_s - reactor.seconds(), 0.0))

    poll.on_poll = look
    reactor.callLater(DEADLINE_S, lambda: None)
    reactor.callLater(0.2, reactor.stop)
    reactor.callLater(0.1, lambda: None)
    reactor.run(installSignalHandlers=False)
    *waits, _ = zip(poll.asked, left_s, strict=True)  # the last does not wait: the reactor was stopped
    assert all(left - 0.001 <= asked <= 0.1 for asked, left in waits), "until a timer is due, and no longer"
    assert len(waits) < 10, "it does not go round for nothing"


def test_a_timer_further_away_than_epoll_can_wait_does_no_harm(listening: Listening) -> None:
    reactor: Any = listening.reactor
    poll = Poll(reactor, "_poller")
    poll.on_poll = lambda: reactor.wakeUp() if len(poll.asked) < 3 else None
    reactor.callLater(2**32 / 1000, lambda: None)
    timer = threading.Timer(0.1, reactor.callFromThread, args=(reactor.stop,))
    reactor.callWhenRunning(timer.start)
    begin_s = time.monotonic()
    reactor.run(installSignalHandlers=False)
    assert time.monotonic() - begin_s < DEADLINE_S / 2
    assert max(poll.asked) < 2**31 / 1000
    assert len(poll.asked) < 10, "it does not go round for nothing"


def test_the_main_loop_outlives_a_turn_that_fails_and_logs_it(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    reactor: Any = listening.reactor
    errors: list[Exception] = [OSError("of one turn")]
    iterate = reactor.doIteration

    def failing(timeout: float | None) -> None:
        if errors:
            raise errors.pop()
        iterate(timeout)

    monkeypatch.setattr(reactor, "doIteration", failing)
    events: list[dict[str, Any]] = []
    log.addObserver(events.append)
    try:
        reactor.callLater(0.01, reactor.stop)
        reactor.run(installSignalHandlers=False)
    finally:
        log.removeObserver(events.append)
    assert [str(event["failure"].value) for event in events if event.get("isError")] == ["of one turn"]


# -- waiting on the reactor's own thread --------------------------------------------------------------------------


def without_deputy(reactor: Any) -> None:
    """Let none look after the waits, however long a busy machine makes them."""
    reactor._deputy = Deputy(lambda: False, reactor.wakeUp, threading.Event().wait)


def test_a_wait_that_is_asked_for_meanwhile_is_not_begun_by_the_deputy(listening: Listening) -> None:
    reactor: Any = listening.reactor
    reactor._started = reactor.running = True
    threads: list[str] = []
    went_round = threading.Event()

    def hang() -> bool:
        reactor.callFromThread(reactor.callFromThread, went_round.set)  # two turns of the deputy
        return went_round.wait(DEADLINE_S)

    reactor.wait_for(hang, lambda _: reactor.wait_for(reactor.wakeUp, lambda _: None))
    reactor.wait_for(lambda: threading.current_thread().name, threads.append)
    reactor._turn()
    assert (went_round.is_set(), threads) == (True, [])
    reactor._turn()
    assert threads == [threading.current_thread().name]


def test_work_is_waited_for_before_the_next_look_for_events(listening: Listening) -> None:
    reactor: Any = listening.reactor
    without_deputy(reactor)
    with listening.connected() as one:
        one.sendall(b"1")
        listening.run_until(lambda: listening.seen == ["1"])
        one.sendall(b"2")
        reactor.wait_for(lambda: "done", listening.seen.append)
        reactor.wait_for(lambda: "done, too", listening.seen.append)
        reactor._turn()
        assert listening.seen[:2] == ["1", "done"]
        reactor._turn()
        listening.run_until(lambda: len(listening.seen) == 4)
    assert sorted(listening.seen) == ["1", "2", "done", "done, too"]


def test_a_reactor_that_waited_looks_at_its_timers_before_it_sleeps(watched: tuple[Any, Bell]) -> None:
    reactor, bell = watched
    reactor._started = reactor.running = True
    seen: list[str] = []
    here = threading.get_ident()
    bell.on_poll = lambda: reactor.wakeUp() if threading.get_ident() == here else None  # the deputy sleeps, we need not
    reactor.callLater(0.01, seen.append, "timer")
    reactor.callLater(60, seen.append, "later timer")
    reactor.wait_for(lambda: threading.Event().wait(0.02), lambda _: seen.append("outcome"))
    reactor._turn()
    assert sorted(seen) == ["outcome", "timer"], "by whomever"
    assert 0 < bell.asked[-1] < 60 - 0.015, "the time it waited is over"


def test_a_reactor_with_something_to_wait_for_does_not_sleep_before(watched: tuple[Any, Bell]) -> None:
    reactor, bell = watched
    without_deputy(reactor)
    reactor._started = reactor.running = True
    seen: list[str] = []
    reactor.wait_for(lambda: "first", lambda first: reactor.wait_for(lambda: first, seen.append))
    reactor._turn()
    assert bell.asked == [0]
    reactor.wakeUp()
    reactor._turn()
    assert seen == ["first"]


def test_connections_timers_and_calls_go_on_while_the_reactor_waits_for_a_disk_that_hangs(listening: Listening) -> None:
    reactor: Any = listening.reactor
    reactor._started = reactor.running = True
    came = threading.Event()
    threads: set[str] = set()

    def come(what: str) -> None:
        threads.add(threading.current_thread().name)
        listening.seen.append(what)
        if len(listening.seen) == 3:
            came.set()

    with listening.connected() as one:
        one.sendall(b"1")
        listening.run_until(lambda: listening.seen == ["1"])
        listening.seen.clear()

        def hang() -> bool:
            one.sendall(b"read")
            reactor.callFromThread(come, "called")
            return came.wait(DEADLINE_S)

        reactor.callLater(0.05, come, "timer")
        assert listening.waited_for(hang) == [True]
        assert sorted(listening.seen) == ["called", "read", "timer"]
        assert threads == {"reactor-deputy"}
        one.sendall(b"2")
        listening.run_until(lambda: listening.seen[3:] == ["2"])


def test_what_a_turn_of_the_deputy_raises_is_logged_and_the_next_turn_comes(listening: Listening) -> None:
    reactor: Any = listening.reactor
    reactor._started = reactor.running = True
    came = threading.Event()
    events: list[dict[str, Any]] = []
    plain = reactor.doIteration

    def fail_once(delay: float | None) -> None:
        reactor.doIteration = plain
        reactor.callLater(0, came.set)
        raise RuntimeError("as asked")

    def hang() -> bool:
        reactor.doIteration = fail_once
        reactor.wakeUp()
        return came.wait(DEADLINE_S)

    log.addObserver(events.append)
    try:
        assert listening.waited_for(hang) == [True]
    finally:
        log.removeObserver(events.append)
    assert [str(event["failure"].value) for event in events if event.get("isError")] == ["as asked"]


def test_a_reactor_that_was_stopped_meanwhile_does_not_keep_its_deputy_busy(listening: Listening) -> None:
    reactor: Any = listening.reactor
    reactor._started = False
    began_s = time.monotonic()
    turns: list[float] = []
    enough = threading.Event()
    plain = reactor.doIteration

    def turn(delay: float | None) -> None:
        turns.append(time.monotonic())
        if len(turns) == 10:
            enough.set()
        plain(delay)

    reactor.doIteration = turn
    assert listening.waited_for(lambda: enough.wait(DEADLINE_S)) == [True]
    assert turns[-1] - began_s >= 10 * deputy.LOOKED_AFTER_EVERY_S, "one turn a look"
