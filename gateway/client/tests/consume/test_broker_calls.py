"""Tests of what brokers ask of a consumer."""

from __future__ import annotations

import pytest

from gateway.client.consume.broker_calls import parse_reset
from gateway.client.consume.lite_pull.lite_pull_consumer import LitePullConsumer
from gateway.client.consume.push.push_consumer import PushConsumer
from gateway.client.consume.settings.consumer_settings import ConsumeFrom, LitePullSettings, PushSettings
from gateway.client.message import MessageQueue, ReceivedMessage
from gateway.client.retry_later import RetryLater
from gateway.client.tests.consuming_broker import ConsumingBroker, until
from gateway.client.tests.scripted_broker import run
from wire.bodies.consumers import GetConsumerStatusBody
from wire.bodies.fastjson import parse_json
from wire.bodies.message_queue import MessageQueue as WireQueue
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.errors import BodyError
from wire.headers.admin import ConsumeMessageDirectlyResultRequest, GetConsumerRunningInfoRequest
from wire.headers.declare import Header, build_header
from wire.headers.offsets import GetConsumerStatusRequest, ResetOffsetRequest


def command(code: int, header: Header, body: bytes = b"", *, oneway: bool = False) -> RemotingCommand:
    return RemotingCommand(code, flag=2 if oneway else 0, ext_fields=build_header(header), body=body)


def test_a_running_consumer_answers_everything_a_broker_asks() -> None:
    async def scenario() -> None:
        got: list[bytes] = []

        def listen(message: ReceivedMessage) -> None:
            got.append(message.body)
            if message.body == b"bad":
                raise RetryLater

        async with ConsumingBroker(queues=1) as broker:
            broker.put("t", b"0", b"1")
            settings = PushSettings(namesrv=broker.address, consume_from_where=ConsumeFrom.FIRST_OFFSET)
            async with PushConsumer("g", listen, settings, subscriptions={"t": "*"}) as consumer:
                await until(lambda: len(got) == 2)
                await consumer.commit()

                status = GetConsumerStatusRequest(topic="t", group="g")
                answer = await broker.push(command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, status))
                table = GetConsumerStatusBody.parse(answer.body).message_queue_table
                assert table == {WireQueue("t", "broker-a", 0): 2}

                about = GetConsumerRunningInfoRequest(consumer_group="g", client_id=consumer.client_id)
                answer = await broker.push(command(RequestCode.GET_CONSUMER_RUNNING_INFO, about))
                info = parse_json(answer.body)
                assert info["properties"]["PROP_CONSUMEORDERLY"] == "false"
                assert len(info["mqTable"]) == 2
                assert "jstack" not in info
                assert "secret_key" not in info["properties"]

                direct = ConsumeMessageDirectlyResultRequest(consumer_group="g", broker_name="broker-a")
                for body, result in ((b"0", "CR_SUCCESS"), (b"bad", "CR_LATER")):
                    broker.put("elsewhere", body)
                    row = broker.records["elsewhere", 0][-1]
                    answer = await broker.push(command(RequestCode.CONSUME_MESSAGE_DIRECTLY, direct, row))
                    assert parse_json(answer.body)["consumeResult"] == result
                answer = await broker.push(command(RequestCode.CONSUME_MESSAGE_DIRECTLY, direct, b"no record"))
                assert answer.code == ResponseCode.SYSTEM_ERROR

                got.clear()
                reset = ResetOffsetRequest(group="g", topic="t", timestamp=0)
                broker.push_oneway(command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, reset, b"{damaged", oneway=True))
                body = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:1}}'
                broker.push_oneway(command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, reset, body, oneway=True))
                await until(lambda: got == [b"1"])
            assert broker.offsets["g", "t", 0] == 2

    run(scenario())


def test_a_consumer_without_listener_cannot_consume_on_demand() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            settings = LitePullSettings(namesrv=broker.address)
            async with LitePullConsumer("g", settings, subscriptions={"t": "*"}) as consumer:
                header = ConsumeMessageDirectlyResultRequest(consumer_group="g")
                answer = await broker.push(command(RequestCode.CONSUME_MESSAGE_DIRECTLY, header))
                assert (answer.code, answer.remark) == (1, "this consumer has no listener")
                about = GetConsumerRunningInfoRequest(
                    consumer_group="g", client_id=consumer.client_id, jstack_enable=True
                )
                answer = await broker.push(command(RequestCode.GET_CONSUMER_RUNNING_INFO, about))
                info = parse_json(answer.body)
                assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
                assert "MainThread" in info["jstack"]

    run(scenario())


def test_both_forms_of_a_reset_are_read() -> None:
    queue = MessageQueue("t", "a", 1)
    assert parse_reset(b'{"offsetTable":{{"brokerName":"a","queueId":1,"topic":"t"}:5}}') == {queue: 5}
    assert parse_reset(b'{"offsetTable":[{"brokerName":"a","queueId":1,"topic":"t","offset":5}]}') == {queue: 5}


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"offsetTable":5}',
        b'{"offsetTable":{{"brokerName":"a","queueId":1,"topic":"t"}:-5}}',
        b'{"offsetTable":[{"brokerName":"a","queueId":1,"topic":"t"}]}',
    ],
)
def test_other_resets_are_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        parse_reset(body)
