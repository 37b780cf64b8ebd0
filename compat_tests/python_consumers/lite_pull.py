"""Python lite pull consumers against the gateway and against Apache RocketMQ."""

from __future__ import annotations

import asyncio

from compat_tests.peers import Peer
from compat_tests.python_consumers.consuming import (
    Seen,
    lite_settings,
    make_topic,
    poll_until,
    push_settings,
    send,
)
from gateway.client import (
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    aio,
)


def test_a_lite_pull_consumer_iterates_seeks_pauses_and_commits(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 40)
    group = "g_" + topic
    settings = lite_settings(server, auto_commit=False)
    with LitePullConsumer(group, settings, subscriptions={topic: "*"}) as consumer:
        got: list[ReceivedMessage] = []
        for messages in consumer:
            assert len(messages) <= settings.pull_batch_size
            got += messages
            if len(got) == 40:
                break
        assert sorted(int(message.body) for message in got) == list(range(40))
        queue = sorted(consumer.assignment)[0]
        assert consumer.committed(queue) in (None, 0)
        consumer.commit()
        assert consumer.committed(queue) == consumer.position(queue) == 10
        consumer.seek(queue, 4)
        assert [message.queue_offset for message in poll_until(consumer, 6)] == list(range(4, 10))
        consumer.pause([queue])
        consumer.seek_to_begin(queue)
        assert consumer.poll(0.5) == []
        consumer.resume([queue])
        assert len(poll_until(consumer, 10)) == 10
        consumer.commit({queue: 3})
    with LitePullConsumer(group, settings, subscriptions={topic: "*"}) as consumer:
        assert [message.queue_offset for message in poll_until(consumer, 7)] == list(range(3, 10))


def test_what_was_polled_is_committed_at_the_end_of_a_with_block(server: Peer, producer: Producer, topic: str) -> None:
    send(producer, topic, 20)

    async def scenario() -> None:
        settings = lite_settings(server)
        group = "g_" + topic
        got = 0
        async with aio.LitePullConsumer(group, settings, subscriptions={topic: "*"}) as consumer:
            async for messages in consumer:
                got += len(messages)
                if got == 20:
                    break
        # The control may forget some of a group's very first offsets, which arrive all at once, but no later ones; see
        # ``test_a_group_continues_where_it_stopped`` of the Java scenarios.
        chances = 2 if server.name.startswith("rocketmq") else 1
        left: list[ReceivedMessage] = []
        for _ in range(chances):
            async with aio.LitePullConsumer(group, settings, subscriptions={topic: "*"}) as consumer:
                left = await consumer.poll(1.0)
        assert left == []

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_batches_that_are_stored_as_one_record_are_read_one_by_one(server: Peer, producer: Producer) -> None:
    topic = make_topic(server, 1, {"queue.type": "BatchCQ"})
    for first in (0, 3):
        producer.send_batch([Message(topic, b"%d" % number) for number in range(first, first + 3)])
    seen = Seen()
    with PushConsumer("g_" + topic, seen, push_settings(server), subscriptions={topic: "*"}):
        seen.wait(6)
        seen.check_once(6)
    assert list(seen.by_queue.values()) == [[0, 1, 2, 3, 4, 5]]
    with LitePullConsumer("l_" + topic, lite_settings(server)) as consumer:
        (queue,) = consumer.message_queues(topic)
        consumer.assign([queue])
        consumer.seek(queue, 4)
        assert [(message.body, message.queue_offset) for message in poll_until(consumer, 2)] == [(b"4", 4), (b"5", 5)]
