"""Long work is done a piece at a time, whatever its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import RequestRefused
from gateway.remoting import turns as turns_module
from gateway.remoting.turns import MAX_WORKS, Turns, Work, finish
from gateway.tests.remoting.conversation import outcome


def pieces(name: str, count: int, log: list[str]) -> Work[str]:
    for number in range(count):
        if number:
            yield
        log.append(f"{name}{number}")
    return name


def awaited(turns: Turns, work: Work[str]) -> list[object]:
    async def wait() -> str:
        return await turns.run(work)

    return outcome(wait())


class TurnByTurn:
    """A reactor whose turns are made one by one; a clock would make all that are due at once."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []

    def callLater(self, delay: float, callable: Callable[..., object], *_: object) -> Any:  # noqa: A002, N802
        """Call in the next turn."""
        assert delay == 0
        self.due.append(callable)

    def seconds(self) -> float:
        """Stand still."""
        return 0.0

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
        turns.run(pieces("b", 2, log))
        yield
        return "a"

    begun = awaited(turns, beginning())
    for _ in range(5):
        reactor.turn()
    assert (log, begun, turns.count) == (["b0", "b1"], ["a"], 0)


def test_of_hundreds_that_are_asked_for_in_one_turn_few_are_begun_in_it(reactor: TurnByTurn) -> None:
    log: list[str] = []
    turns = Turns(reactor)
    asked = [awaited(turns, pieces("a", 2, log)) for _ in range(200)]
    assert len(log) == MAX_WORKS
    while turns.count:
        reactor.turn()
    assert asked == [["a"]] * 200
    assert awaited(turns, pieces("a", 1, log)) == ["a"]


def test_only_some_take_turns_and_the_others_wait_until_one_of_them_is_over(reactor: TurnByTurn) -> None:
    logs: list[list[str]] = [[] for _ in range(MAX_WORKS + 2)]
    turns = Turns(reactor)
    for log in logs:
        awaited(turns, pieces("a", 3, log))
    for _ in range(MAX_WORKS):
        reactor.turn()
    assert logs[MAX_WORKS:] == [[], []]
    for _ in range(2 * MAX_WORKS + 8):
        reactor.turn()
    assert turns.count == 0
    assert all(len(log) == 3 for log in logs)


def test_too_many_that_wait_are_refused_and_the_servers_own_work_is_not(
    reactor: TurnByTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns_module, "MAX_WAITING", 5)
    turns = Turns(reactor)
    for _ in range(MAX_WORKS + 5):
        awaited(turns, pieces("a", 2, []))
    with pytest.raises(RequestRefused, match="5 long answers are in the making"):
        turns.run(pieces("a", 2, []))
    log: list[str] = []

    def own() -> Work[None]:
        log.append("begun")
        yield

    turns.begin(own())
    assert log == ["begun"]


def test_a_program_without_a_reactor_does_all_pieces_at_once() -> None:
    log: list[str] = []
    assert finish(pieces("a", 3, log)) == "a"
    assert log == ["a0", "a1", "a2"]
