"""A push consumer whose brokers hand out messages instead of queues."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gateway.client.consume.push.push_consumer import PushConsumer
from gateway.client.consume.settings.consumer_settings import ConsumeFrom, PushSettings
from gateway.client.message import ReceivedMessage
from gateway.client.retry_later import RetryLater
from gateway.client.tests.consuming_broker import until
from gateway.client.tests.popping_broker import PoppingBroker
from gateway.client.tests.scripted_broker import run
from wire.bodies.pop import QueryAssignmentRequest
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import parse_header
from wire.headers.pop import PopMessageRequest
from wire.headers.send import ConsumerSendMsgBackRequest


def settings(broker: PoppingBroker, **changes: Any) -> PushSettings:
    given = {"consume_from_where": ConsumeFrom.FIRST_OFFSET, "client_rebalance": False, **changes}
    return PushSettings(namesrv=broker.address, **given)


def test_messages_are_popped_consumed_and_acknowledged() -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        async with PoppingBroker() as broker:
            broker.offer("t", b"0", b"1", b"2")
            consumer = PushConsumer(
                "g", lambda message: got.append(message.body), settings(broker), subscriptions={"t": "*"}
            )
            async with consumer:
                await until(lambda: sorted(broker.acked) == [0, 1, 2])
                assert broker.any_queue in consumer.assignment
            assert sorted(got) == [b"0", b"1", b"2"]
            asked = QueryAssignmentRequest.parse(broker.asked(RequestCode.QUERY_ASSIGNMENT)[0].body)
            assert (asked.consumer_group, asked.strategy_name, asked.message_model) == ("g", "AVG", "CLUSTERING")
            pop = parse_header(PopMessageRequest, broker.asked(RequestCode.POP_MESSAGE)[0].ext_fields)
            assert (pop.queue_id, pop.max_msg_nums, pop.invisible_time, pop.poll_time) == (-1, 32, 60_000, 15_000)
            assert (pop.init_mode, pop.exp_type, pop.exp) == (0, "TAG", "*")
            pulled = {request.ext_fields["topic"] for request in broker.asked(RequestCode.PULL_MESSAGE)}
            assert pulled <= {"%RETRY%g"}

    run(scenario())


def test_what_failed_comes_again_later_with_each_time() -> None:
    async def scenario() -> None:
        tried: list[int] = []

        async def listen(message: ReceivedMessage) -> None:
            tried.append(message.reconsume_times)
            if len(tried) == 1:
                raise ValueError("not now")
            if len(tried) == 2:
                raise RetryLater(delay_level=3)

        async with PoppingBroker() as broker:
            broker.offer("t", b"0")
            async with PushConsumer("g", listen, settings(broker), subscriptions={"t": "*"}):
                await until(lambda: broker.acked)
            assert tried == [0, 1, 2]
            assert broker.hidden == [(0, 10_000), (1, 120_000)]
            assert broker.acked == [2]

    run(scenario())


def test_what_failed_too_often_becomes_a_dead_letter() -> None:
    async def scenario() -> None:
        def listen(_: ReceivedMessage) -> None:
            raise ValueError("never")

        async with PoppingBroker() as broker:
            broker.answer(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SUCCESS)
            broker.offer("t", b"0")
            chosen = settings(broker, max_reconsume_times=1)
            async with PushConsumer("g", listen, chosen, subscriptions={"t": "*"}):
                await until(lambda: broker.acked)
            (buried,) = broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)
            header = parse_header(ConsumerSendMsgBackRequest, buried.ext_fields)
            assert (header.delay_level, header.offset, broker.hidden, broker.acked) == (-1, 1, [(0, 10_000)], [1])

    run(scenario())


def test_a_batch_listener_may_fail_in_part() -> None:
    async def scenario() -> None:
        async def listen(messages: Any) -> None:
            if len(messages) == 3:
                raise RetryLater(messages=messages[1:2])

        async with PoppingBroker() as broker:
            broker.offer("t", b"0", b"1", b"2")
            async with PushConsumer("g", None, settings(broker), batch_listener=listen, subscriptions={"t": "*"}):
                await until(lambda: sorted(broker.acked) == [0, 2, 3])
            assert broker.hidden == [(1, 10_000)]
            assert len(broker.asked(RequestCode.BATCH_ACK_MESSAGE)) == 1, "messages of one check point go together"

    run(scenario())


def test_messages_that_others_may_have_by_now_are_neither_consumed_nor_acknowledged() -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        release = asyncio.Event()

        async def listen(message: ReceivedMessage) -> None:
            got.append(message.body)
            await release.wait()

        async with PoppingBroker() as broker:
            broker.offer("t", b"0", b"1")
            consumer = PushConsumer("g", listen, settings(broker, consume_workers=1), subscriptions={"t": "*"})
            async with consumer:
                await until(lambda: got)
                popping = consumer._parts()._popping
                assert popping is not None
                (state,) = popping.queues._loops
                tasks: Any = popping.turns._tasks
                for _, turn in [*tasks.started(), *tasks._work]:
                    turn.lapses_at = 0.0
                    for message in turn.messages:
                        message.hidden_until = 0.0
                release.set()
                await until(lambda: state.waiting == 0)
            assert (got, broker.acked) == ([b"0"], [])

    run(scenario())


def test_popping_pauses_while_too_much_waits_and_while_it_is_suspended() -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        release = threading.Event()

        def listen(message: ReceivedMessage) -> None:
            got.append(message.body)
            release.wait(10)

        async with PoppingBroker() as broker:
            broker.offer("t", b"0", b"1", b"2")
            chosen = settings(broker, pop_batch_nums=1, pop_threshold_for_queue=1, consume_workers=1)
            async with PushConsumer("g", listen, chosen, subscriptions={"t": "*"}) as consumer:
                await until(lambda: got and len(broker.asked(RequestCode.POP_MESSAGE)) == 2)
                consumer.suspend()
                release.set()
                await until(lambda: sorted(broker.acked) == [0, 1])
                assert len(broker.asked(RequestCode.POP_MESSAGE)) == 2
                consumer.resume()
                await until(lambda: sorted(broker.acked) == [0, 1, 2])

    run(scenario())


def test_where_brokers_do_not_share_out_the_members_do() -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        async with PoppingBroker() as broker:
            broker.answer(RequestCode.QUERY_ASSIGNMENT, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
            broker.put("t", b"0")
            chosen = settings(broker)
            async with PushConsumer("g", lambda message: got.append(message.body), chosen, subscriptions={"t": "*"}):
                await until(lambda: got == [b"0"])
            assert not broker.asked(RequestCode.POP_MESSAGE)

    run(scenario())


@pytest.mark.parametrize("queue_id", [-1, 0])
def test_a_broker_may_change_its_mind(queue_id: int) -> None:
    async def scenario() -> None:
        got: list[bytes] = []
        async with PoppingBroker() as broker:
            broker.pops, broker.popped_queue = False, queue_id
            popped = broker.queue("t", queue_id)
            broker.put("t", b"pulled")
            broker.offer("t", b"popped")
            chosen = settings(broker)
            async with PushConsumer("g", lambda m: got.append(m.body), chosen, subscriptions={"t": "*"}) as consumer:
                await until(lambda: got == [b"pulled"])
                broker.pops = True
                broker.notify("g")
                await until(lambda: got == [b"pulled", b"popped"])
                assert {queue for queue in consumer.assignment if queue.topic == "t"} == {popped}
                consumer.unsubscribe("t")
                await until(lambda: popped not in consumer.assignment)

    run(scenario())


@pytest.mark.parametrize("kind", ["orderly", "default"])
def test_only_who_leaves_sharing_to_the_brokers_asks_them(kind: str) -> None:
    async def scenario() -> None:
        async with PoppingBroker() as broker:
            chosen = settings(broker, client_rebalance=kind == "default")
            got: list[ReceivedMessage] = []
            async with PushConsumer("g", got.append, chosen, subscriptions={"t": "*"}, orderly=kind == "orderly"):
                pass
            assert not broker.asked(RequestCode.QUERY_ASSIGNMENT)

    run(scenario())
