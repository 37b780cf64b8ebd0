"""Tests of the blocking lite pull consumer: every method reaches the core."""

from __future__ import annotations

import threading

import pytest

from gateway.client import ClientClosed, ConsumeFrom, LitePullConsumer, LitePullSettings
from gateway.client.tests.blocking.broker_thread import BrokerThread, broker_thread


def settings(server: BrokerThread) -> LitePullSettings:
    return LitePullSettings(
        namesrv=server.broker.address, consume_from_where=ConsumeFrom.FIRST_OFFSET, pull_batch_size=2, poll_timeout=5.0
    )


def test_it_is_iterated_and_every_method_works() -> None:
    with broker_thread(queues=1) as server:
        server.put("t", *[b"%d" % n for n in range(4)])
        queue = server.broker.queue("t")
        consumer = LitePullConsumer("g", settings(server))
        consumer.subscribe("t")
        with consumer:
            assert [len(messages) for _, messages in zip(range(2), consumer, strict=False)] == [2, 2]
            assert consumer.assignment == {queue}
            consumer.commit()
            assert consumer.committed(queue) == consumer.position(queue) == 4
            consumer.seek(queue, 3)
            assert [message.body for message in consumer.poll()] == [b"3"]
            consumer.seek_to_begin(queue)
            assert len(consumer.poll()) == 2
            consumer.pause([queue])
            consumer.seek_to_end(queue)
            consumer.resume([queue])
            assert consumer.poll(0.01) == []
            assert consumer.offset_for_time(queue, 1.0) == 0
            assert consumer.message_queues("t") == [queue]
            assert consumer.settings.pull_batch_size == 2
            consumer.subscribe("u")
            consumer.unsubscribe("u")
        with LitePullConsumer("h", settings(server)) as assigned:
            assigned.assign([queue])
            assert len(assigned.poll()) == 2


def test_an_exception_in_the_block_does_not_commit_the_last_batch() -> None:
    with broker_thread(queues=1) as server:
        server.put("t", b"0")

        def process() -> None:
            with LitePullConsumer("g", settings(server), subscriptions={"t": "*"}) as consumer:
                assert len(consumer.poll()) == 1
                raise ValueError("processing")

        with pytest.raises(ValueError, match="processing"):
            process()
        assert server.broker.offsets.get(("g", "t", 0), 0) == 0


def test_iteration_ends_when_another_thread_closes_the_consumer() -> None:
    with broker_thread(queues=1) as server:
        consumer = LitePullConsumer("g", settings(server), subscriptions={"t": "*"})
        consumer.start()
        seen: list[object] = []
        reader = threading.Thread(target=lambda: seen.extend(consumer))
        reader.start()
        consumer.close()
        reader.join(10)
        assert not reader.is_alive()
        assert seen == []
        with pytest.raises(ClientClosed):
            consumer.poll()
        with pytest.raises(ClientClosed):
            next(iter(LitePullConsumer("never_started", settings(server))))
