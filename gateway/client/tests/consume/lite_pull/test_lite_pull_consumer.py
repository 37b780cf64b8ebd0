"""Tests of the lite pull consumer against a broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.client import process
from gateway.client.consume.lite_pull.lite_pull_consumer import LitePullConsumer
from gateway.client.consume.settings.consumer_settings import ConsumeFrom, LitePullSettings
from gateway.client.errors import ClientClosed, ConfigurationError, NotCommitted, UsedAfterFork, UsedOnOtherLoop
from gateway.client.message import ReceivedMessage
from gateway.client.tests.consuming_broker import ConsumingBroker, until
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand


def settings(broker: ConsumingBroker, **changes: Any) -> LitePullSettings:
    given = {
        "namesrv": broker.address,
        "consume_from_where": ConsumeFrom.FIRST_OFFSET,
        "pull_time_delay_when_exception": 0.02,
        "poll_timeout": 0.5,
        **changes,
    }
    return LitePullSettings(**given)


def bodies(messages: list[ReceivedMessage]) -> list[bytes]:
    return [message.body for message in messages]


def test_batches_come_one_by_one_and_count_as_consumed_with_the_next() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", *[b"%d" % n for n in range(5)])
            chosen = settings(broker, pull_batch_size=2)
            async with LitePullConsumer("g", chosen, subscriptions={"t": "*"}) as consumer:
                queue = broker.queue("t")
                assert consumer.assignment == {queue}
                assert bodies(await consumer.poll()) == [b"0", b"1"]
                assert consumer.position(queue) == 0
                assert bodies(await consumer.poll()) == [b"2", b"3"]
                assert consumer.position(queue) == 2
                await consumer.commit()
                assert broker.offsets["g", "t", 0] == 4
                assert await consumer.committed(queue) == 4
                assert bodies(await consumer.poll()) == [b"4"]
            assert broker.offsets["g", "t", 0] == 5, "the end of the block"
            assert broker.asked(RequestCode.LITE_PULL_MESSAGE)

    run(scenario())


def test_an_exception_in_the_block_leaves_the_last_batch_for_the_next_time() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", *[b"%d" % n for n in range(4)])

            async def process() -> None:
                chosen = settings(broker, pull_batch_size=2)
                async with LitePullConsumer("g", chosen, subscriptions={"t": "*"}) as consumer:
                    async for messages in consumer:
                        if messages[0].body == b"2":
                            raise ValueError("processing")

            with pytest.raises(ValueError, match="processing"):
                await process()
            assert broker.offsets["g", "t", 0] == 2

    run(scenario())


def test_iteration_ends_when_the_consumer_is_closed() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            consumer = LitePullConsumer("g", settings(broker, poll_timeout=60.0), subscriptions={"t": "*"})
            await consumer.start()
            reading = asyncio.create_task(anext(consumer, None))
            await asyncio.sleep(0)
            await consumer.close()
            assert await reading is None
            with pytest.raises(ClientClosed):
                await consumer.poll()

    run(scenario())


def test_offsets_are_committed_from_time_to_time() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", b"0")
            chosen = settings(broker, auto_commit_interval=3600)
            async with LitePullConsumer("g", chosen, subscriptions={"t": "*"}) as consumer:
                assert await consumer.poll() != []
                assert await consumer.poll(0.01) == []
                assert broker.offsets == {}
                consumer._parts()._committed_at -= 3600
                assert await consumer.poll(0.01) == []
                await until(lambda: broker.offsets.get(("g", "t", 0)) == 1)

    run(scenario())


def test_without_automatic_commit_nothing_is_committed_by_itself() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", b"0", b"1")
            chosen = settings(broker, auto_commit=False, broker_suspend_max_time=0.1)
            async with LitePullConsumer("g", chosen, subscriptions={"t": "*"}) as consumer:
                queue = broker.queue("t")
                assert len(await consumer.poll()) == 2
                assert await consumer.poll(0.2) == []
                assert broker.offsets == {}
                await consumer.commit({queue: 1})
                assert broker.offsets["g", "t", 0] == 1
            assert broker.offsets["g", "t", 0] == 1

    run(scenario())


def test_a_commit_that_cannot_be_stored_says_so() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", b"0")
            async with LitePullConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                await consumer.poll()
                store = broker._scripts[RequestCode.UPDATE_CONSUMER_OFFSET]
                broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, lambda _: broker.drop_connections())
                with pytest.raises(NotCommitted, match="t/broker-a/0"):
                    await consumer.commit()
                broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, store)
                await consumer.commit()
                assert broker.offsets["g", "t", 0] == 1

    run(scenario())


def test_a_queue_may_be_read_from_any_offset_it_has() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", *[b"%d" % n for n in range(6)])
            async with LitePullConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                queue = broker.queue("t")
                assert len(await consumer.poll()) == 6
                await consumer.seek(queue, 4)
                assert bodies(await consumer.poll()) == [b"4", b"5"]
                await consumer.seek_to_begin(queue)
                assert len(await consumer.poll()) == 6
                await consumer.seek_to_end(queue)
                assert await consumer.poll(0.05) == []
                broker.put("t", b"6")
                assert bodies(await consumer.poll()) == [b"6"]
                assert await consumer.offset_for_time(queue, 5.0) == 0
                for offset in (-1, 8):
                    with pytest.raises(ConfigurationError, match="offset"):
                        await consumer.seek(queue, offset)
                with pytest.raises(ConfigurationError, match="queue"):
                    await consumer.seek(broker.queue("u"), 0)

    run(scenario())


def test_a_paused_queue_keeps_its_messages() -> None:
    async def scenario() -> None:
        async with (
            ConsumingBroker(queues=2) as broker,
            LitePullConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer,
        ):
            broker.put("t", b"0", queue_id=0)
            await until(lambda: consumer._parts().queues.states[broker.queue("t")].cached_messages == 1)
            consumer.pause([broker.queue("t")])
            broker.put("t", b"1", queue_id=1)
            assert bodies(await consumer.poll()) == [b"1"]
            assert await consumer.poll(0.02) == []
            consumer.resume([broker.queue("t")])
            assert bodies(await consumer.poll()) == [b"0"]

    run(scenario())


def test_queues_may_be_assigned_instead_of_shared() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=3) as broker:
            broker.put("t", b"0", queue_id=1)
            broker.put("t", b"1", queue_id=2)
            async with LitePullConsumer("g", settings(broker)) as consumer:
                queues = await consumer.message_queues("t")
                assert len(queues) == 3
                await consumer.assign(queues[1:2])
                assert bodies(await consumer.poll()) == [b"0"]
                await consumer.assign(queues[2:])
                assert bodies(await consumer.poll()) == [b"1"]
                assert consumer.assignment == {queues[2]}
                with pytest.raises(ConfigurationError, match="assign"):
                    consumer.subscribe("t")
            assert (broker.offsets["g", "t", 1], broker.offsets["g", "t", 2]) == (1, 1)
            assert not broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP)

    run(scenario())


def test_a_shared_consumer_cannot_be_assigned_queues() -> None:
    async def scenario() -> None:
        async with (
            ConsumingBroker() as broker,
            LitePullConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer,
        ):
            with pytest.raises(ConfigurationError, match="assign"):
                await consumer.assign([broker.queue("t")])
            consumer.subscribe("u", "a")
            await until(lambda: broker.queue("u") in consumer.assignment)
            consumer.unsubscribe("u")
            await until(lambda: broker.queue("u") not in consumer.assignment)

    run(scenario())


def test_a_broker_that_does_not_know_lite_pull_is_pulled_plainly() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", b"0")
            broker.answer(RequestCode.LITE_PULL_MESSAGE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
            async with LitePullConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                assert bodies(await consumer.poll()) == [b"0"]

    run(scenario())


def test_pulling_goes_on_after_failures() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", b"0")
            pull = broker._scripts[RequestCode.LITE_PULL_MESSAGE]
            answers: list[Callable[[RemotingCommand], Any]] = [
                lambda request: request.response(ResponseCode.SYSTEM_ERROR, "no"),
                lambda request: request.response(ResponseCode.SUBSCRIPTION_NOT_EXIST, "who?"),
                lambda request: request.response(4711),
                lambda request: request.response(0),
            ]
            broker.on(RequestCode.LITE_PULL_MESSAGE, lambda request: (answers.pop(0) if answers else pull)(request))
            async with LitePullConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                assert bodies(await consumer.poll(5.0)) == [b"0"]

    run(scenario())


def test_it_cannot_be_used_when_it_does_not_run_or_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = LitePullConsumer("g", LitePullSettings(namesrv="a:1"))
    with pytest.raises(ClientClosed):
        _ = consumer.assignment
    monkeypatch.setattr(process, "number", -1)
    with pytest.raises(UsedAfterFork):
        consumer.subscribe("t")


def test_what_is_no_queue_or_offset_is_refused_by_name() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker, LitePullConsumer("g", settings(broker)) as consumer:
            queue = broker.queue("t")
            wrong: Any
            for wrong in ("pb", ["pb"], 5, [("t", "broker-a", 0)]):
                with pytest.raises(ConfigurationError, match="MessageQueue"):
                    await consumer.assign(wrong)
            wrong = "pb"
            await consumer.assign([queue])
            for work in (consumer.committed(wrong), consumer.offset_for_time(wrong, 5), consumer.seek(wrong, 0)):
                with pytest.raises(ConfigurationError, match="MessageQueue"):
                    await work
            for wrong in ("x", {"x": 1}, {queue: "1"}, {queue: -1}):
                with pytest.raises(ConfigurationError):
                    await consumer.commit(wrong)
            wrong = "0"
            with pytest.raises(ConfigurationError, match="offset"):
                await consumer.seek(queue, wrong)
            with pytest.raises(ConfigurationError, match="epoch seconds"):
                await consumer.offset_for_time(queue, wrong)

    run(scenario())


def test_subscriptions_are_a_mapping() -> None:
    wrong: Any = ["orders"]
    with pytest.raises(ConfigurationError, match="a mapping"):
        LitePullConsumer("g", namesrv="127.0.0.1:1", subscriptions=wrong)


def test_a_consumer_is_not_for_threads_nor_other_loops() -> None:
    async def scenario() -> None:
        async with (
            ConsumingBroker(queues=1) as broker,
            LitePullConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer,
        ):
            acts: tuple[Callable[[], None], ...] = (
                lambda: consumer.pause([]),
                lambda: consumer.unsubscribe("t"),
                lambda: asyncio.run(consumer.commit()),
            )
            for act in acts:
                with pytest.raises(UsedOnOtherLoop, match="another event loop"):
                    await asyncio.to_thread(act)
            assert consumer._wanted == {"t": "*"}  # "Nothing was done", says the refusal
            assert consumer.assignment == await asyncio.to_thread(lambda: consumer.assignment)

    run(scenario())
