"""Very many held pulls: whoever is woken is told in turns, each once, in order, and those who leave take no time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from gateway.delivery.deadlines import LOOK_MS
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.turns import TURN_STEPS
from gateway.delivery.held_bytes import WaitingBytes
from gateway.delivery.long_poll import RESUME_STEPS, TICK_MS, HeldPull, HeldPulls
from gateway.tests.delivery.arrivals import Clock, Message, Neighbours
from gateway.tests.delivery.reactor_turns import ReactorTurns

AT_ONCE = TURN_STEPS // RESUME_STEPS
MANY = 3 * AT_ONCE


class Crowd:
    """Held pulls that wait for 60 seconds."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.clock = Clock()
        self.turns = ReactorTurns()
        self.held = HeldPulls(self.clock, self.turns, WaitingBytes(), limit)
        self.resumed: list[tuple[str, int]] = []

    def hold(self, number: int, owner: str = "one", queue: int = 0) -> bool:
        resume = partial(self.resumed.append, (owner, number))
        return self.held.hold("orders", queue, HeldPull(7, EVERYTHING, self.clock() + 60_000, resume, owner))

    def pass_time(self) -> None:
        self.clock.now_ms += 61_000
        self.held.tick()


class Tag:
    """A filter that no tag passes, and that counts how often it is asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, code: int) -> bool:
        self.count += 1
        return False


OPERATIONS: dict[str, Callable[[Crowd], None]] = {
    "a message": lambda crowd: crowd.held.arrived([Message()]),
    "another answer": lambda crowd: crowd.held.wake("orders", 0),
    "a deleted topic": lambda crowd: crowd.held.wake_topic("orders"),
    "the time": Crowd.pass_time,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_whoever_is_woken_is_told_in_turns_in_order_and_once(name: str) -> None:
    crowd = Crowd()
    for number in range(MANY):
        assert crowd.hold(number)
    OPERATIONS[name](crowd)
    counts = [len(crowd.resumed)]
    while not crowd.turns.is_over:
        crowd.turns.end()
        counts.append(len(crowd.resumed))
    assert counts[0] == AT_ONCE
    assert all(after - before <= AT_ONCE for before, after in pairwise(counts))
    assert crowd.resumed == [("one", number) for number in range(MANY)]
    assert len(crowd.held) == 0
    for operation in OPERATIONS.values():
        operation(crowd)
    assert len(crowd.resumed) == MANY


def test_connections_take_turns_while_they_wait_to_be_told() -> None:
    crowd = Crowd()
    for number in range(MANY):
        assert crowd.hold(number, "greedy")
    assert crowd.hold(0, "honest")
    crowd.held.arrived([Message()])
    assert ("honest", 0) not in crowd.resumed
    crowd.turns.end()
    assert ("honest", 0) in crowd.resumed


def test_whoever_waits_to_be_told_is_not_woken_by_the_next_message_or_by_its_deadline() -> None:
    crowd = Crowd()
    for number in range(AT_ONCE + 1):
        assert crowd.hold(number)
    crowd.held.arrived([Message()])
    crowd.held.arrived([Message(queue_offset=8)])
    crowd.pass_time()
    crowd.held.resume_all()
    assert len(crowd.resumed) == AT_ONCE
    crowd.turns.end()
    assert crowd.resumed == [("one", number) for number in range(AT_ONCE + 1)]


def test_whoever_waits_to_be_told_still_counts() -> None:
    crowd = Crowd(limit=AT_ONCE + 2)
    for number in range(AT_ONCE + 2):
        assert crowd.hold(number)
    crowd.held.arrived([Message()])
    assert len(crowd.held) == 2
    assert [crowd.hold(number) for number in range(AT_ONCE + 1)] == [True] * AT_ONCE + [False]
    crowd.turns.end()
    assert crowd.hold(AT_ONCE)


def test_a_broker_that_stops_tells_everyone_at_once() -> None:
    crowd = Crowd()
    for number in range(MANY):
        assert crowd.hold(number, queue=number % 7)
    crowd.held.resume_all()
    assert len(crowd.resumed) == MANY


def test_pulls_of_closed_connections_take_no_places_for_long() -> None:
    class Connection:
        closed = False

    crowd = Crowd(limit=3)
    gone, stays = Connection(), Connection()

    def hold(owner: Connection) -> bool:
        resume = partial(crowd.resumed.append, ("held", 0 if owner is gone else 1))
        return crowd.held.hold("orders", 0, HeldPull(7, EVERYTHING, crowd.clock() + 60_000, resume, owner))

    assert [hold(gone), hold(gone), hold(stays), hold(stays)] == [True, True, True, False]
    gone.closed = True
    assert not hold(stays), "it was looked for closed ones a moment ago"
    for _ in range(LOOK_MS // TICK_MS):
        crowd.held.tick()
    assert hold(stays)
    assert len(crowd.held) == 2
    crowd.held.arrived([Message()])
    assert crowd.resumed == [("held", 1)] * 2
    assert len(crowd.held) == 0


def hold_tagged(crowd: Crowd, number: int, tag: Tag) -> None:
    resume = partial(crowd.resumed.append, ("one", number))
    assert crowd.held.hold("orders", 0, HeldPull(7, MessageFilter(tag), crowd.clock() + 60_000, resume, "one"))


def test_the_tags_of_a_large_batch_are_not_compared_with_those_of_all_who_wait() -> None:
    crowd, tags = Crowd(), [Tag() for _ in range(100)]
    for number, tag in enumerate(tags):
        hold_tagged(crowd, number, tag)
    batch = [Message(queue_offset=7 + at, tags_code=at) for at in range(2_000)]
    crowd.held.arrived([Neighbours(batch)])
    assert sum(tag.count for tag in tags) <= TURN_STEPS
    while not crowd.turns.is_over:
        crowd.turns.end()
    assert len(crowd.resumed) == 100, "they look by themselves"


def test_a_batch_of_one_tag_is_compared_once_with_each_who_waits() -> None:
    crowd, tags = Crowd(), [Tag() for _ in range(100)]
    for number, tag in enumerate(tags):
        hold_tagged(crowd, number, tag)
    crowd.held.arrived([Neighbours([Message(queue_offset=7 + at, tags_code=5) for at in range(2_000)])])
    assert [tag.count for tag in tags] == [1] * 100
    assert crowd.resumed == []


def test_neighbours_who_wait_for_the_same_tag_are_compared_as_one() -> None:
    crowd, tag = Crowd(), Tag()
    for number in range(1_000):
        hold_tagged(crowd, number, tag)
    crowd.held.arrived([Message()])
    assert tag.count == 1


def test_few_who_wait_for_other_tags_sleep_on_in_a_turn_without_steps() -> None:
    crowd, tag = Crowd(), Tag()
    hold_tagged(crowd, 0, tag)
    crowd.turns.use_up()
    crowd.held.arrived([Message()])
    assert (crowd.resumed, tag.count) == ([], 1)
