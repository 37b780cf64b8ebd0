"""Tests of the push consumer against a broker in memory."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.client import process
from gateway.client.consume.push.push_consumer import PushConsumer
from gateway.client.consume.settings.consumer_settings import ConsumeFrom, MessageModel, PushSettings
from gateway.client.consume.subscriptions import Sql
from gateway.client.errors import (
    BrokerError,
    ClientClosed,
    ConfigurationError,
    ConnectError,
    MessageRefused,
    NotCommitted,
    UsedAfterFork,
)
from gateway.client.message import ReceivedMessage
from gateway.client.retry_later import RetryLater
from gateway.client.tests.consuming_broker import ConsumingBroker, until
from gateway.client.tests.scripted_broker import run
from wire.bodies.heartbeat import HeartbeatData
from wire.codes import RequestCode, ResponseCode


def settings(broker: ConsumingBroker, **changes: Any) -> PushSettings:
    given = {
        "namesrv": broker.address,
        "consume_from_where": ConsumeFrom.FIRST_OFFSET,
        "suspend_current_queue_time": 0.02,
        "pull_time_delay_when_exception": 0.02,
        **changes,
    }
    return PushSettings(**given)


def test_messages_are_given_and_their_offsets_committed_at_the_end() -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        threads: set[str] = set()

        def listen(message: ReceivedMessage) -> None:
            got.append(message.body)
            threads.add(threading.current_thread().name)

        async with ConsumingBroker() as broker:
            broker.put("t", b"0", b"1")
            async with PushConsumer("g", listen, settings(broker), subscriptions={"t": "*"}) as consumer:
                await until(lambda: len(got) == 2)
                broker.put("t", b"2", queue_id=3)
                await until(lambda: len(got) == 3)
                assert consumer.client_id in broker.members
                assert broker.queue("%RETRY%g") in consumer.assignment
            assert (broker.offsets["g", "t", 0], broker.offsets["g", "t", 3]) == (2, 1)
            assert broker.members == []
        assert sorted(got) == [b"0", b"1", b"2"]
        assert all(name.startswith("consumer g-") for name in threads)

    run(scenario())


def test_a_failure_is_sent_back_and_comes_again_under_its_own_topic() -> None:
    async def scenario() -> None:
        got: list[tuple[str, bytes, int]] = []

        async def listen(message: ReceivedMessage) -> None:
            got.append((message.topic, message.body, message.reconsume_times))
            if message.reconsume_times == 0:
                raise RetryLater(2)

        async with ConsumingBroker() as broker:
            broker.put("t", b"0")
            async with PushConsumer("g", listen, settings(broker), subscriptions={"t": "*"}):
                await until(lambda: len(got) == 2)
            (request,) = broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)
            assert request.ext_fields["delayLevel"] == "2"
            assert request.ext_fields["maxReconsumeTimes"] == "16"
            assert (broker.offsets["g", "t", 0], broker.offsets["g", "%RETRY%g", 0]) == (1, 1)
        assert got == [("t", b"0", 0), ("t", b"0", 1)]

    run(scenario())


def test_batches_are_portions_of_one_queue() -> None:
    async def scenario() -> None:
        sizes: list[int] = []
        async with ConsumingBroker() as broker:
            broker.put("t", *[b"%d" % n for n in range(25)])
            chosen = settings(broker, consume_message_batch_max_size=10)

            def listen(messages: Sequence[ReceivedMessage]) -> None:
                sizes.append(len(messages))

            async with PushConsumer("g", None, chosen, batch_listener=listen, subscriptions={"t": "*"}):
                await until(lambda: sum(sizes) == 25)
        assert sorted(sizes) == [5, 10, 10]

    run(scenario())


def test_a_close_waits_for_listeners_and_commits_what_they_did() -> None:
    async def scenario() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def listen(_: ReceivedMessage) -> None:
            begun.set()
            await go_on.wait()

        async with ConsumingBroker() as broker:
            broker.put("t", b"0", b"1")
            consumer = PushConsumer("g", listen, settings(broker, consume_workers=1), subscriptions={"t": "*"})
            await consumer.start()
            await begun.wait()
            closing = asyncio.create_task(consumer.close())
            await asyncio.sleep(0)
            go_on.set()
            await closing
            await consumer.close()
            assert broker.offsets["g", "t", 0] == 1, "the second message was never begun"

    run(scenario())


def test_a_listener_that_never_returns_does_not_keep_close_waiting() -> None:
    async def scenario() -> None:
        never = asyncio.Event()

        async def listen(_: ReceivedMessage) -> None:
            await never.wait()

        async with ConsumingBroker() as broker:
            broker.put("t", b"0")
            consumer = PushConsumer("g", listen, settings(broker), subscriptions={"t": "*"})
            await consumer.start()
            await broker.wait_for(RequestCode.PULL_MESSAGE, 6)
            await consumer.close(timeout=0.01)
            assert broker.offsets.get(("g", "t", 0), 0) == 0

    run(scenario())


def test_orderly_consumption_locks_repeats_and_unlocks() -> None:
    async def scenario() -> None:
        got: list[tuple[bytes, int]] = []

        def listen(message: ReceivedMessage) -> None:
            assert ("t", message.queue.queue_id) in broker.lock_owners
            got.append((message.body, message.reconsume_times))
            if message.body == b"1" and message.reconsume_times < 2:
                raise ValueError("again")

        async with ConsumingBroker() as broker:
            broker.put("t", b"0", b"1", b"2")
            async with PushConsumer("g", listen, settings(broker), subscriptions={"t": "*"}, orderly=True):
                await until(lambda: (b"2", 0) in got)
            assert broker.lock_owners == {}
            assert broker.offsets["g", "t", 0] == 3
        assert got == [(b"0", 0), (b"1", 0), (b"1", 1), (b"1", 2), (b"2", 0)]

    run(scenario())


def test_a_queue_locked_by_another_member_is_not_read() -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        async with ConsumingBroker(queues=1) as broker:
            broker.lock_owners["t", 0] = "another"
            broker.put("t", b"0")
            consumer = PushConsumer(
                "g", lambda message: got.append(message.body), settings(broker), subscriptions={"t": "*"}, orderly=True
            )
            async with consumer:
                assert broker.queue("t") not in consumer.assignment
                broker.lock_owners.clear()
                await until(lambda: got == [b"0"])

    run(scenario())


def test_an_orderly_consumer_gives_a_message_up_after_the_last_attempt() -> None:
    async def scenario() -> None:
        got: list[bytes] = []

        def listen(message: ReceivedMessage) -> None:
            got.append(message.body)
            if message.body == b"0":
                raise RetryLater

        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", b"0", b"1")
            chosen = settings(broker, max_reconsume_times=1)
            async with PushConsumer("g", listen, chosen, subscriptions={"t": "*"}, orderly=True):
                await until(lambda: got == [b"0", b"0", b"1"])
            (request,) = broker.asked(RequestCode.SEND_MESSAGE_V2)
            assert request.body == b"0"
            assert (request.ext_fields["b"], request.ext_fields["j"], request.ext_fields["l"]) == ("%RETRY%g", "2", "1")

    run(scenario())


def test_broadcasting_keeps_offsets_in_a_file_and_sends_nothing_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        got: list[bytes] = []

        def listen(message: ReceivedMessage) -> None:
            got.append(message.body)
            raise ValueError("dropped")

        async with ConsumingBroker() as broker:
            broker.other_members = ["another"]
            broker.put("t", b"0", b"1")
            chosen = settings(broker, message_model=MessageModel.BROADCASTING, local_offset_dir=str(tmp_path))
            for expected in (2, 3):
                async with PushConsumer("g", listen, chosen, subscriptions={"t": "*"}) as consumer:
                    assert consumer.assignment == {broker.queue("t", n) for n in range(4)}
                    await until(lambda: len(got) == expected)  # noqa: B023 - awaited within the turn
                broker.put("t", b"2")
            assert broker.offsets == {}
            assert not broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)
        assert got == [b"0", b"1", b"2"]

    run(scenario())


def test_members_that_come_take_queues_at_once() -> None:
    async def scenario() -> None:
        async with (
            ConsumingBroker() as broker,
            PushConsumer("g", print, settings(broker), subscriptions={"t": "*"}) as consumer,
        ):
            assert len(consumer.assignment) == 8
            broker.other_members = ["0 before all others"]
            broker.notify("g")
            await until(lambda: len(consumer.assignment) == 4)
            assert {queue.queue_id for queue in consumer.assignment} == {2, 3}
            broker.other_members = []
            broker.notify("g")
            await until(lambda: len(consumer.assignment) == 8)

    run(scenario())


def test_topics_may_be_added_and_given_up_while_running() -> None:
    async def scenario() -> None:
        got: list[str] = []
        async with ConsumingBroker(queues=1) as broker:
            consumer = PushConsumer("g", lambda message: got.append(message.topic), settings(broker))
            with pytest.raises(ConfigurationError, match="subscriptions"):
                await consumer.start()
            consumer.subscribe("t")
            async with consumer:
                broker.put("u", b"0")
                consumer.subscribe("u", "a || b")
                await until(lambda: broker.queue("u") in consumer.assignment)
                broker.put("u", b"1", tags="a")
                await until(lambda: got == ["u"])
                consumer.unsubscribe("u")
                await until(lambda: broker.queue("u") not in consumer.assignment)
            last = HeartbeatData.parse(broker.asked(RequestCode.HEART_BEAT)[-1].body)
            assert {each.topic for each in last.consumers[0].subscriptions} == {"t", "%RETRY%g"}

    run(scenario())


def test_a_suspended_consumer_pulls_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "gateway.client.consume.pull_loop")

    async def scenario() -> None:
        got: list[bytes] = []
        async with ConsumingBroker(queues=1) as broker:
            chosen = settings(broker, broker_suspend_max_time=0.1)
            consumer = PushConsumer("g", lambda message: got.append(message.body), chosen, subscriptions={"t": "*"})
            async with consumer:
                await broker.wait_for(RequestCode.PULL_MESSAGE, 2)
                consumer.suspend()
                await until(lambda: "pauses pulling MessageQueue(topic='t'" in caplog.text)
                pulls = len(broker.asked(RequestCode.PULL_MESSAGE))
                broker.put("t", b"0")
                await consumer._parts().queues.offsets.end(broker.queue("t"))  # there and back: a pull would be seen
                assert (len(broker.asked(RequestCode.PULL_MESSAGE)), got) == (pulls, [])
                consumer.resume()
                await until(lambda: got == [b"0"])
                await consumer.commit()
                assert broker.offsets["g", "t", 0] == 1

    run(scenario())


def test_a_commit_that_cannot_be_stored_says_so() -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", b"0")
            consumer = PushConsumer(
                "g", lambda message: got.append(message.body), settings(broker), subscriptions={"t": "*"}
            )
            async with consumer:
                await until(lambda: got == [b"0"])
                store = broker._scripts[RequestCode.UPDATE_CONSUMER_OFFSET]
                broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, lambda _: broker.drop_connections())
                with pytest.raises(NotCommitted, match="t/broker-a/0"):
                    await consumer.commit()
                broker.on(RequestCode.UPDATE_CONSUMER_OFFSET, store)
                await consumer.commit()
                assert broker.offsets["g", "t", 0] == 1

    run(scenario())


def test_point_6_an_offset_that_is_gone_moves_the_group_to_the_first_message_and_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        got: list[int] = []
        async with ConsumingBroker(queues=1) as broker:
            broker.first_offsets["t", 0] = 50
            broker.put("t", b"0")
            consumer = PushConsumer(
                "g", lambda message: got.append(message.queue_offset), settings(broker), subscriptions={"t": "*"}
            )
            async with consumer:
                await until(lambda: got == [50])
            assert broker.offsets["g", "t", 0] == 51

    run(scenario())
    (told,) = [record.getMessage() for record in caplog.records if " goes on at " in record.getMessage()]
    assert told.endswith("goes on at 50 instead of 0: 50 messages are gone"), told


def test_a_refused_sql_expression_fails_the_start() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.answer(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "a >?")
            consumer = PushConsumer("g", print, settings(broker), subscriptions={"t": Sql("a >")})
            with pytest.raises(BrokerError, match="a >"):
                await consumer.start()
            with pytest.raises(ClientClosed):
                await consumer.start()

    run(scenario())


def test_a_start_without_name_server_fails_with_its_cause() -> None:
    async def scenario() -> None:
        broker = ConsumingBroker()
        async with broker:
            pass
        with pytest.raises(ConnectError):
            await PushConsumer("g", print, settings(broker), subscriptions={"t": "*"}).start()
        with pytest.raises(ConfigurationError, match="namesrv"):
            await PushConsumer("g", print, PushSettings(), subscriptions={"t": "*"}).start()

    run(scenario())


def test_arguments_that_cannot_work_are_refused_at_once() -> None:
    with pytest.raises(MessageRefused):
        PushConsumer("", print)
    with pytest.raises(MessageRefused):
        PushConsumer("g", print, subscriptions={"not a topic": "*"})
    with pytest.raises(ConfigurationError, match="listener"):
        PushConsumer("g")


def test_it_cannot_be_used_when_it_does_not_run_or_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = PushConsumer("g", print, PushSettings(namesrv="a:1"), subscriptions={"t": "*"})
    with pytest.raises(ClientClosed):
        consumer.suspend()
    monkeypatch.setattr(process, "number", -1)
    with pytest.raises(UsedAfterFork):
        consumer.subscribe("t")


def test_point_16_a_consumer_that_is_forgotten_warns() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            consumer = PushConsumer("g", print, settings(broker), subscriptions={"t": "*"})
            await consumer.start()
            running = consumer._running
            assert running is not None
            with pytest.warns(ResourceWarning, match="consumer g was not closed"):
                consumer.__del__()
            await consumer.close()

    run(scenario())
    gc.collect()


def test_point_16_a_consumer_that_is_dropped_says_nothing_of_pulls_that_it_will_not_repeat(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            consumer = PushConsumer("g", print, settings(broker), subscriptions={"t": "*"})
            await consumer.start()
            await broker.wait_for(RequestCode.PULL_MESSAGE, 4)
            await consumer.drop()
            await asyncio.sleep(0.05)

    run(scenario())
    assert caplog.messages == []


def test_the_retry_topic_belongs_to_a_shared_consumer() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            async with PushConsumer("g", print, settings(broker), subscriptions={"t": "*"}) as consumer:
                assert set(consumer.topics()) == {"t", "%RETRY%g"}
            alone = settings(broker, message_model=MessageModel.BROADCASTING)
            async with PushConsumer("g", print, alone, subscriptions={"t": "*"}) as consumer:
                assert set(consumer.topics()) == {"t"}

    run(scenario())
