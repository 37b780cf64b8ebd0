"""Long work is done a piece at a time, whatever its number."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from gateway.errors import RequestRefused
from gateway.remoting.turns import (
    FIRST_PIECES_PER_TURN,
    FIRST_PIECES_S,
    MAX_BEGUN,
    MAX_BEGUN_PER_CHANNEL,
    MAX_WAITING_PER_CHANNEL,
    MAX_WORKS,
    Turns,
    Work,
    finish,
)
from gateway.tests.remoting.conversation import outcome


def pieces(name: str, count: int, log: list[str]) -> Work[str]:
    for number in range(count):
        if number:
            yield
        log.append(f"{name}{number}")
    return name


def expected(failure: Failure) -> str:
    """Take it that a work was cancelled."""
    failure.trap(CancelledError)  # type: ignore[no-untyped-call]
    return ""


class Rows:
    """The rows of a work."""


class Peer:
    """A connection that can close."""

    def __init__(self) -> None:
        self.closed = False
        self._callbacks: list[Callable[[Peer], None]] = []

    def on_close(self, callback: Callable[[Peer], None]) -> None:
        """Call back when it closes."""
        self._callbacks.append(callback)

    def close(self) -> None:
        """Close."""
        self.closed = True
        for callback in self._callbacks:
            callback(self)


def awaited(turns: Turns, work: Work[str], peer: Peer | None = None, *, goes_on: bool = False) -> list[object]:
    """Return the result of the work; the work has its own peer if none is given."""

    async def wait() -> str:
        return await turns.run(work, peer or Peer(), goes_on=goes_on)

    return outcome(wait())


class TurnByTurn:
    """A reactor whose turns are made one by one; a clock would make all that are due at once."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []

    def callLater(self, delay: float, callable: Callable[..., object], *_: object) -> Any:  # noqa: A002, N802
        """Call in the next turn."""
        assert delay == 0
        self.due.append(callable)

    now_s = 0.0

    def seconds(self) -> float:
        """Stand still, unless a work takes time."""
        return self.now_s

    def turn(self) -> None:
        """Call what is due."""
        due, self.due = self.due, []
        for function in due:
            function()


@pytest.fixture
def reactor() -> TurnByTurn:
    return TurnByTurn()


def test_work_of_one_piece_is_done_at_once(reactor: TurnByTurn) -> None:
    log: list[str] = []
    turns = Turns(reactor)
    assert awaited(turns, pieces("a", 1, log)) == ["a"]
    assert turns.count == 0


def test_one_piece_is_done_in_a_turn_and_works_take_turns(reactor: TurnByTurn) -> None:
    log: list[str] = []
    turns = Turns(reactor)
    first, second = awaited(turns, pieces("a", 3, log)), awaited(turns, pieces("b", 2, log))
    assert (log, turns.count) == (["a0", "b0"], 2)
    reactor.turn()
    assert log == ["a0", "b0", "a1"]
    reactor.turn()
    assert (log[3:], first, second) == (["b1"], [], ["b"])
    reactor.turn()
    assert (log[4:], first, turns.count) == (["a2"], ["a"], 0)
    reactor.turn()
    assert not reactor.due


def test_a_failure_is_that_of_its_own_work(reactor: TurnByTurn) -> None:
    def failing() -> Work[str]:
        yield
        raise ValueError("no")

    log: list[str] = []
    turns = Turns(reactor)
    failed, other = awaited(turns, failing()), awaited(turns, pieces("a", 2, log))
    for _ in range(3):
        reactor.turn()
    assert isinstance(failed[0], ValueError)
    assert other == ["a"]


def test_work_may_begin_other_work(reactor: TurnByTurn) -> None:
    log: list[str] = []
    turns = Turns(reactor)

    def beginning() -> Work[str]:
        yield
        turns.run(pieces("b", 2, log), Peer())
        yield
        return "a"

    begun = awaited(turns, beginning())
    for _ in range(5):
        reactor.turn()
    assert (log, begun, turns.count) == (["b0", "b1"], ["a"], 0)


def test_of_hundreds_that_a_peer_asks_for_in_one_turn_few_are_begun_in_it(reactor: TurnByTurn) -> None:
    log: list[str] = []
    turns, peer = Turns(reactor), Peer()
    asked = [awaited(turns, pieces("a", 2, log), peer) for _ in range(200)]
    assert len(log) == MAX_BEGUN_PER_CHANNEL
    while turns.count:
        reactor.turn()
    assert asked == [["a"]] * 200
    assert awaited(turns, pieces("a", 1, log), peer) == ["a"]


def test_some_peers_take_turns_and_the_others_wait_until_one_of_them_is_served(reactor: TurnByTurn) -> None:
    logs: list[list[str]] = [[] for _ in range(MAX_WORKS + 2)]
    turns = Turns(reactor)
    for log in logs:
        awaited(turns, pieces("a", 3, log))
    for _ in range(MAX_WORKS):
        reactor.turn()
    assert logs[MAX_WORKS:] == [["a0"], ["a0"]]
    for _ in range(MAX_WORKS + 4):
        reactor.turn()
    assert turns.count == 0
    assert all(len(log) == 3 for log in logs)


def test_a_short_answer_does_not_wait_for_long_ones(reactor: TurnByTurn) -> None:
    turns, greedy = Turns(reactor), Peer()
    for _ in range(500):
        awaited(turns, pieces("a", 20, []), greedy)
    for _ in range(2 * MAX_WORKS):
        awaited(turns, pieces("a", 20, []))
    log: list[str] = []
    assert awaited(turns, pieces("b", 1, log)) == ["b"]


def test_short_answers_of_a_turn_that_had_many_come_in_the_next(reactor: TurnByTurn) -> None:
    turns, greedy, log = Turns(reactor), Peer(), list[str]()
    for _ in range(2 * MAX_WORKS):
        awaited(turns, pieces("a", 20, []))
    for _ in range(200):
        awaited(turns, pieces("a", 1, log), greedy)
    assert len(log) == FIRST_PIECES_PER_TURN - 2 * MAX_WORKS
    honest = awaited(turns, pieces("b", 1, log))
    assert honest == []
    reactor.turn()
    assert honest == ["b"]


def test_a_long_answer_waits_for_one_of_each_peer_and_not_for_hundreds_of_one(reactor: TurnByTurn) -> None:
    turns, greedy = Turns(reactor), Peer()
    for _ in range(500):
        awaited(turns, pieces("a", 20, []), greedy)
    honest = awaited(turns, pieces("b", 20, []))
    for _ in range(2 * 20):
        reactor.turn()
    assert honest == ["b"]


def test_all_peers_together_begin_only_some_works_before_their_turn(reactor: TurnByTurn) -> None:
    turns, log = Turns(reactor), list[str]()
    asked = []
    for _ in range(2 * MAX_BEGUN):
        asked.append(awaited(turns, pieces("a", 2, log)))
        if len(asked) % FIRST_PIECES_PER_TURN == 0:
            reactor.turn()
        assert log.count("a0") - log.count("a1") <= MAX_BEGUN
    while turns.count:
        reactor.turn()
    assert asked == [["a"]] * 2 * MAX_BEGUN


def test_one_peer_is_refused_beyond_its_share_and_others_and_the_servers_own_work_are_not(reactor: TurnByTurn) -> None:
    turns, greedy, log = Turns(reactor), Peer(), list[str]()
    for _ in range(MAX_WAITING_PER_CHANNEL):
        awaited(turns, pieces("a", 2, []), greedy)
    with pytest.raises(RequestRefused, match="2000, the limit is 10000; one has 2000 of it"):
        turns.run(pieces("a", 2, []), greedy)
    assert awaited(turns, pieces("b", 1, log)) == ["b"]

    def own() -> Work[None]:
        log.append("begun")
        yield

    turns.begin(own())
    assert log == ["b0", "begun"]


def test_greedy_peers_together_leave_room_for_those_that_ask_for_little(reactor: TurnByTurn) -> None:
    turns = Turns(reactor)
    for peer in [Peer() for _ in range(5)]:
        for _ in range(MAX_WAITING_PER_CHANNEL):
            try:
                turns.run(pieces("a", 2, []), peer)
            except RequestRefused:
                break
    assert awaited(turns, pieces("b", 1, [])) == ["b"]


def test_works_of_a_closed_peer_are_dropped_and_fail(reactor: TurnByTurn) -> None:
    turns, gone, log = Turns(reactor), Peer(), list[str]()
    dropped = [awaited(turns, pieces("a", 20, log), gone) for _ in range(500)]
    honest = awaited(turns, pieces("b", 2, []))
    gone.close()
    begun = len(log)
    for _ in range(6):
        reactor.turn()
    assert len(log) == begun
    assert honest == ["b"]
    assert all(isinstance(each[0], RequestRefused) for each in dropped)
    assert turns.count == 0
    reactor.turn()
    assert not reactor.due
    with pytest.raises(RequestRefused, match="closed"):
        turns.run(pieces("a", 1, log), gone)


def test_work_whose_peer_closes_while_it_is_done_is_dropped(reactor: TurnByTurn) -> None:
    turns = Turns(reactor)

    def closing(peer: Peer, at: int) -> Work[str]:
        for number in range(4):
            if number == at:
                peer.close()
            yield
        return "over"

    for at in range(3):
        peer = Peer()
        asked = awaited(turns, closing(peer, at), peer)
        others = [awaited(turns, pieces("a", 3, []), peer) for _ in range(10 if at else 0)]
        for _ in range(12):
            reactor.turn()
        assert turns.count == 0
        assert all(isinstance(each[0], RequestRefused) for each in [asked, *others])


def test_begun_work_that_changes_something_goes_on_without_its_peer(reactor: TurnByTurn) -> None:
    turns, gone, log = Turns(reactor), Peer(), list[str]()
    asked = [awaited(turns, pieces("a", 3, log), gone, goes_on=True) for _ in range(MAX_BEGUN_PER_CHANNEL + 3)]
    gone.close()
    while turns.count:
        reactor.turn()
    assert log.count("a2") == MAX_BEGUN_PER_CHANNEL
    assert asked[:MAX_BEGUN_PER_CHANNEL] == [["a"]] * MAX_BEGUN_PER_CHANNEL
    assert all(isinstance(each[0], RequestRefused) for each in asked[MAX_BEGUN_PER_CHANNEL:])


def test_a_program_without_a_reactor_does_all_pieces_at_once() -> None:
    log: list[str] = []
    assert finish(pieces("a", 3, log)) == "a"
    assert log == ["a0", "a1", "a2"]


def test_a_work_that_is_cancelled_gives_back_what_it_holds_at_once_and_is_not_gone_on_with(
    reactor: TurnByTurn,
) -> None:
    turns, log = Turns(reactor), list[str]()
    rows = Rows()
    held = weakref.ref(rows)

    def work(rows: Rows) -> Work[str]:
        yield from pieces("a", 3, log)
        return str(rows)

    peer = Peer()
    done = turns.run(work(rows), peer)
    del rows
    other = awaited(turns, pieces("b", 2, log))
    done.addErrback(expected)
    gc.disable()
    try:
        done.cancel()
        assert held() is None, "without a garbage collection"
    finally:
        gc.enable()
    while reactor.due:
        reactor.turn()
    assert (log, other, turns.count) == (["a0", "b0", "b1"], ["b"], 0)


def test_a_work_that_goes_on_without_its_peer_goes_on_when_it_is_cancelled(reactor: TurnByTurn) -> None:
    turns, log = Turns(reactor), list[str]()
    done = turns.run(pieces("a", 3, log), Peer(), goes_on=True)
    done.addErrback(expected)
    done.cancel()
    while reactor.due:
        reactor.turn()
    assert (log, turns.count) == (["a0", "a1", "a2"], 0)


def test_when_first_pieces_take_long_few_are_done_in_a_turn(reactor: TurnByTurn) -> None:
    log: list[str] = []
    turns = Turns(reactor)

    def copying(name: str) -> Work[str]:
        reactor.now_s += FIRST_PIECES_S / 2
        log.append(name)
        yield
        return name

    found = [awaited(turns, copying(str(number))) for number in range(20)]
    assert len(log) == 2
    while len(log) < 20:
        before = len(log)
        reactor.turn()
        assert 0 < len(log) - before <= 3
    while not all(found):
        reactor.turn()
    assert log == [str(number) for number in range(20)]
