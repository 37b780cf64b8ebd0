"""Held pulls wake for their queue, offset and tags, each exactly once, or when their time is over."""

import weakref
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.sql92 import sql92_filter
from gateway.delivery.held_bytes import WaitingBytes
from gateway.delivery.long_poll import TICK_MS, HeldPull, HeldPulls
from gateway.tests.delivery.arrivals import Clock, Message, Neighbours, Sent
from gateway.tests.delivery.reactor_turns import ReactorTurns


class Pulls:
    """Held pulls and a list of those resumed."""

    def __init__(self, limit: int = 100, owner_limit: int | None = None) -> None:
        self.clock = Clock()
        self.turns = ReactorTurns()
        self.held = HeldPulls(self.clock, self.turns, WaitingBytes(), limit, owner_limit)
        self.resumed: list[str] = []

    def hold(
        self,
        name: str,
        *,
        topic: str = "orders",
        queue: int = 0,
        offset: int = 7,
        wait_ms: int = 15_000,
        tags: frozenset[int] | None = None,
        colour: str | None = None,
        owner: str = "one",
        characters: int = 0,
    ) -> bool:
        accepts = None if tags is None else tags.__contains__
        by_colour = None if colour is None else sql92_filter(f"colour = '{colour}'")
        wanted = MessageFilter(accepts, by_colour)
        pull = HeldPull(offset, wanted, self.clock() + wait_ms, lambda: self.resumed.append(name), owner, characters)
        return self.held.hold(topic, queue, pull)

    def advance(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.held.tick()

    def have_turns(self) -> None:
        while not self.turns.is_over:
            self.turns.end()


def test_a_message_wakes_the_pulls_of_its_queue_and_no_others() -> None:
    pulls = Pulls()
    pulls.hold("mine")
    pulls.hold("other queue", queue=1)
    pulls.hold("other topic", topic="invoices")
    pulls.held.arrived([Message()])
    assert pulls.resumed == ["mine"]
    assert len(pulls.held) == 2


def test_a_pull_that_was_resumed_keeps_nothing_of_its_request_until_its_deadline() -> None:
    class Connection:
        def answer(self) -> None:
            pass

    pulls = Pulls()
    connection = Connection()
    pulls.held.hold("orders", 0, HeldPull(7, EVERYTHING, pulls.clock() + 15_000, connection.answer, connection))
    pulls.held.arrived([Message()])
    request = weakref.ref(connection)
    del connection
    assert request() is None
    pulls.advance(16_000)
    assert len(pulls.held) == 0


def test_long_expressions_of_one_connection_leave_room_for_those_of_others() -> None:
    pulls, count = Pulls(limit=10_000), 0
    while pulls.hold("greedy", characters=65_536, owner="greedy"):
        count += 1
    assert count == 768, "48 MiB of 64"
    assert pulls.hold("short", owner="greedy")
    assert pulls.hold("honest", characters=65_536, owner="honest")
    pulls.advance(16_000)
    assert pulls.hold("greedy", characters=65_536, owner="greedy")


def test_a_batch_wakes_a_pull_once() -> None:
    pulls = Pulls()
    pulls.hold("mine")
    pulls.held.arrived([Message(queue_offset=7), Message(queue_offset=8), Message(queue_offset=9)])
    pulls.held.arrived([Message(queue_offset=10)])
    assert pulls.resumed == ["mine"]
    assert len(pulls.held) == 0


def test_of_neighbours_any_may_be_the_one_a_pull_waits_for() -> None:
    pulls = Pulls()
    pulls.hold("any")
    pulls.hold("red", tags=frozenset({5}))
    pulls.hold("blue", tags=frozenset({6}))
    pulls.hold("later", offset=9)
    pulls.held.arrived([Neighbours([Message(), Message(queue_offset=8, tags_code=5)])])
    assert pulls.resumed == ["any", "red"]
    pulls.held.arrived([Neighbours([Message(queue_offset=9), Message(queue_offset=10, tags_code=6)])])
    assert pulls.resumed == ["any", "red", "later", "blue"]


def test_neighbours_are_not_looked_at_further_when_all_are_awake() -> None:
    class Counted(Neighbours):
        def each(self) -> Iterator[Message]:
            for message in self.messages:
                looked_at.append(message.queue_offset)
                yield message

    looked_at: list[int] = []
    pulls = Pulls()
    pulls.hold("any")
    pulls.held.arrived([Counted([Message(queue_offset=offset) for offset in range(7, 100)])])
    assert pulls.resumed == ["any"]
    assert looked_at == [7]


def test_a_pull_sleeps_on_when_only_other_tags_arrive() -> None:
    pulls = Pulls()
    pulls.hold("tagged", tags=frozenset({5}))
    pulls.held.arrived([Message(tags_code=4)])
    assert pulls.resumed == []
    pulls.held.arrived([Message(queue_offset=8, tags_code=5)])
    assert pulls.resumed == ["tagged"]


def test_a_pull_sleeps_on_when_only_other_properties_arrive() -> None:
    pulls = Pulls()
    pulls.hold("red", colour="red")
    pulls.held.arrived([Message(), Message(queue_offset=8, message=Sent({"colour": "blue"}))])
    assert pulls.resumed == []
    pulls.held.arrived([Message(queue_offset=9, message=Sent({"colour": "red"}))])
    assert pulls.resumed == ["red"]


def test_a_message_below_the_offset_asked_for_wakes_nobody() -> None:
    pulls = Pulls()
    pulls.hold("later", offset=8)
    pulls.held.arrived([Message(queue_offset=7)])
    assert pulls.resumed == []


def test_a_pull_is_resumed_when_its_time_is_over_and_never_again() -> None:
    pulls = Pulls()
    pulls.hold("short", wait_ms=1_000)
    pulls.hold("long", wait_ms=20_000)
    pulls.advance(999)
    assert pulls.resumed == []
    pulls.advance(1 + TICK_MS)
    assert pulls.resumed == ["short"]
    pulls.held.arrived([Message()])
    pulls.advance(60_000)
    assert pulls.resumed == ["short", "long"]
    assert len(pulls.held) == 0


def test_over_the_limit_a_pull_is_not_held() -> None:
    pulls = Pulls(limit=1)
    assert pulls.hold("first")
    assert not pulls.hold("second")
    pulls.held.arrived([Message()])
    assert pulls.hold("third")


def test_a_pull_held_again_while_it_is_resumed_waits_for_the_next_message() -> None:
    pulls = Pulls()

    def again() -> None:
        pulls.resumed.append("again")
        pulls.hold("kept", offset=8)

    pulls.held.hold("orders", 0, HeldPull(7, EVERYTHING, pulls.clock() + 1_000, again))
    pulls.held.arrived([Message(queue_offset=7)])
    assert pulls.resumed == ["again"]
    pulls.held.arrived([Message(queue_offset=8)])
    assert pulls.resumed == ["again", "kept"]


def test_stopping_resumes_everything() -> None:
    pulls = Pulls()
    pulls.hold("a")
    pulls.hold("b", topic="invoices")
    pulls.held.resume_all()
    assert sorted(pulls.resumed) == ["a", "b"]
    assert len(pulls.held) == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("hold"), st.integers(0, 3), st.integers(0, 5_000)),
            st.tuples(st.just("arrive"), st.integers(0, 3), st.integers(0, 10)),
            st.tuples(st.just("wait"), st.integers(0, 3), st.integers(0, 2_000)),
        )
    )
)
def test_every_pull_is_resumed_exactly_once(steps: list[tuple[str, int, int]]) -> None:
    pulls = Pulls()
    names = []
    for number, (step, queue, value) in enumerate(steps):
        if step == "hold":
            names.append(str(number))
            pulls.hold(str(number), queue=queue, offset=0, wait_ms=value)
        elif step == "arrive":
            pulls.held.arrived([Message(queue_id=queue, queue_offset=value)])
        else:
            pulls.advance(value)
        assert len(pulls.held) == len(names) - len(pulls.resumed)
    pulls.advance(10_000)
    assert sorted(pulls.resumed) == sorted(names)
    assert len(pulls.held) == 0


def test_a_queue_can_be_woken_whatever_its_pulls_wait_for() -> None:
    pulls = Pulls()
    pulls.hold("far ahead", offset=99)
    pulls.hold("tagged", tags=frozenset({1}))
    pulls.hold("other queue", queue=1)
    pulls.held.wake("orders", 0)
    assert sorted(pulls.resumed) == ["far ahead", "tagged"]
    assert len(pulls.held) == 1
    pulls.held.wake("orders", 0)
    pulls.held.wake("other", 7)
    pulls.advance(16_000)
    assert sorted(pulls.resumed) == ["far ahead", "other queue", "tagged"]


def test_one_connection_does_not_take_all_the_places() -> None:
    pulls = Pulls(owner_limit=2)
    assert pulls.hold("a")
    assert pulls.hold("b", queue=1)
    assert not pulls.hold("c")
    assert pulls.hold("d", owner="other")
    pulls.held.arrived([Message()])
    assert pulls.hold("e")
    assert not pulls.hold("f")


def test_no_pull_waits_longer_because_the_clock_is_set_back() -> None:
    pulls = Pulls()
    pulls.hold("short", wait_ms=1_000)
    pulls.advance(-3_600_000)
    pulls.hold("long", wait_ms=5_000)
    pulls.advance(1_000 + 2 * TICK_MS)
    assert pulls.resumed == ["short"]
    pulls.advance(4_000)
    assert pulls.resumed == ["short", "long"]


def test_a_pull_whose_filter_has_no_steps_left_is_resumed_to_look_by_itself() -> None:
    pulls = Pulls(limit=500)
    for number in range(500):
        pulls.hold(str(number), colour="red")
    pulls.held.arrived([Message(message=Sent({"colour": "blue" * 8_000}))])
    pulls.have_turns()
    first = len(pulls.resumed)
    assert 0 < first < 500, "until the steps were used up, filters were asked"
    assert len(pulls.held) == 500 - first
    pulls.held.arrived([Message(message=Sent({"colour": "red"}))])
    pulls.have_turns()
    assert sorted(map(int, pulls.resumed)) == list(range(500)), "each once"
    assert len(pulls.held) == 0
