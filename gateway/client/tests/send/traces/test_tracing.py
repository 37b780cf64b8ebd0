"""Traces of consumers and transactions on their way to the trace topic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.client.connect.producer_settings import ProducerSettings, TransactionSettings
from gateway.client.consume.lite_pull.lite_pull_consumer import LitePullConsumer
from gateway.client.consume.push.push_consumer import PushConsumer
from gateway.client.consume.settings.consumer_settings import ConsumeFrom, LitePullSettings, PushSettings
from gateway.client.errors import BrokerError
from gateway.client.message import Message, ReceivedMessage
from gateway.client.send.producer import Producer
from gateway.client.tests.consuming_broker import ConsumingBroker
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from gateway.client.tests.send.test_recall_handle import handle
from gateway.client.transact.transaction_producer import TransactionProducer
from gateway.client.transaction_state import TransactionState
from wire.codes import RequestCode
from wire.headers.declare import build_header, parse_header
from wire.headers.send import RecallMessageResponse, ShortSendMessageRequest

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


def traced(broker: ScriptedBroker) -> list[list[str]]:
    """The fields of all records that were sent, in their order."""
    found: list[list[str]] = []
    for request in broker.asked(RequestCode.SEND_MESSAGE_V2):
        header = parse_header(ShortSendMessageRequest, request.ext_fields)
        if header.topic == TRACE_TOPIC:
            assert "%" not in header.producer_group
            found += [record.split("\x01") for record in request.body.decode().split("\x02") if record]
    return found


def settings(kind: Any, broker: ScriptedBroker) -> Any:
    first = ConsumeFrom.FIRST_OFFSET
    return kind(namesrv=broker.address, namespace="ns", enable_trace=True, consume_from_where=first)


def test_what_a_listener_gets_is_traced() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("ns%t", b"0", b"1")
            done = asyncio.Event()

            async def listen(_: Sequence[ReceivedMessage]) -> None:
                done.set()

            chosen = settings(PushSettings, broker)
            async with PushConsumer("g", None, chosen, batch_listener=listen, subscriptions={"t": "*"}):
                await done.wait()
        before, after = traced(broker)[:2], traced(broker)[2:]
        assert [record[0] for record in before] == ["SubBefore"] * 2
        assert [record[3] for record in before] == ["g"] * 2
        assert [(record[0], record[4], record[6]) for record in after] == [("SubAfter", "true", "0")] * 2
        assert {record[4] for record in before} == {record[1] for record in after}

    run(scenario())


def test_what_a_poll_gives_is_traced() -> None:
    async def scenario() -> None:
        async with ConsumingBroker(queues=1) as broker:
            broker.put("ns%t", b"0")
            async with LitePullConsumer("g", settings(LitePullSettings, broker), subscriptions={"t": "*"}) as consumer:
                assert len(await consumer.poll()) == 1
        assert [record[0] for record in traced(broker)] == ["SubBefore", "SubAfter"]

    run(scenario())


class Always:
    """Commits."""

    def check(self, message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT


def test_a_half_message_and_its_outcome_are_traced() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            chosen = TransactionSettings(namesrv=broker.address, namespace="ns", enable_trace=True)
            async with TransactionProducer("g", Always(), chosen) as producer:
                async with producer.begin(Message("t", b"paid", tags="T", keys=("k",))) as transaction:
                    await transaction.commit()
                await broker.wait_for(RequestCode.END_TRANSACTION)
            published, ended = traced(broker)
            assert (published[0], published[5], published[11]) == ("Pub", transaction.msg_id, "1")
            assert ended[0] == "EndTransaction"
            assert ended[2:9] == ["DefaultRegion", "g", "t", transaction.msg_id, "T", "k", broker.address]
            assert ended[9:] == ["2", transaction.half.transaction_id or "", "COMMIT_MESSAGE", "false"]

    run(scenario())


def test_a_recall_is_traced_whether_it_worked_or_not() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            answer = build_header(RecallMessageResponse(msg_id="ID"))
            broker.on(RequestCode.RECALL_MESSAGE, lambda request: request.response(0, ext_fields=answer))
            chosen = ProducerSettings(namesrv=broker.address, enable_trace=True)
            async with Producer("g", chosen) as producer:
                await producer.recall("t", handle("v1 t broker-a 1700000000000 ID"))
                broker.answer(RequestCode.RECALL_MESSAGE, 1)
                with pytest.raises(BrokerError):
                    await producer.recall("t", handle("v1 t broker-a 1700000000000 ID"))
            assert [(record[0], record[-1]) for record in traced(broker)] == [("Recall", "true"), ("Recall", "false")]

    run(scenario())
