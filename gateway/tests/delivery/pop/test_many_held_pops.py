"""Very many held pops: a message asks only those that can use it, and those who are told take turns.

Looks at held requests are counted, not their time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.turns import TURN_STEPS
from gateway.delivery.held_bytes import WaitingBytes
from gateway.delivery.pop.held_pops import RESUME_STEPS, Held, HeldPop, HeldPops
from gateway.tests.delivery.arrivals import Clock, Message, Neighbours
from gateway.tests.delivery.reactor_turns import ReactorTurns

MANY = 500
AT_ONCE = TURN_STEPS // RESUME_STEPS


class Line:
    """A connection that counts how often it is looked at."""

    looks = 0

    def __init__(self) -> None:
        self.is_closed = False

    @property
    def closed(self) -> bool:
        Line.looks += 1
        return self.is_closed


class Crowd:
    """Held pops that wait for long."""

    def __init__(self, *, wakes_all: bool = False) -> None:
        self.clock = Clock()
        self.turns = ReactorTurns()
        self.held = HeldPops(self.clock, self.turns, WaitingBytes(), 1_000_000, 10_000, wakes_all=wakes_all)
        self.resumed: list[str] = []

    def hold(
        self,
        name: str,
        *,
        queue: int = -1,
        accepts: MessageFilter = EVERYTHING,
        line: Line | None = None,
        retries: bool = True,
    ) -> None:
        pop = HeldPop(
            ("orders", "mail", queue),
            accepts,
            self.clock() + 60_000,
            line or Line(),
            lambda _: self.resumed.append(name),
            retries=retries,
        )
        assert self.held.hold(pop) is Held.YES

    def looks(self, operation: Callable[[], None]) -> int:
        """Return how many waiting pops are looked at."""
        before = Line.looks
        operation()
        return Line.looks - before


OPERATIONS: dict[str, Callable[[Crowd], None]] = {
    "a message": lambda crowd: crowd.held.arrived([Message(queue_id=7)]),
    "a message that comes again": lambda crowd: crowd.held.arrived([Message(topic="%RETRY%mail_orders")]),
    "a queue that opens": lambda crowd: crowd.held.wake("orders", "mail", 7),
    "something that is left": lambda crowd: crowd.held.wake("orders", "mail"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_who_waits_for_other_queues_is_not_looked_at(name: str) -> None:
    counts = []
    for size in (MANY, 2 * MANY):
        crowd = Crowd()
        for number in range(size):
            crowd.hold(str(number), queue=number)
        counts.append(crowd.looks(lambda crowd=crowd: OPERATIONS[name](crowd)))  # type: ignore[misc]
        assert len(crowd.resumed) == 1
    assert counts == [1, 1]


def test_who_is_gone_is_looked_at_once() -> None:
    crowd = Crowd()
    lines = [Line() for _ in range(MANY)]
    for line in lines:
        crowd.hold("gone", line=line)
        line.is_closed = True
    crowd.hold("here")
    assert crowd.looks(lambda: crowd.held.arrived([Message()])) == MANY + 1
    assert (crowd.resumed, len(crowd.held)) == (["here"], 0)
    assert crowd.looks(lambda: crowd.held.arrived([Message()])) == 0


def test_messages_that_come_again_are_for_those_who_take_them_the_longest_waiting_first() -> None:
    crowd = Crowd()
    crowd.hold("in order", queue=1, retries=False)
    crowd.hold("first", queue=2)
    crowd.hold("second")
    again = Message(topic="%RETRY%mail+orders")
    crowd.held.arrived([again, again])
    assert crowd.resumed == ["first"]
    crowd.held.arrived([again])
    crowd.held.arrived([again])
    assert crowd.resumed == ["first", "second"]


def test_what_one_leaves_is_for_the_next_of_its_queue_or_of_any() -> None:
    crowd = Crowd()
    for name, queue in (("one", 1), ("two", 2), ("any", -1), ("another", -1)):
        crowd.hold(name, queue=queue)
    crowd.held.wake("orders", "mail", 2)
    assert sorted(crowd.resumed) == ["any", "two"]
    crowd.held.wake("orders", "mail")
    assert crowd.resumed[2:] == ["another"]
    crowd.held.wake("orders", "mail")  # it may come again
    assert crowd.resumed[3:] == ["one"]


def test_many_who_are_told_take_turns_and_one_connection_does_not_hold_up_another() -> None:
    crowd = Crowd(wakes_all=True)
    greedy = Line()
    for number in range(3 * AT_ONCE):
        crowd.hold(f"greedy {number}", line=greedy)
    crowd.hold("other")
    crowd.held.arrived([Message()])
    assert len(crowd.resumed) == AT_ONCE
    assert len(crowd.held) == 0
    crowd.turns.end()
    assert "other" in crowd.resumed
    assert len(crowd.resumed) < 2 * AT_ONCE
    while not crowd.turns.is_over:
        crowd.turns.end()
    assert Counter(crowd.resumed).most_common(1)[0][1] == 1
    assert len(crowd.resumed) == 3 * AT_ONCE + 1


def test_many_whose_time_is_over_take_turns() -> None:
    crowd = Crowd()
    for number in range(3 * AT_ONCE):
        crowd.hold(str(number))
    crowd.clock.now_ms += 61_000
    crowd.held.tick()
    assert len(crowd.resumed) == AT_ONCE
    while not crowd.turns.is_over:
        crowd.turns.end()
    assert len(crowd.resumed) == 3 * AT_ONCE


def test_the_tags_of_a_large_batch_are_not_compared_with_those_of_all_who_wait() -> None:
    compared = [0]

    def is_wanted(_code: int | None) -> bool:
        compared[0] += 1
        return False

    crowd = Crowd()
    for number in range(100):
        crowd.hold(str(number), accepts=MessageFilter(is_wanted))
    crowd.held.arrived([Neighbours([Message()] * 2_000)])
    assert compared[0] <= TURN_STEPS
    assert len(crowd.resumed) <= 1  # it looks by itself
