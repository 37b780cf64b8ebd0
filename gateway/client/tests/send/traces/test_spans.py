import importlib
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.errors import BrokerError, ClientClosed, ConfigurationError, MessageTooLarge, RouteNotFound
from gateway.client.message import Message
from gateway.client.send.producer import Producer
from gateway.client.send.spans import SendSpans
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from wire.codes import RequestCode, ResponseCode
from wire.message.properties import parse_properties


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Return the exporter in which spans end up; the provider of the process is left as it was."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def test_a_send_is_a_span_whose_context_travels_with_the_message(exporter: InMemorySpanExporter) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            settings = ProducerSettings(namesrv=broker.address, enable_opentelemetry=True, enable_trace=True)
            async with Producer("g", settings) as producer:
                result = await producer.send(Message("t", b"hello", tags="T", keys="k"))
                await producer.send_batch([Message("t", b"1"), Message("t", b"2")])
                broker.answer(RequestCode.SEND_MESSAGE_V2, ResponseCode.MESSAGE_ILLEGAL, "no")
                with pytest.raises(BrokerError):
                    await producer.send(Message("t", b"hello"))
            good, batch, bad = exporter.get_finished_spans()
            assert (good.name, good.kind) == ("send t", trace.SpanKind.PRODUCER)
            assert good.attributes is not None
            assert good.attributes["messaging.message.id"] == result.msg_id
            assert good.attributes["messaging.rocketmq.message.keys"] == ("k",)
            context = parse_properties(broker.asked(RequestCode.SEND_MESSAGE_V2)[0].ext_fields["i"])["TRACE_CONTEXT"]
            assert f"{good.context.trace_id:032x}-{good.context.span_id:016x}" in context
            assert batch.attributes is not None
            assert batch.attributes["messaging.batch.message_count"] == 2
            assert bad.status.status_code is trace.StatusCode.ERROR

    run(test())


def test_every_span_ends(exporter: InMemorySpanExporter) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            settings = ProducerSettings(namesrv=broker.address, enable_opentelemetry=True)
            broker.answer(RequestCode.SEND_MESSAGE_V2, 0)
            async with Producer("g", settings) as producer:
                await producer.send_oneway(Message("t", b"one way"))
                broker.unknown_topics = {"u", "TBW102"}
                with pytest.raises(RouteNotFound):
                    await producer.send_oneway(Message("u", b"one way to nowhere"))
                with pytest.raises(MessageTooLarge):
                    await producer.send(Message("t", b"x", properties={"long": "x" * 40_000}))
                broker.on(RequestCode.SEND_MESSAGE_V2, lambda _: None)
                unanswered = await producer.send_async(Message("t", b"unanswered"))
                await producer.close(timeout=0.01)
                with pytest.raises(ClientClosed):
                    await unanswered
            spans = exporter.get_finished_spans()
            assert [span.status.status_code.name for span in spans] == ["UNSET", "ERROR", "ERROR", "ERROR"]
            assert spans[0].attributes is not None
            assert spans[0].attributes["messaging.message.id"]

    run(test())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigurationError, match="pip install opentelemetry-api"):
        SendSpans()
