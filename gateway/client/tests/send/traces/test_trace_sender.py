import asyncio
import logging

import pytest

from gateway.client.errors import BrokerError
from gateway.client.formats import trace
from gateway.client.formats.trace import TraceRecord
from gateway.client.message import Message, MessageQueue
from gateway.client.results import SendResult, SendStatus
from gateway.client.send.sending import SendOptions
from gateway.client.send.trace_sender import TraceSender
from gateway.client.tests.connect.test_instance import instance_at
from gateway.client.tests.scripted_broker import ScriptedBroker, run

RECORD = TraceRecord(("Pub", "x"), ("id",))


class Outbox:
    """Takes the place of a sender."""

    def __init__(self, error: Exception | None = None) -> None:
        self.messages: list[Message] = []
        self.came = asyncio.Event()
        self._error = error

    async def submit(self, message: Message, options: SendOptions) -> asyncio.Future[SendResult]:
        self.messages.append(message)
        self.came.set()
        future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
        if self._error is not None:
            future.set_exception(self._error)
        else:
            future.set_result(SendResult(SendStatus.SEND_OK, "A", "B", MessageQueue("t", "b", 0), 0))
        return future


def test_a_full_batch_is_sent_at_once() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            outbox = Outbox()
            traces = TraceSender(instance, outbox, "traces")
            traces.start()
            for _ in range(trace.MAX_RECORDS):
                traces.add(RECORD)
            await outbox.came.wait()
            assert outbox.messages[0].body.count(b"\x02") == trace.MAX_RECORDS

    run(test())


def test_a_few_records_are_sent_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "FLUSH_INTERVAL", 0.01)

    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            outbox = Outbox()
            traces = TraceSender(instance, outbox, "traces")
            traces.start()
            traces.add(RECORD)
            await outbox.came.wait()
            assert outbox.messages[0].body == RECORD.text().encode()

    run(test())


def test_more_than_can_wait_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            outbox = Outbox()
            traces = TraceSender(instance, outbox, "traces")
            for _ in range(trace.MAX_WAITING + 7):
                traces.add(RECORD)
            await traces.flush()
            assert sum(message.body.count(b"\x02") for message in outbox.messages) == trace.MAX_WAITING

    with caplog.at_level(logging.WARNING):
        run(test())
    assert "7 trace records were dropped" in caplog.text


def test_traces_that_cannot_be_sent_disturb_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, instance_at(broker) as instance:
            traces = TraceSender(instance, Outbox(BrokerError(17, "no topic", "b:1")), "traces")
            traces.add(RECORD)
            await traces.flush()

    with caplog.at_level(logging.WARNING):
        run(test())
    assert "no topic" in caplog.text
