"""Messages that come again in a queue of their own (useSeparateRetryQueue)."""

from __future__ import annotations

from pathlib import Path

from gateway.tests.broker.popping import RETRY_TOPIC, filled, pop
from gateway.tests.broker.whole_broker import WholeBroker


def retried(broker: WholeBroker) -> dict[int, list[bytes]]:
    """The bodies in each queue of the retry topic."""
    config = broker.parts.topics.get(RETRY_TOPIC)
    assert config is not None
    return {
        queue_id: [message.body for message in broker.messages(RETRY_TOPIC, queue_id)]
        for queue_id in range(config.read_queue_nums)
    }


def sent_to_four_queues(broker: WholeBroker) -> None:
    for queue_id in range(4):
        filled(broker, f"q{queue_id}", queue_id=queue_id)


def test_messages_come_again_in_the_queue_of_their_number(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", use_separate_retry_queue=True)
    sent_to_four_queues(broker)
    client = broker.connect()
    for times in (1, 2):
        assert len(pop(broker, client, invisible_time=1_000)) == 4
        broker.wait(2)
        assert retried(broker) == {queue_id: [b"q%d" % queue_id] * times for queue_id in range(4)}
    again = pop(broker, client)
    assert sorted((message.record.queue_id, message.record.reconsume_times) for message in again) == [
        (0, 2),
        (1, 2),
        (2, 2),
        (3, 2),
    ]


def test_otherwise_they_all_come_again_in_one(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store")
    sent_to_four_queues(broker)
    assert len(pop(broker, broker.connect(), invisible_time=1_000)) == 4
    broker.wait(2)
    (bodies,) = retried(broker).values()
    assert sorted(bodies) == [b"q0", b"q1", b"q2", b"q3"]


def test_retry_topics_made_before_keep_their_queues_and_those_made_meanwhile_are_read(tmp_path: Path) -> None:
    before = WholeBroker(tmp_path / "store")
    sent_to_four_queues(before)
    pop(before, before.connect(), invisible_time=1_000)
    before.wait(2)
    before.stop()
    separate = WholeBroker(tmp_path / "store", before.clock(), use_separate_retry_queue=True)
    assert len(pop(separate, separate.connect(), invisible_time=1_000)) == 4
    separate.wait(2)
    assert len(retried(separate)[0]) == 8
    separate.stop()

    other = WholeBroker(tmp_path / "other", use_separate_retry_queue=True)
    sent_to_four_queues(other)
    pop(other, other.connect(), invisible_time=1_000)
    other.wait(2)
    other.stop()
    again = WholeBroker(tmp_path / "other", other.clock())
    client = again.connect()
    # What has to be read from the disk is left to the next pop by one that has messages.
    assert sum(len(pop(again, client, invisible_time=1_000)) for _ in range(4)) == 4
    again.wait(2)
    assert len(retried(again)[0]) == 5
    assert sum(len(pop(again, client)) for _ in range(4)) == 4
