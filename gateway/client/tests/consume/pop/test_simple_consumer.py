"""Tests of the simple consumer against a broker that answers pops as told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.client import process
from gateway.client.consume.pop.simple_consumer import SimpleConsumer
from gateway.client.consume.settings.consumer_settings import ConsumeFrom, SimpleSettings
from gateway.client.errors import BrokerError, ClientClosed, ConfigurationError, RouteNotFound, UsedAfterFork
from gateway.client.tests.consuming_broker import ConsumingBroker
from gateway.client.tests.scripted_broker import Reply, run
from wire.bodies.heartbeat import HeartbeatData
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header, parse_header
from wire.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record

HOST = pack_host("127.0.0.1", 1)


def settings(broker: ConsumingBroker, **changes: Any) -> SimpleSettings:
    given = {"namesrv": broker.address, "consume_from_where": ConsumeFrom.FIRST_OFFSET, **changes}
    return SimpleSettings(**given)


def record(offset: int, body: bytes, topic: str = "t", **properties: str) -> bytes:
    message = OutgoingMessage(topic, 2, 0, 0, 1, HOST, HOST, 0, 0, body, build_properties(properties))
    return build_record(message, offset, offset, 2)


def popped(
    request: RemotingCommand, *records: bytes, starts: str = "0 2 5", offsets: str = "0 2 5,6"
) -> RemotingCommand:
    fields = build_header(
        PopMessageResponse(
            pop_time=1000, invisible_time=60_000, revive_qid=3, start_offset_info=starts, msg_offset_info=offsets
        )
    )
    return request.response(0, None, fields, b"".join(records))


def once(*answers: Any) -> Any:
    """Answers one after the other, then that there is nothing."""
    left = list(answers)

    def answer(request: RemotingCommand) -> Reply:
        if left:
            given: Reply = left.pop(0)(request)
            return given
        return request.response(ResponseCode.POLLING_TIMEOUT)

    return answer


def test_messages_are_received_and_acknowledged_with_their_receipts() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.on(RequestCode.POP_MESSAGE, once(lambda request: popped(request, record(5, b"a"), record(6, b"b"))))
            broker.answer(RequestCode.ACK_MESSAGE, 0)
            async with SimpleConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                messages = await consumer.receive(8, invisible_time=60, timeout=5)
                assert [message.body for message in messages] == [b"a", b"b"]
                for message in messages:
                    await consumer.ack(message)
                assert await consumer.receive(8, timeout=0.01) == []
            pop = parse_header(PopMessageRequest, broker.asked(RequestCode.POP_MESSAGE)[0].ext_fields)
            assert (pop.queue_id, pop.max_msg_nums, pop.invisible_time, pop.init_mode) == (-1, 8, 60_000, 0)
            acks = [parse_header(AckMessageRequest, each.ext_fields) for each in broker.asked(RequestCode.ACK_MESSAGE)]
            assert [ack.extra_info for ack in acks] == [
                "5 1000 60000 3 0 broker-a 2 5",
                "5 1000 60000 3 0 broker-a 2 6",
            ]
            assert {(ack.topic, ack.queue_id) for ack in acks} == {("t", 2)}
            data = HeartbeatData.parse(broker.asked(RequestCode.HEART_BEAT)[0].body)
            assert data.consumers[0].consume_type == "CONSUME_POP"

    run(scenario())


def test_a_redelivered_message_is_acknowledged_at_its_retry_topic() -> None:
    async def scenario() -> None:
        receipt = "4 1000 60000 3 1 broker-a 0 4"
        async with ConsumingBroker() as broker:
            broker.on(RequestCode.POP_MESSAGE, once(lambda request: popped(request, record(4, b"a", POP_CK=receipt))))
            broker.answer(RequestCode.ACK_MESSAGE, 0)
            async with SimpleConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                (message,) = await consumer.receive(timeout=5)
                await consumer.ack(message)
            ack = parse_header(AckMessageRequest, broker.asked(RequestCode.ACK_MESSAGE)[0].ext_fields)
            assert (ack.topic, ack.queue_id, ack.offset, ack.extra_info) == ("%RETRY%g_t", 0, 4, receipt)

    run(scenario())


@pytest.mark.parametrize(("retry", "mark"), [("1", "_"), ("2", "+")])
def test_a_message_under_the_name_of_its_retry_topic_shows_its_own_topic(retry: str, mark: str) -> None:
    async def scenario() -> None:
        given = record(4, b"a", topic=f"%RETRY%g{mark}t")
        starts, offsets = f"{retry} 2 4", f"{retry} 2 4"
        async with ConsumingBroker() as broker:
            broker.on(
                RequestCode.POP_MESSAGE, once(lambda request: popped(request, given, starts=starts, offsets=offsets))
            )
            broker.answer(RequestCode.ACK_MESSAGE, 0)
            async with SimpleConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                (message,) = await consumer.receive(timeout=5)
                assert message.topic == "t"
                await consumer.ack(message)
            ack = parse_header(AckMessageRequest, broker.asked(RequestCode.ACK_MESSAGE)[0].ext_fields)
            assert (ack.topic, ack.extra_info) == (f"%RETRY%g{mark}t", f"4 1000 60000 3 {retry} broker-a 2 4")

    run(scenario())


def test_a_changed_invisible_time_renews_the_receipt() -> None:
    async def scenario() -> None:
        terms = build_header(ChangeInvisibleTimeResponse(pop_time=2000, invisible_time=1500, revive_qid=4))
        async with ConsumingBroker() as broker:
            broker.on(RequestCode.POP_MESSAGE, once(lambda request: popped(request, record(6, b"a"), offsets="0 2 6")))
            broker.on(
                RequestCode.CHANGE_MESSAGE_INVISIBLETIME, lambda request: request.response(0, ext_fields=dict(terms))
            )
            async with SimpleConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                (message,) = await consumer.receive(timeout=5)
                await consumer.change_invisible_time(message, 1.5)
                assert str(message.receipt) == "6 2000 1500 4 0 broker-a 2 6"
            (request,) = broker.asked(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
            header = parse_header(ChangeInvisibleTimeRequest, request.ext_fields)
            assert (header.invisible_time, header.extra_info) == (1500, "5 1000 60000 3 0 broker-a 2 6")

    run(scenario())


def test_a_tag_with_the_same_hash_is_acknowledged_unseen() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.on(
                RequestCode.POP_MESSAGE,
                once(lambda request: popped(request, record(5, b"a", TAGS="BB"), record(6, b"b", TAGS="Aa"))),
            )
            broker.answer(RequestCode.ACK_MESSAGE, 0)
            async with SimpleConsumer("g", settings(broker), subscriptions={"t": "Aa"}) as consumer:
                assert [message.body for message in await consumer.receive(timeout=5)] == [b"b"]
            assert len(broker.asked(RequestCode.ACK_MESSAGE)) == 1

    run(scenario())


def test_what_came_from_several_sources_is_given_in_turn_while_it_is_hidden() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            both = [lambda request: popped(request, record(5, b"a"), record(6, b"b"))] * 2
            broker.on(RequestCode.POP_MESSAGE, once(*both))
            async with SimpleConsumer("g", settings(broker), subscriptions={"t": "*", "u": "*"}) as consumer:
                got = await consumer.receive(1, timeout=5)
                while len(got) < 4:
                    got += await consumer.receive(1, timeout=5)
                consumer._left = [*got]
                got[0].hidden_until = 0.0
                assert await consumer.receive(2, timeout=5) == got[1:3]

    run(scenario())


def test_a_busy_broker_and_an_empty_one_bring_nothing_and_a_refusal_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.client.consume.pop.pops.FULL_PAUSE", 0.01)

    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.on(RequestCode.POP_MESSAGE, once(lambda request: request.response(ResponseCode.POLLING_FULL)))
            async with SimpleConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                assert await consumer.receive(timeout=0.05) == []
                broker.answer(RequestCode.POP_MESSAGE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no pop here")
                with pytest.raises(BrokerError, match="no pop here"):
                    await consumer.receive()
                with pytest.raises(ConfigurationError, match="max_messages"):
                    await consumer.receive(33)
                with pytest.raises(ConfigurationError, match="invisible_time"):
                    await consumer.receive(invisible_time=0)

    run(scenario())


def test_refusals_lose_nothing_that_another_source_gives_at_the_same_time() -> None:
    async def scenario() -> None:
        all_asked = asyncio.Barrier(3)

        async def answer(request: RemotingCommand) -> RemotingCommand:
            await all_asked.wait()
            if request.ext_fields["topic"] != "t":
                return request.response(ResponseCode.SYSTEM_ERROR, "not now")
            return popped(request, record(5, b"a"))

        async with ConsumingBroker() as broker:
            broker.on(RequestCode.POP_MESSAGE, answer)
            async with SimpleConsumer("g", settings(broker), subscriptions={"s": "*", "t": "*", "u": "*"}) as consumer:
                for _ in range(2):
                    with pytest.raises(BrokerError, match="not now"):
                        await consumer.receive(timeout=5)
                    broker.on(RequestCode.POP_MESSAGE, lambda _: None)
                assert [message.body for message in await consumer.receive(timeout=0)] == [b"a"]

    run(scenario())


def test_a_topic_that_does_not_exist_is_an_error_when_it_is_the_only_one() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.unknown_topics = {"t"}
            async with SimpleConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer:
                with pytest.raises(RouteNotFound):
                    await consumer.receive()

    run(scenario())


def test_a_close_ends_a_pop_that_is_held() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.on(RequestCode.POP_MESSAGE, lambda _: None)
            consumer = SimpleConsumer("g", settings(broker), subscriptions={"t": "*"})
            await consumer.start()
            await consumer.start()
            receiving = asyncio.create_task(consumer.receive(timeout=30))
            await broker.wait_for(RequestCode.POP_MESSAGE)
            await consumer.close()
            await consumer.close()
            with pytest.raises(ClientClosed):
                await receiving
            with pytest.raises(ClientClosed):
                await consumer.receive()

    run(scenario())


def test_it_cannot_be_used_when_it_does_not_run_or_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = SimpleConsumer("g", SimpleSettings(namesrv="a:1"))
    with pytest.raises(ClientClosed):
        _ = consumer.client_id
    with pytest.raises(ConfigurationError, match="subscriptions"):
        run(consumer.start())
    monkeypatch.setattr(process, "number", -1)
    with pytest.raises(UsedAfterFork):
        run(consumer.close())


@pytest.mark.parametrize("wrong", ["x", None, ["x"]])
def test_only_what_was_received_is_acknowledged_or_hidden(wrong: Any) -> None:
    async def scenario() -> None:
        async with (
            ConsumingBroker(queues=1) as broker,
            SimpleConsumer("g", settings(broker), subscriptions={"t": "*"}) as consumer,
        ):
            with pytest.raises(ConfigurationError, match=r"receive\(\)"):
                await consumer.ack(wrong)
            with pytest.raises(ConfigurationError, match=r"receive\(\)"):
                await consumer.change_invisible_time(wrong, 5)
            with pytest.raises(ConfigurationError, match="invisible_time"):
                await consumer.change_invisible_time(wrong, -1)

    run(scenario())
