"""Requests that wait for a reply, replies, and timer messages that are taken back."""

import asyncio

import pytest

from gateway.client.errors import (
    BrokerError,
    RequestTimeout,
)
from gateway.client.tests.jumping_time import push_time
from gateway.client.tests.scripted_broker import ScriptedBroker, run, stored_at
from gateway.client.tests.send.producing import MESSAGE, SEND, producer_at, sent
from gateway.client.tests.send.test_recall_handle import handle
from gateway.client.tests.test_message import received
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header
from wire.headers.send import RecallMessageResponse
from wire.message.properties import parse_properties


def test_a_request_waits_for_its_reply() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            call = asyncio.ensure_future(producer.request(MESSAGE, timeout=5))
            (request,) = await broker.wait_for(SEND)
            assert RequestCode.HEART_BEAT in broker.codes(), "the broker must know who asked"
            asked = parse_properties(request.ext_fields["i"])
            assert (asked["REPLY_TO_CLIENT"], asked["TTL"]) == (producer.client_id, "5000")
            for correlation_id in ("somebody else's", asked["CORRELATION_ID"]):
                fields = {
                    "producerGroup": "r",
                    "topic": "c_REPLY_TOPIC",
                    "defaultTopic": "TBW102",
                    "defaultTopicQueueNums": "4",
                    "queueId": "0",
                    "sysFlag": "0",
                    "bornTimestamp": "1",
                    "flag": "0",
                    "properties": f"CORRELATION_ID\x01{correlation_id}\x02",
                    "bornHost": "1.2.3.4:5",
                    "storeHost": "1.2.3.4:6",
                }
                push = RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext_fields=fields, body=b"pong")
                assert (await broker.push(push)).code == ResponseCode.SUCCESS
            assert (await call).body == b"pong"

    run(test())


def test_a_request_without_a_reply_times_out() -> None:
    def stored_late(request: RemotingCommand) -> RemotingCommand:
        asyncio.get_running_loop().call_later(0.01, push_time, 10)
        return request.response(0, ext_fields=stored_at(0, 0))

    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            broker.on(SEND, stored_late)
            with pytest.raises(RequestTimeout, match="one running that replies"):
                await producer.request(MESSAGE, timeout=10)

    run(test())


def test_a_reply_goes_to_the_broker_of_the_request() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            code = RequestCode.SEND_REPLY_MESSAGE_V2
            broker.on(code, lambda request: request.response(0, ext_fields=stored_at(0, 0)))
            request = received(CLUSTER="c", CORRELATION_ID="C", REPLY_TO_CLIENT="1.2.3.4@x", TTL="3000")
            await producer.reply(request, b"pong")
            (header,) = sent(broker, code)
            assert header.topic == "c_REPLY_TOPIC"
            properties = parse_properties(header.properties or "")
            assert (properties["MSG_TYPE"], properties["CORRELATION_ID"]) == ("reply", "C")
            broker.route_addresses = {"broker-z": broker.address}
            async with producer_at(broker) as other:
                with pytest.raises(BrokerError, match="broker-a"):
                    await other.reply(request, b"pong")

    run(test())


def test_a_timer_message_is_recalled_at_its_broker() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, producer_at(broker) as producer:
            answer = build_header(RecallMessageResponse(msg_id="ID"))
            broker.on(RequestCode.RECALL_MESSAGE, lambda request: request.response(0, ext_fields=answer))
            token = handle("v1 t broker-a 1 ID")
            assert await producer.recall("t", token) == "ID"
            fields = broker.asked(RequestCode.RECALL_MESSAGE)[0].ext_fields
            assert fields == {"producerGroup": "g", "topic": "t", "recallHandle": token}

    run(test())
