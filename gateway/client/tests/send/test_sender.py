"""The services of a sender for other clients than a producer; the sending itself is tested with ``Producer``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.message import Message
from gateway.client.send.sender import Sender
from gateway.client.send.sending import SendOptions
from gateway.client.tests.connect.test_instance import instance_at
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from wire.bodies.heartbeat import HeartbeatData
from wire.codes import RequestCode
from wire.headers.declare import parse_header
from wire.headers.send import ShortSendMessageRequest
from wire.message.properties import parse_properties

PLAIN = SendOptions(timeout=3.0, retries=0)


@asynccontextmanager
async def sender_at(broker: ScriptedBroker, **changes: object) -> AsyncIterator[Sender]:
    async with instance_at(broker) as instance:
        settings = ProducerSettings(namesrv=broker.address, **changes)  # type: ignore[arg-type]
        sender = Sender(instance, "g", settings)
        instance.join(sender)
        yield sender
        await sender.close(1.0)


def test_a_consumer_sends_to_a_retry_topic_with_what_it_counted() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, sender_at(broker) as sender:
            more = {"RETRY_TOPIC": "t", "DELAY": "3"}
            options = SendOptions(timeout=3.0, retries=0, more_properties=more)
            result = await (await sender.submit(Message("%RETRY%g", b"x"), options))
            (request,) = broker.asked(RequestCode.SEND_MESSAGE_V2)
            header = parse_header(ShortSendMessageRequest, request.ext_fields)
            assert (header.topic, header.reconsume_times) == ("%RETRY%g", 0)
            assert parse_properties(header.properties or "") == {**more, "WAIT": "true", "UNIQ_KEY": result.msg_id}

    run(test())


def test_a_producer_group_is_named_in_heartbeats() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, sender_at(broker) as sender:
            await (await sender.submit(Message("t", b"x"), PLAIN))
            (heartbeat,) = await broker.wait_for(RequestCode.HEART_BEAT)
            assert HeartbeatData.parse(heartbeat.body).producers == ("g",)

    run(test())
