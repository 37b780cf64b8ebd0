"""Tests of the blocking simple consumer: every method reaches the core."""

from __future__ import annotations

from gateway.client import SimpleConsumer, SimpleSettings
from gateway.client.tests.blocking.broker_thread import broker_thread
from gateway.client.tests.consume.pop.test_simple_consumer import once, popped, record
from wire.codes import RequestCode
from wire.headers.declare import build_header
from wire.headers.pop import ChangeInvisibleTimeResponse


def test_messages_are_received_hidden_and_acknowledged() -> None:
    terms = build_header(ChangeInvisibleTimeResponse(pop_time=2000, invisible_time=1500, revive_qid=4))
    with broker_thread() as server:
        broker = server.broker
        broker.on(RequestCode.POP_MESSAGE, once(lambda request: popped(request, record(5, b"a"), record(6, b"b"))))
        broker.answer(RequestCode.ACK_MESSAGE, 0)
        broker.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, lambda request: request.response(0, ext_fields=dict(terms)))
        settings = SimpleSettings(namesrv=broker.address)
        with SimpleConsumer("g", settings, subscriptions={"t": "*"}) as consumer:
            first, second = consumer.receive(8, invisible_time=30, timeout=5)
            consumer.change_invisible_time(first, 1.5)
            consumer.ack([first, second])
            assert consumer.settings is settings
            assert consumer.receive(timeout=0.01) == []
        assert len(broker.asked(RequestCode.ACK_MESSAGE)) == 2
