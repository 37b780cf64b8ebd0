import pytest

from gateway.client.message import MessageQueue
from gateway.client.send.queue_choice import BrokerFaults, QueueTurns, queue_by_key

QUEUES = [MessageQueue("t", broker, number) for broker in ("a", "b") for number in range(2)]


def test_queues_take_turns() -> None:
    turns = QueueTurns(QUEUES, 3)
    assert [turns.next_index() for _ in range(6)] == [3, 0, 1, 2, 3, 0]


def test_a_broker_that_failed_is_left_out() -> None:
    turns = QueueTurns(QUEUES, 0)
    assert {QUEUES[turns.next_away_from("a")].broker_name for _ in range(8)} == {"b"}
    assert {QUEUES[turns.next_away_from(None)].broker_name for _ in range(8)} == {"a", "b"}


def test_the_only_broker_is_used_although_it_failed() -> None:
    turns = QueueTurns(QUEUES[:2], 0)
    assert {QUEUES[turns.next_away_from("a")].broker_name for _ in range(4)} == {"a"}


def test_only_allowed_brokers_are_used_while_there_is_one() -> None:
    turns = QueueTurns(QUEUES, 0)
    assert {QUEUES[turns.next_allowed(lambda name: name == "b", None)].broker_name for _ in range(4)} == {"b"}
    assert {QUEUES[turns.next_allowed(lambda _: False, "a")].broker_name for _ in range(4)} == {"b"}


@pytest.mark.parametrize(
    ("took_ms", "out_ms"), [(10, 0), (100, 0), (550, 2000), (1800, 5000), (3000, 6000), (20_000, 30_000)]
)
def test_slow_brokers_are_left_out_as_long_as_java_leaves_them(took_ms: float, out_ms: float) -> None:
    faults = BrokerFaults()
    faults.answered("a", took_ms, 1000.0)
    assert faults.is_available("a", 1000.0 + out_ms)
    assert faults.is_available("a", 1000.0 + out_ms - 1) is (out_ms == 0)
    assert faults.is_available("b", 1000.0)


def test_a_quick_answer_ends_the_pause() -> None:
    faults = BrokerFaults()
    faults.failed("a", 0.0)
    assert not faults.is_available("a", 9_999.0)
    faults.answered("a", 5, 1.0)
    assert faults.is_available("a", 1.0)


@pytest.mark.parametrize(("key", "index"), [("", 0), ("a", 97 % 4), ("order-1", 3), ("polygenelubricants", 0)])
def test_a_key_takes_the_queue_that_java_takes(key: str, index: int) -> None:
    """``Math.abs(key.hashCode()) % 4``; the last one's hash is Integer.MIN_VALUE, which has no absolute value."""
    if key == "order-1":
        value = 0
        for char in key:
            value = (31 * value + ord(char)) & 0xFFFFFFFF
        index = abs(value - 2**32 if value >= 2**31 else value) % 4
    assert queue_by_key(QUEUES, key) == QUEUES[index]
