"""Tests of the blocking push consumer: every method reaches the core."""

from __future__ import annotations

import queue

from gateway.client import ConsumeFrom, PushConsumer, PushSettings, ReceivedMessage
from gateway.client.tests.blocking.broker_thread import broker_thread


def test_messages_arrive_and_every_method_works_from_another_thread() -> None:
    got: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen(message: ReceivedMessage) -> None:
        got.put(message.body)

    with broker_thread(queues=1) as server:
        settings = PushSettings(namesrv=server.broker.address, consume_from_where=ConsumeFrom.FIRST_OFFSET)
        consumer = PushConsumer("g", listen, settings)
        consumer.subscribe("t")
        server.put("t", b"0")
        with consumer:
            assert consumer.settings is settings
            assert got.get(timeout=10) == b"0"
            assert server.broker.queue("t") in consumer.assignment
            consumer.suspend()
            consumer.resume()
            consumer.commit()
            server.put("t", b"1")
            assert got.get(timeout=10) == b"1"
            consumer.subscribe("u")
            consumer.unsubscribe("u")
        assert server.broker.offsets["g", "t", 0] == 2
