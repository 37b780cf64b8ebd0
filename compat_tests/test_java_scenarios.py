"""Every API of the stock Java clients against each peer, and the gateway without quick parts: all is received, once."""

from __future__ import annotations

import pytest

from compat_tests import scenarios
from compat_tests.conftest import PAIRS, PLAIN, pair_name
from compat_tests.scenarios import Scene

pytestmark = pytest.mark.parametrize("scene", [*PAIRS, PLAIN], ids=pair_name, indirect=True, scope="module")


def test_synchronous_sends_are_received_once_by_a_concurrent_push_consumer(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-sync")
    scenarios.receive_all(scene, topic, "consume-push")


def test_asynchronous_sends_are_received_once_by_a_lite_pull_consumer(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-async")
    scenarios.receive_all(scene, topic, "consume-lite-pull")


def test_one_way_sends_are_received_once_by_a_pull_consumer(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-oneway")
    scenarios.receive_all(scene, topic, "consume-pull")


def test_batches_are_received_message_by_message(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-batch", batch=20)
    scenarios.receive_all(scene, topic, "consume-push")


def test_messages_of_a_sharding_key_arrive_in_order(scene: Scene) -> None:
    topic = scene.topic(queues=8)
    scenarios.send_all(scene, topic, "send-orderly", shards=16, threads=8)
    got = scenarios.receive_all(scene, topic, "consume-orderly", shards=16)
    assert got["order_breaks"] == 0, str(got)


def test_a_tag_expression_selects_exactly_its_messages(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-sync", tags="red,green,blue")
    wanted = frozenset(n for n in range(scene.messages) if n % 3 != 1)
    got = scenarios.receive_all(scene, topic, "consume-push", count=len(wanted), tags="red || blue")
    assert got.numbers() == wanted


def test_every_message_is_found_by_its_key_and_viewed_by_its_ids(scene: Scene) -> None:
    topic = scene.topic()
    sent = scenarios.send_all(scene, topic)
    found = scene.run("query-key", topic=topic, run=scenarios.run_name(topic), count=scene.messages)
    assert (found["found"], found["duplicates"], found["strangers"]) == (scene.messages, 0, 0), str(found)
    offset_id, unique_id, key = sent.json("ids")[0].split("/")
    for message_id in (offset_id, unique_id):
        seen = scene.run("view-id", topic=topic, id=message_id)
        assert seen.text("key") == key


def test_failed_messages_are_retried_with_delay_and_end_as_dead_letters(scene: Scene) -> None:
    scenarios.retried_then_dead(scene)


def test_exactly_the_committed_transactions_are_received(scene: Scene) -> None:
    scenarios.transactions_by_thirds(scene)


def test_every_member_of_a_broadcasting_group_receives_everything(scene: Scene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic)
    got = scenarios.receive_all(scene, topic, "consume-broadcast", members=2)
    assert got["total"] == 2 * scene.messages


def test_waiting_consumers_get_messages_that_come_later(scene: Scene) -> None:
    """Long polling: the consumer waits on an empty topic, and gets what is sent afterwards."""
    topic = scene.topic()
    name = scenarios.run_name(topic)
    waiting = scene.start("consume-push", topic=topic, run=name, group=f"g_{topic}", count=scene.messages)
    scenarios.send_all(scene, topic)
    scenarios.only_once(waiting.result(), scene.messages)


@pytest.mark.parametrize("consume", ["consume-push", "consume-lite-pull"])
def test_a_group_continues_where_it_stopped(scene: Scene, consume: str) -> None:
    # Apache RocketMQ 5.5.0 may forget some of the very first offsets of a group in a topic when several arrive at
    # once: each of its threads that finds no table of the group yet puts one of its own in place of the others'. The
    # lite pull consumer tells all of them at once when it ends, and none before.
    again = {"commit_twice": True} if scene.peer.name.startswith("rocketmq-") and consume == "consume-lite-pull" else {}
    topic = scene.topic()
    name = scenarios.run_name(topic)
    group = f"g_{topic}"
    scenarios.send_all(scene, topic)
    scenarios.receive_all(scene, topic, consume, group=group, **again)
    scene.run("send-sync", topic=topic, run=name, first=scene.messages, count=100)
    more = scene.run(consume, topic=topic, run=name, group=group, count=100)
    scenarios.only_once(more, 100)
    assert min(more.numbers()) == scene.messages
