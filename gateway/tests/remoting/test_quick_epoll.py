"""The reactor of the servers, with sockets of this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.protocol import Protocol, ServerFactory, connectionDone
from twisted.python import log
from twisted.python.failure import Failure

epoll = pytest.importorskip("select").epoll  # Linux only

from gateway.remoting.quick_epoll import QuickEpollReactor  # noqa: E402

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
        self.reactor = QuickEpollReactor()  # type: ignore[no-untyped-call]
        factory = ServerFactory.forProtocol(lambda: Recorder(self.seen))
        self.port = self.reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[no-untyped-call]

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port.getHost().port))

    def run_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, self.seen
            self.reactor.runUntilCurrent()
            self.reactor.doIteration(0.05)


@pytest.fixture
def listening() -> Iterator[Listening]:
    made = Listening()
    yield made
    made.port.stopListening()
    for selectable in made.reactor.removeAll():  # type: ignore[no-untyped-call]
        selectable.connectionLost(connectionDone)
    made.reactor._poller.close()


def test_bytes_reach_their_protocol(listening: Listening) -> None:
    with listening.connected() as one, listening.connected() as other:
        one.sendall(b"1")
        listening.run_until(lambda: listening.seen == ["1"])
        other.sendall(b"2")
        listening.run_until(lambda: listening.seen == ["1", "2"])


def test_the_end_of_a_connection_is_told(listening: Listening) -> None:
    with listening.connected() as one:
        one.sendall(b"last words")
    listening.run_until(lambda: listening.seen == ["last words", "ConnectionDone"])


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


class Pipe:
    """What counts the writes to the waker's pipe; the reactor is in its poll while ``ask`` is called."""

    def __init__(self, reactor: Any) -> None:
        self.writes = 0
        self.asked: list[float] = []
        self.on_poll: Callable[[], None] = lambda: None
        self._poll = reactor._poller.poll
        self._wake_up = reactor.waker.wakeUp
        reactor.waker.wakeUp = self._written
        reactor._poller = self

    def _written(self) -> None:
        self.writes += 1
        self._wake_up()

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        self.asked.append(timeout)
        self.on_poll()
        found: list[tuple[int, int]] = self._poll(timeout, most)
        return found


@pytest.fixture
def piped() -> Iterator[tuple[Any, Pipe]]:
    reactor: Any = QuickEpollReactor()  # type: ignore[no-untyped-call]
    poller = reactor._poller
    yield reactor, Pipe(reactor)
    reactor.waker.connectionLost(None)
    poller.close()


def test_a_call_of_a_thread_before_the_wait_keeps_the_reactor_from_waiting(piped: tuple[Any, Pipe]) -> None:
    reactor, pipe = piped
    called: list[str] = []
    reactor.callFromThread(called.append, "in time")
    reactor.doIteration(DEADLINE_S)
    reactor.runUntilCurrent()
    reactor.doIteration(0.01)
    assert called == ["in time"]
    assert pipe.asked == [0, 0.01]
    assert pipe.writes == 0


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
    reactor: Any = Looked()  # type: ignore[no-untyped-call]
    begin_s = time.monotonic()
    reactor.doIteration(DEADLINE_S)
    reactor.runUntilCurrent()
    assert called == ["in time"]
    assert time.monotonic() - begin_s < DEADLINE_S / 2


def test_a_call_of_a_thread_during_the_wait_ends_it(piped: tuple[Any, Pipe]) -> None:
    reactor, pipe = piped
    called: list[str] = []
    pipe.on_poll = lambda: reactor.callFromThread(called.append, "at once") if not called else None
    begin_s = time.monotonic()
    reactor.doIteration(DEADLINE_S)
    reactor.runUntilCurrent()
    assert called == ["at once"]
    assert time.monotonic() - begin_s < DEADLINE_S / 2
    assert pipe.writes == 1
    pipe.on_poll = lambda: None
    reactor.doIteration(0.01)
    assert pipe.asked == [DEADLINE_S, 0.01], "the pipe is empty again"


def test_calls_of_a_thread_come_however_they_meet_the_waits() -> None:
    """Many times, from a thread that does not wait for the reactor."""
    reactor: Any = QuickEpollReactor()  # type: ignore[no-untyped-call]
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


def test_calls_come_in_time_when_the_clock_of_the_machine_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    reactor: Any = QuickEpollReactor()  # type: ignore[no-untyped-call]
    reactor.callLater(0.01, called.append, "in time")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    deadline_s = time.monotonic() + DEADLINE_S
    while not called and time.monotonic() < deadline_s:
        reactor.iterate(0.01)
    assert called == ["in time"]
