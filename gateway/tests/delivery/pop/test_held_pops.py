"""Held pops: a message wakes one of each group that wants it, the longest waiting first; the others wait on."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.held_bytes import WaitingBytes
from gateway.delivery.pop.held_pops import TICK_MS, Held, HeldPop, HeldPops
from gateway.tests.delivery.arrivals import Clock, Message, Neighbours
from gateway.tests.delivery.reactor_turns import ReactorTurns


@dataclass
class Line:
    closed: bool = False


class Pops:
    """Held pops and a list of those resumed; a name with ! behind it was ended by the time."""

    def __init__(self, limit: int = 100, queue_limit: int = 100, *, wakes_all: bool = False) -> None:
        self.clock = Clock()
        self.turns = ReactorTurns()
        self.held = HeldPops(self.clock, self.turns, WaitingBytes(), limit, queue_limit, wakes_all=wakes_all)
        self.resumed: list[str] = []

    def hold(
        self,
        name: str,
        *,
        topic: str = "orders",
        group: str = "mail",
        queue: int = -1,
        wait_ms: int = 15_000,
        accepts: MessageFilter = EVERYTHING,
        line: Line | None = None,
    ) -> Held:
        def resume(is_over: bool) -> None:
            self.resumed.append(name + "!" * is_over)

        deadline_ms = self.clock() + wait_ms
        return self.held.hold(HeldPop((topic, group, queue), accepts, deadline_ms, line or Line(), resume))

    def arrive(self, *messages: Message) -> list[str]:
        self.held.arrived(messages)
        return self.take()

    def advance(self, ms: int) -> list[str]:
        self.clock.now_ms += ms
        self.held.tick()
        return self.take()

    def take(self) -> list[str]:
        taken, self.resumed = self.resumed, []
        return taken


def test_a_greedy_group_leaves_room_for_another_one() -> None:
    pops = Pops(limit=100)
    held = 0
    while pops.hold("greedy", group="greedy") is Held.YES:
        held += 1
    assert held == 75
    assert pops.hold("honest", group="honest") is Held.YES
    pops.advance(16_000)
    assert len(pops.held) == 0
    assert pops.hold("greedy", group="greedy") is Held.YES


def test_neighbours_wake_one_of_each_group_and_all_who_only_look() -> None:
    pops = Pops()
    for name in ("mail 1", "mail 2"):
        pops.hold(name)
    pops.hold("shop", group="shop", accepts=MessageFilter({5}.__contains__, None))
    pops.held.arrived([Neighbours([Message(), Message(queue_offset=8, tags_code=5), Message(queue_offset=9)])])
    assert pops.take() == ["mail 1", "shop"]
    lookers = Pops(wakes_all=True)
    lookers.hold("one")
    lookers.hold("two", accepts=MessageFilter({5}.__contains__, None))
    lookers.held.arrived([Neighbours([Message(), Message(queue_offset=8, tags_code=5)])])
    assert lookers.take() == ["one", "two"]


def test_a_message_wakes_one_of_each_group() -> None:
    pops = Pops()
    pops.hold("mail 1")
    pops.hold("mail 2")
    pops.hold("shop", group="shop")
    assert sorted(pops.arrive(Message(), Message())) == ["mail 1", "shop"]
    assert pops.arrive(Message()) == ["mail 2"]
    assert pops.arrive(Message()) == []
    assert len(pops.held) == 0


def test_a_message_of_another_topic_or_queue_wakes_nobody() -> None:
    pops = Pops()
    pops.hold("one", queue=1)
    assert pops.arrive(Message(topic="others"), Message(queue_id=0)) == []
    assert pops.arrive(Message(queue_id=1)) == ["one"]


def test_a_message_of_a_retry_topic_of_either_form_wakes_whatever_the_filter() -> None:
    for topic in ("%RETRY%mail_orders", "%RETRY%mail+orders"):
        pops = Pops()
        pops.hold("any", accepts=MessageFilter((7).__eq__))
        assert pops.arrive(Message(topic="%RETRY%shop_orders")) == []
        assert pops.arrive(Message(topic=topic)) == ["any"]


def test_a_filter_keeps_the_others_sleeping() -> None:
    pops = Pops()
    pops.hold("seven", accepts=MessageFilter((7).__eq__))
    pops.hold("eight", accepts=MessageFilter((8).__eq__))
    assert pops.arrive(Message(tags_code=9)) == []
    assert pops.arrive(Message(tags_code=8)) == ["eight"]
    assert len(pops.held) == 1


def test_whoever_is_gone_is_passed_over() -> None:
    pops = Pops()
    line = Line()
    pops.hold("gone", line=line)
    pops.hold("here")
    line.closed = True
    assert pops.arrive(Message()) == ["here"]


def test_notifications_are_all_told() -> None:
    pops = Pops(wakes_all=True)
    pops.hold("one")
    pops.hold("two")
    assert pops.arrive(Message(), Message()) == ["one", "two"]


def test_a_pop_that_was_resumed_keeps_nothing_of_its_request_until_its_deadline() -> None:
    class Connection(Line):
        def answer(self, is_over: bool) -> None:
            pass

    pops = Pops()
    connection = Connection()
    pops.held.hold(HeldPop(("orders", "mail", -1), EVERYTHING, pops.clock() + 15_000, Line(), connection.answer))
    request = weakref.ref(connection)
    del connection
    assert request() is not None
    pops.arrive(Message())
    assert request() is None
    assert pops.advance(16_000) == []


def test_whoever_waits_too_long_is_ended_once() -> None:
    pops = Pops()
    pops.hold("short", wait_ms=1_000)
    pops.hold("long", wait_ms=5_000)
    assert pops.advance(999) == []
    assert pops.advance(1 + TICK_MS) == ["short!"]
    assert pops.advance(10_000) == ["long!"]
    assert pops.arrive(Message()) == []


def test_whoever_is_too_late_or_too_many_is_not_held() -> None:
    pops = Pops(limit=3, queue_limit=2)
    assert pops.hold("late", wait_ms=0) is Held.TOO_LATE
    assert pops.hold("one") is Held.YES
    assert pops.hold("two") is Held.YES
    assert pops.hold("three") is Held.FULL
    assert pops.hold("four", group="shop") is Held.YES
    assert pops.hold("five", group="others") is Held.FULL
    assert pops.held.count(("orders", "mail", -1)) == 2


def test_a_queue_can_be_woken_by_hand() -> None:
    pops = Pops()
    pops.hold("any")
    pops.hold("second", queue=2)
    pops.hold("third", queue=3)
    pops.held.wake("orders", "shop", 2)
    assert pops.take() == []
    pops.held.wake("orders", "mail", 2)
    assert sorted(pops.take()) == ["any", "second"]
    pops.held.wake("orders", "mail")
    assert pops.take() == ["third"]


def test_those_woken_in_the_middle_leave_the_others_where_they_are() -> None:
    pops = Pops()
    for number in range(5):
        pops.hold(str(number), accepts=MessageFilter(number.__eq__))
    assert pops.arrive(Message(tags_code=3)) == ["3"]
    assert pops.held.count(("orders", "mail", -1)) == 4
    for number in (0, 1, 2, 4):
        assert pops.arrive(Message(tags_code=number)) == [str(number)]
    assert pops.advance(60_000) == []


def test_a_broker_that_stops_ends_everyone() -> None:
    pops = Pops()
    pops.hold("one")
    pops.hold("two", queue=2)
    pops.held.end_all()
    assert sorted(pops.take()) == ["one!", "two!"]
    assert len(pops.held) == 0


def test_nobody_waits_longer_because_the_clock_is_set_back() -> None:
    pops = Pops()
    pops.hold("short", wait_ms=1_000)
    assert pops.advance(-3_600_000) == []
    pops.hold("long", wait_ms=5_000)
    assert pops.advance(1_000 + 2 * TICK_MS) == ["short!"]
    assert pops.advance(4_000) == ["long!"]
