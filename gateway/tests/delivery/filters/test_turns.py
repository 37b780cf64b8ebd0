"""Filters have a number of steps in each turn of the reactor; who comes later waits, connection by connection."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pytest

from gateway.delivery.filters import turns as module
from gateway.delivery.filters.record_filter import Work
from gateway.delivery.filters.sql92 import sql92_filter
from gateway.delivery.filters.turns import MAX_WAITING, READ_STEPS, TURN_STEPS
from gateway.errors import RequestRefused
from gateway.remoting.dispatch import Dispatch
from gateway.tests.delivery.reactor_turns import ReactorTurns
from gateway.tests.remoting.conversation import Conversation
from wire.codes import ResponseCode


class Connection(NamedTuple):
    """A waiting client and its place."""

    remote: tuple[str, int]


def test_a_turn_has_steps_and_the_next_one_as_many() -> None:
    turns = ReactorTurns()
    turns.spend(TURN_STEPS - 1)
    assert not turns.is_busy
    turns.spend(10 * TURN_STEPS)
    assert turns.is_busy
    assert turns.is_spent
    turns.end()
    assert not turns.is_busy
    assert turns.is_over


def test_a_read_pays_for_what_it_used() -> None:
    turns = ReactorTurns()
    work = Work(READ_STEPS)
    work.left -= TURN_STEPS
    turns.spend_read(work)
    assert turns.is_spent


def test_who_waits_goes_on_in_turn_each_owner_after_the_other() -> None:
    turns = ReactorTurns()
    done: list[str] = []

    def costly(name: str) -> None:
        done.append(name)
        turns.spend(TURN_STEPS // 2)

    turns.use_up()
    for name in ("a1", "a2", "a3", "b1", "c1", "c2"):
        turns.later(name[0], lambda name=name: costly(name))  # type: ignore[misc]
    assert done == []
    lengths = []
    while not turns.is_over:
        turns.end()
        lengths.append(len(done))
    assert done == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert lengths[:3] == [2, 4, 6]
    assert not turns.is_busy


def test_a_short_expression_is_not_behind_long_ones_of_others() -> None:
    turns = ReactorTurns()
    done: list[str] = []

    def costly(name: str) -> None:
        done.append(name)
        turns.spend(TURN_STEPS)

    turns.use_up()
    for number in range(200):
        turns.later(f"attacker {number}", partial(costly, "long"), 16_000)
    turns.end()
    turns.later("honest", partial(costly, "short"), 20)
    turns.end()
    assert done == ["long", "short"]


def test_hosts_share_whatever_their_connections_are() -> None:
    turns = ReactorTurns()
    done: list[str] = []
    turns.use_up()
    for number in range(200):
        turns.later(Connection(("192.0.2.66", number)), partial(done.append, "attacker"), 100)
    turns.later(Connection(("192.0.2.7", 1)), partial(done.append, "honest"), 110)
    turns.end()
    assert done.index("honest") == 1


def test_connections_of_a_server_are_known_to_be_of_one_host() -> None:
    conversation = Conversation(Dispatch())
    turns = ReactorTurns()
    done: list[str] = []
    turns.use_up()
    for _ in range(200):
        turns.later(conversation.connect("192.0.2.66").channel, partial(done.append, "attacker"), 100)
    turns.later(conversation.connect("192.0.2.7").channel, partial(done.append, "honest"), 110)
    turns.end()
    assert done.index("honest") == 1


def test_an_owner_has_so_many_waiting_at_most() -> None:
    turns = ReactorTurns()
    turns.use_up()
    for _ in range(MAX_WAITING):
        turns.later("greedy", lambda: None)
    with pytest.raises(RequestRefused) as caught:
        turns.later("greedy", lambda: None)
    assert caught.value.code == ResponseCode.SYSTEM_BUSY
    turns.later("modest", lambda: None)


def test_many_who_cost_nothing_do_not_fill_a_turn() -> None:
    turns = ReactorTurns()
    done: list[int] = []
    turns.use_up()
    for number in range(MAX_WAITING):
        turns.later("one", lambda number=number: done.append(number))  # type: ignore[misc]
    turns.end()
    assert len(done) == TURN_STEPS // module.REQUEST_STEPS
    while not turns.is_over:
        turns.end()
    assert done == list(range(MAX_WAITING))


def test_an_error_ends_one_turn_and_nobody_s_waiting() -> None:
    turns = ReactorTurns()
    done: list[str] = []

    def fails() -> None:
        raise ZeroDivisionError

    turns.use_up()
    turns.later("a", fails)
    turns.later("b", lambda: done.append("b"))
    with pytest.raises(ZeroDivisionError):
        turns.end()
    turns.end()
    assert done == ["b"]


def test_without_steps_left_a_message_may_match() -> None:
    turns = ReactorTurns()
    wanted = sql92_filter("a = 5")
    assert turns.may_match(wanted, {"a": "5"})
    assert not turns.may_match(wanted, {"a": "6"})
    turns.use_up()
    assert turns.may_match(wanted, {"a": "6"})
    turns.end()
    assert not turns.may_match(wanted, {"a": "6"})


def test_what_is_compiled_is_paid_for_once() -> None:
    turns = ReactorTurns()
    expression = "a = 5 AND test_what_is_compiled IS NULL" + " " * 15_000
    sql92_filter(expression, turns)
    assert turns.is_spent
    turns.end()
    sql92_filter(expression, turns)
    assert not turns.is_spent
