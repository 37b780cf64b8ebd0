"""Tests of sending messages back, and of the way round when that fails."""

from __future__ import annotations

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.settings import ClientSettings
from gateway.client.consume.pulled import pulled_messages
from gateway.client.consume.push.send_back import GroupSendBack
from gateway.client.message import MessageQueue, ReceivedMessage
from gateway.client.tests.consuming_broker import ConsumingBroker
from gateway.client.tests.scripted_broker import run
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import parse_header
from wire.headers.send import ConsumerSendMsgBackRequest, ShortSendMessageRequest
from wire.message.properties import parse_properties


def message(broker: ConsumingBroker, broker_name: str = "broker-a") -> ReceivedMessage:
    broker.put("t", b"body", tags="a", reconsume_times=2)
    (row,) = broker.records["t", 0]
    (found,), _, _ = pulled_messages(row, MessageQueue("t", broker_name, 0), asked=1)
    return found


def test_the_broker_is_told_the_place_of_the_message() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            instance = ClientInstance(ClientSettings(namesrv=broker.address))
            await instance.route("t")
            failed = message(broker)
            assert await GroupSendBack(instance, "g", 16).send_back(failed, 4)
            (request,) = broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)
            header = parse_header(ConsumerSendMsgBackRequest, request.ext_fields)
            assert (header.offset, header.group, header.delay_level) == (0, "g", 4)
            assert (header.origin_topic, header.origin_msg_id) == ("t", failed.msg_id)
            assert broker.records["%RETRY%g", 0]
            await instance.close()

    run(scenario())


def test_a_refused_message_is_sent_to_the_retry_topic_itself() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            broker.answer(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, "not found")
            instance = ClientInstance(ClientSettings(namesrv=broker.address))
            await instance.route("t")
            failed = message(broker)
            assert await GroupSendBack(instance, "g", 16).send_back(failed, 0)
            (request,) = broker.asked(RequestCode.SEND_MESSAGE_V2)
            header = parse_header(ShortSendMessageRequest, request.ext_fields)
            assert (header.topic, header.reconsume_times, header.max_reconsume_times) == ("%RETRY%g", 3, 16)
            properties = parse_properties(header.properties or "")
            assert (properties["RETRY_TOPIC"], properties["DELAY"], properties["TAGS"]) == ("t", "5", "a")
            assert properties["ORIGIN_MESSAGE_ID"] == failed.msg_id
            assert request.body == b"body"
            broker.answer(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_ERROR, "neither")
            assert not await GroupSendBack(instance, "g", 16).send_back(failed, 0)
            await instance.close()

    run(scenario())


def test_without_a_route_the_address_in_the_message_is_asked_and_nothing_is_lost_silently() -> None:
    async def scenario() -> None:
        async with ConsumingBroker() as broker:
            settings = ClientSettings(
                namesrv=broker.address, address_map={"127.0.0.1:10911": broker.address}, connect_timeout=0.5
            )
            instance = ClientInstance(settings)
            assert await GroupSendBack(instance, "g", 16).send_back(message(broker, "gone"), 0)
            broker.answer(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR)
            broker.records.clear()
            assert not await GroupSendBack(instance, "g", 16).send_back(message(broker, "gone"), 0)
            await instance.close()

    run(scenario())
