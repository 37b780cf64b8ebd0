"""Handshakes have a share of the time while requests come, and all of it while nobody else wants it."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.input_turn import HANDSHAKE_SHARE, TURN_S, InputTurn

STEP_S = 0.0005
COUNT = 200


class Server:
    """Turns of a server, on a clock that moves while a handshake goes on."""

    def __init__(self, step_s: float = STEP_S) -> None:
        self.clock = Clock()
        self.clock.processor_seconds = self.clock.seconds  # type: ignore[attr-defined]
        self.turn = InputTurn(self.clock, FlushGroup(self.clock))
        self.step_s = step_s
        self.done: list[str] = []

    def wait(self, name: str, host: str = "192.0.2.1", *, is_begun: bool = False) -> None:
        """Let a handshake wait for its turn."""
        self.turn.wait_for_handshake(Handshake(self, name), host, is_begun)

    def turns(self, seconds: float, *, with_requests: bool) -> None:
        """Have turns for a while, of which each has a short request of another peer."""
        end_s = self.clock.seconds() + seconds
        while self.clock.seconds() < end_s and len(self.done) < COUNT:
            if with_requests:
                began_s = self.clock.seconds()
                self.clock.rightNow += 0.0001
                self.turn.spend(began_s)
            self.advance(0.0001)

    def advance(self, seconds: float) -> None:
        """Have one turn, in which everything is done that is due when it begins."""
        clock: Any = self.clock
        clock.rightNow += seconds
        for call in [call for call in clock.getDelayedCalls() if call.getTime() <= clock.seconds()]:
            clock.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)


class Handshake:
    """A handshake, of which a step takes a while."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name

    def go_on(self) -> None:
        server = self.server
        began_s = server.clock.seconds()
        server.clock.rightNow += server.step_s
        server.done.append(self.name)
        server.turn.spend_on_handshake(began_s)

    def drop(self, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.parametrize("step_s", [STEP_S, 4 * STEP_S])
def test_a_flood_of_handshakes_leaves_most_of_the_time_to_requests(step_s: float) -> None:
    server = Server(step_s)
    for number in range(COUNT):
        server.wait(str(number), f"192.0.2.{number}")
    server.turns(0.1, with_requests=True)
    taken = len(server.done) * step_s / server.clock.seconds()
    assert HANDSHAKE_SHARE / 2 < taken < HANDSHAKE_SHARE * 1.2


def test_without_requests_handshakes_go_on_at_once() -> None:
    server = Server()
    for number in range(COUNT):
        server.wait(str(number))
    server.turns(10, with_requests=False)
    assert len(server.done) == COUNT
    assert server.clock.seconds() < COUNT * STEP_S * 1.5


def test_handshakes_go_on_when_requests_stop() -> None:
    server = Server(1.0)  # the machine did something else meanwhile
    for number in range(3):
        server.wait(str(number))
    server.turns(1.0, with_requests=True)
    assert len(server.done) == 1
    server.turn.spend(server.clock.seconds())
    server.advance(TURN_S / HANDSHAKE_SHARE)
    assert len(server.done) == 2
    server.advance(0)
    assert len(server.done) == 3
    assert not server.clock.getDelayedCalls()


def test_a_new_handshake_does_not_overtake_those_that_wait() -> None:
    server = Server()
    assert server.turn.has_time_for_handshake
    server.wait("first")
    assert not server.turn.has_time_for_handshake


def test_a_handshake_that_has_begun_does_not_wait_for_those_that_begin() -> None:
    server = Server()
    for number in range(COUNT // 2):
        server.wait(str(number), f"192.0.2.{number % 2}")
    server.turns(0.005, with_requests=False)
    before = len(server.done)
    assert before > 1
    server.wait("begun", is_begun=True)
    server.turns(0.005, with_requests=False)
    assert server.done.index("begun") <= before + 2
