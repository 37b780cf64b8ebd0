"""Acknowledgements of popped messages; popping itself is tested with the consumers."""

from __future__ import annotations

import pytest

from gateway.client.consume.pop.pop_handles import PoppedMessage, ReceiptWords
from gateway.client.consume.pop.pops import GroupPops, batch_acks
from gateway.client.consume.settings.consumer_settings import ConsumeFrom
from gateway.client.errors import BrokerError
from gateway.client.tests.connect.test_instance import instance_at
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from gateway.client.tests.test_message import received_with
from wire.bodies.pop import BatchAckMessage
from wire.codes import RequestCode, ResponseCode


def popped(start: int, offset: int, *, retry: str = "0", topic: str = "t") -> PoppedMessage:
    receipt = ReceiptWords(str(start), "1000", "60000", "3", retry, "broker-a", "2", str(offset))
    return PoppedMessage(received_with({}, topic=topic).record, "broker-a", receipt, 60.0, "")


def test_messages_of_one_check_point_are_one_entry() -> None:
    acks, alone = batch_acks([popped(5, 5), popped(5, 7), popped(9, 9, retry="1"), popped(5, 6)], "g")
    assert alone == []
    assert [(ack.start_offset, ack.retry, ack.offsets()) for ack in acks] == [(5, "0", [5, 6, 7]), (9, "1", [9])]
    assert {(ack.group, ack.topic, ack.queue_id, ack.revive_queue_id) for ack in acks} == {("g", "t", 2, 3)}
    assert {(ack.popped_at_ms, ack.invisible_ms) for ack in acks} == {(1000, 60_000)}


def test_what_does_not_fit_into_an_entry_goes_alone() -> None:
    messages = [popped(5, 5 + 1024), popped(5, 4), popped(5, 5, topic="%RETRY%g_t")]
    assert batch_acks(messages, "g") == ([], messages)


def test_a_broker_that_knows_no_batches_is_asked_for_them_once() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            await instance.route("t")
            pops = GroupPops(instance, "g", ConsumeFrom.LAST_OFFSET)
            broker.answer(RequestCode.ACK_MESSAGE, ResponseCode.SUCCESS)
            broker.answer(RequestCode.BATCH_ACK_MESSAGE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
            for _ in range(2):
                await pops.ack([popped(5, 5), popped(5, 6)])
            assert len(broker.asked(RequestCode.BATCH_ACK_MESSAGE)) == 1
            assert len(broker.asked(RequestCode.ACK_MESSAGE)) == 4

    run(scenario())


def test_one_request_acknowledges_all_of_a_broker_and_its_refusal_is_told() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            await instance.route("t")
            pops = GroupPops(instance, "g", ConsumeFrom.LAST_OFFSET)
            broker.answer(RequestCode.BATCH_ACK_MESSAGE, ResponseCode.SUCCESS)
            await pops.ack([popped(5, 5), popped(5, 6), popped(9, 9)])
            (asked,) = broker.asked(RequestCode.BATCH_ACK_MESSAGE)
            body = BatchAckMessage.parse(asked.body)
            assert (body.broker_name, len(body.acks)) == ("broker-a", 2)
            broker.answer(RequestCode.BATCH_ACK_MESSAGE, ResponseCode.NO_MESSAGE, "no such message")
            with pytest.raises(BrokerError, match="no such message"):
                await pops.ack([popped(5, 5), popped(5, 6)])

    run(scenario())
