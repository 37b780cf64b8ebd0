"""Python push consumers against the gateway and against Apache RocketMQ."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from compat_tests.conftest import running
from compat_tests.environment import wait_until
from compat_tests.peers import QUICK, Peer, make_peer
from compat_tests.python_consumers.consuming import (
    GATEWAY,
    Seen,
    lite_settings,
    make_topic,
    poll_until,
    push_settings,
    send,
    send_in_order,
    shares,
)
from gateway.client import (
    AdminClient,
    BrokerError,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    RocketMQError,
    Sql,
    aio,
)


def test_a_push_consumer_gets_every_message_once_and_goes_on_after_a_restart(
    server: Peer, producer: Producer, topic: str
) -> None:
    send(producer, topic, 50)
    seen = Seen()
    settings = push_settings(server)
    with PushConsumer("g_" + topic, seen, settings, subscriptions={topic: "*"}):
        seen.wait(50)
        send(producer, topic, 50, first=50)
        seen.wait(100)
    with PushConsumer("g_" + topic, batch_listener=seen.batch, settings=settings, subscriptions={topic: "*"}):
        send(producer, topic, 50, first=100)
        seen.wait(150)
    seen.check_once(150)


def test_a_coroutine_listener_gets_batches_of_one_queue(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 200)
    seen = Seen()
    batches: list[int] = []

    async def listen(messages: Sequence[ReceivedMessage]) -> None:
        assert len({message.queue for message in messages}) == 1
        await asyncio.sleep(0)
        batches.append(len(messages))
        seen.batch(messages)

    async def scenario() -> None:
        settings = push_settings(server)
        async with aio.PushConsumer("g_" + topic, None, settings, batch_listener=listen, subscriptions={topic: "*"}):
            while len(seen.bodies) < 200:
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(scenario(), 30))
    seen.check_once(200)
    assert max(batches) > 1


def test_tags_are_chosen_exactly(server: Peer, producer: Producer, topic: str) -> None:
    # "Aa" and "BB" have the same hash: the broker lets both pass.
    for number, tag in enumerate(("Aa", "BB", "C", "Aa", "BB", "C", "Aa")):
        producer.send(Message(topic, b"%d" % number, tags=tag))
    seen = Seen()
    with PushConsumer("g_" + topic, seen, push_settings(server), subscriptions={topic: "Aa || C"}):
        seen.wait(5)
    assert seen.bodies == Counter((b"0", b"2", b"3", b"5", b"6"))
    with AdminClient(namesrv=server.nameserver) as admin:
        wait_until(lambda: admin.offsets.lag("g_" + topic) == 0, "offsets beyond what was not chosen", timeout_s=5.0)


def test_failed_messages_come_again_and_end_as_dead_letters(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 10)
    group = "g_" + topic
    attempts: dict[bytes, list[int]] = defaultdict(list)

    def listen(message: ReceivedMessage) -> None:
        attempts[message.body].append(message.reconsume_times)
        assert message.topic == topic
        if message.body == b"3":
            raise RetryLater(1)
        if message.body == b"5" and message.reconsume_times == 0:
            raise ValueError("for the first time")

    settings = push_settings(server, max_reconsume_times=2)
    with PushConsumer(group, listen, settings, subscriptions={topic: "*"}):
        wait_until(lambda: attempts[b"3"] == [0, 1, 2] and attempts[b"5"] == [0, 1], f"retries: {attempts}")
    assert all(attempts[b"%d" % number] == [0] for number in range(10) if number not in (3, 5))
    with LitePullConsumer("d_" + topic, lite_settings(server)) as dead:
        dead.assign(dead.message_queues(f"%DLQ%{group}"))
        letters = [message.body for message in poll_until(dead, 1)]
    assert letters == [b"3"]


def test_the_failed_messages_of_a_batch_come_again_alone(server: Peer, producer: Producer, topic: str) -> None:
    (queue, *_) = sorted(producer.publish_queues(topic))
    send_in_order(producer, topic, queue, 10)
    attempts: dict[bytes, list[int]] = defaultdict(list)

    def listen(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            attempts[message.body].append(message.reconsume_times)
        failed = [message for message in messages if message.body in (b"2", b"7") and not message.reconsume_times]
        if failed:
            raise RetryLater(messages=failed)

    with PushConsumer("g_" + topic, settings=push_settings(server), batch_listener=listen, subscriptions={topic: "*"}):
        wait_until(lambda: attempts[b"2"] == attempts[b"7"] == [0, 1], "the two retries")
    assert [attempts[b"%d" % number] for number in (0, 1, 3, 9)] == [[0]] * 4


def test_an_orderly_consumer_keeps_the_order_of_every_queue_through_failures(
    server: Peer, producer: Producer, topic: str
) -> None:
    queues = sorted(producer.publish_queues(topic))
    for number, queue in enumerate(queues):
        send_in_order(producer, topic, queue, 20, first=100 * number)
    seen = Seen()
    failures: Counter[bytes] = Counter()

    def listen(message: ReceivedMessage) -> None:
        if int(message.body) % 100 == 7 and failures[message.body] < 2:
            failures[message.body] += 1
            assert message.reconsume_times == failures[message.body] - 1
            raise RetryLater
        seen(message)

    settings = push_settings(server, suspend_current_queue_time=0.05)
    with PushConsumer("g_" + topic, listen, settings, subscriptions={topic: "*"}, orderly=True) as one:
        wait_until(lambda: len(seen.bodies) >= 40, "half of the messages")
        with PushConsumer("g_" + topic, listen, settings, subscriptions={topic: "*"}, orderly=True) as two:
            wait_until(lambda: shares([one, two], topic) == [2, 2], "two queues each", timeout_s=60)
            for number, queue in enumerate(queues):
                send_in_order(producer, topic, queue, 20, first=100 * number + 20)
            seen.wait(160)
    assert set(seen.bodies.values()) == {1}
    assert [seen.by_queue[queue] for queue in queues] == [list(range(100 * n, 100 * n + 40)) for n in range(4)]


def test_a_sql_expression_chooses_by_properties(server: Peer, producer: Producer, topic: str) -> None:
    for number in range(10):
        producer.send(Message(topic, b"%d" % number, properties={"price": str(number)}))
    seen = Seen()
    with PushConsumer("g_" + topic, seen, push_settings(server), subscriptions={topic: Sql("price >= 6")}):
        seen.wait(4)
    assert set(seen.bodies) == {b"6", b"7", b"8", b"9"}
    with pytest.raises(BrokerError), PushConsumer("h", seen, push_settings(server), subscriptions={topic: Sql("a >")}):
        pass


def test_a_consumer_goes_on_after_its_broker_was_killed(tmp_path: Path) -> None:
    peer = make_peer(GATEWAY, tmp_path / "data", QUICK)
    with running(peer):
        topic = make_topic(peer, 4)
        seen = Seen()
        settings = push_settings(peer, pull_time_delay_when_exception=0.2)
        with (
            Producer("p_" + topic, namesrv=peer.nameserver) as producer,
            PushConsumer("g_" + topic, seen, settings, subscriptions={topic: "*"}),
        ):
            send(producer, topic, 20)
            seen.wait(20)
            peer.kill()
            peer.start()

            def is_back() -> bool:
                try:
                    send(producer, topic, 1, first=20)
                except RocketMQError:
                    return False
                return True

            wait_until(is_back, "the broker takes messages again")
            send(producer, topic, 20, first=21)
            seen.wait(41)
    assert set(seen.bodies) == {b"%d" % number for number in range(41)}
