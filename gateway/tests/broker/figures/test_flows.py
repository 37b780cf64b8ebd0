"""Messages in to topics and out to groups, over the last minute, hour and day."""

from __future__ import annotations

from gateway.broker.figures.flows import DAY, FLOW_SAMPLE_MS, HOUR, MINUTE, Amount, Flows
from gateway.store.put_result import PutOutcome, PutResult, PutStatus
from wire.message.record import OutgoingMessage


def stored(topic: str, size: int = 100) -> PutOutcome:
    """A message of ``size`` bytes that was stored."""
    message = OutgoingMessage(
        topic=topic,
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_at_ms=0,
        born_host=bytes(8),
        store_host=bytes(8),
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=b"",
    )
    return PutResult(PutStatus.PUT_OK, message).at(None, 0, 0, size)


class Clock:
    """Time by hand, with the samples that a broker takes."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.flows = Flows(lambda: self.now_ms)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds * 1000 // FLOW_SAMPLE_MS):
            self.now_ms += FLOW_SAMPLE_MS
            self.flows.sample()

    def into(self, topic: str, window: int) -> Amount:
        flow = self.flows.into(topic)
        assert flow is not None
        return flow.within(window, self.now_ms)


def test_a_new_topic_is_counted_from_its_first_message_on() -> None:
    clock = Clock()
    topics = clock.flows.stored([stored("t"), stored("t"), stored("u", 7)])
    assert topics == {"t", "u"}
    clock.now_ms += 500
    assert clock.into("t", MINUTE) == Amount(2, 200, 2, 500)
    assert clock.into("u", DAY) == Amount(1, 7, 1, 500)
    assert clock.flows.into("v") is None


def test_each_window_forgets_what_is_older() -> None:
    clock = Clock()
    clock.flows.stored([stored("t")] * 10)
    clock.wait(30)
    clock.flows.stored([stored("t")] * 5)
    clock.wait(40)
    assert clock.into("t", MINUTE).messages == 5
    clock.wait(60)
    assert clock.into("t", MINUTE) == Amount(0, 0, 0, 60_000)
    assert clock.into("t", HOUR).messages == 15
    clock.wait(2 * 3600)
    assert (clock.into("t", HOUR).messages, clock.into("t", DAY).messages) == (0, 15)


def test_the_rate_of_a_group_is_that_of_the_last_minute() -> None:
    clock = Clock()
    assert clock.flows.given_per_second("t", "g") == 0.0
    clock.flows.given("t", "g", 100, 5_000)
    assert clock.flows.given_per_second("t", "g") == 0.0
    clock.wait(20)
    assert clock.flows.given_per_second("t", "g") == 5.0
    flow = clock.flows.out_of("t", "g")
    assert flow is not None
    assert flow.within(MINUTE, clock.now_ms) == Amount(100, 5_000, 1, 20_000)


def test_what_was_idle_for_a_day_is_forgotten() -> None:
    clock = Clock()
    clock.flows.stored([stored("t")])
    clock.flows.given("t", "g", 1, 100)
    clock.wait(23 * 3600)
    assert clock.flows.into("t") is not None
    clock.wait(3 * 3600)
    assert clock.flows.into("t") is None
    assert clock.flows.out_of("t", "g") is None


def test_only_so_many_topics_and_groups_are_counted() -> None:
    flows = Flows(lambda: 0, max_flows=2)
    flows.stored([stored("t"), stored("u"), stored("v"), stored("t")])
    flows.given("t", "g", 1, 100)
    flow = flows.into("t")
    assert flow is not None
    assert flow.messages == 2
    assert (flows.into("v"), flows.out_of("t", "g")) == (None, None)
    assert (len(list(flows.all_in())), len(list(flows.all_out()))) == (2, 0)
