"""The gateway in a container, reached from another one: what depends on the addresses that it tells its clients."""

from __future__ import annotations

from compat_tests import scenarios
from compat_tests.scenarios import Scene


def test_what_is_sent_to_a_container_is_received_once(in_container: Scene) -> None:
    topic = in_container.topic()
    scenarios.send_all(in_container, topic)
    scenarios.receive_all(in_container, topic, "consume-push")


def test_queues_are_locked_and_kept_in_order_in_a_container(in_container: Scene) -> None:
    topic = in_container.topic(queues=8)
    scenarios.send_all(in_container, topic, "send-orderly", shards=16, threads=8)
    got = scenarios.receive_all(in_container, topic, "consume-orderly", shards=16)
    assert got["order_breaks"] == 0, str(got)


def test_messages_are_viewed_by_ids_that_name_a_container(in_container: Scene) -> None:
    topic = in_container.topic()
    sent = in_container.run("send-sync", topic=topic, run=scenarios.run_name(topic), count=10)
    offset_id, unique_id, key = sent.json("ids")[0].split("/")
    for message_id in (offset_id, unique_id):
        assert in_container.run("view-id", topic=topic, id=message_id).text("key") == key


def test_producers_are_asked_by_a_container(in_container: Scene) -> None:
    scenarios.transactions_by_thirds(in_container)
