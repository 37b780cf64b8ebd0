"""OpenTelemetry spans of sends, for users who installed ``opentelemetry-api`` and set ``enable_opentelemetry``.

Names and attributes follow the semantic conventions of messaging. The context travels in the property
``TRACE_CONTEXT`` (a W3C ``traceparent``), which the Java client of 5.x uses, too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from gateway.client.errors import ConfigurationError
from gateway.client.message import Message
from gateway.client.results import SendResult
from wire.message.properties import PropertyName

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_TRACER_NAME: Final = "gateway.client"
_TRACE_PARENT: Final = "traceparent"


class SendSpans:
    """Starts and ends a span for each message.

    :raises ConfigurationError: ``opentelemetry-api`` is not installed.
    """

    def __init__(self) -> None:
        try:
            self._trace: Any = importlib.import_module("opentelemetry.trace")
            self._propagate: Any = importlib.import_module("opentelemetry.propagate")
        except ImportError as error:
            limit = "False, or the package installed: pip install opentelemetry-api"
            raise ConfigurationError("enable_opentelemetry", True, limit) from error
        self._tracer: Any = self._trace.get_tracer(_TRACER_NAME)

    def begin(self, message: Message, group: str, count: int = 1) -> tuple[Span, dict[str, str]]:
        """Return a new span, a child of the current span, and the properties that carry the span's context.

        :param count: the number of messages in the request.
        """
        attributes = {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": message.topic,
            "messaging.rocketmq.client_group": group,
            "messaging.message.body.size": len(message.body),
        }
        if message.tags:
            attributes["messaging.rocketmq.message.tag"] = message.tags
        if message.keys:
            attributes["messaging.rocketmq.message.keys"] = list(message.keys)
        if count > 1:
            attributes["messaging.batch.message_count"] = count
        kind = self._trace.SpanKind.PRODUCER
        span: Span = self._tracer.start_span(f"send {message.topic}", kind=kind, attributes=attributes)
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier, context=self._trace.set_span_in_context(span))
        parent = carrier.get(_TRACE_PARENT)
        return span, {PropertyName.TRACE_CONTEXT: parent} if parent else {}

    def stored(self, span: Span, result: SendResult) -> None:
        """End the span of a stored message."""
        span.set_attribute("messaging.message.id", result.msg_id)
        span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))
        span.end()

    def handed_over(self, span: Span, msg_id: str) -> None:
        """End the span of a one-way message, which was written and gets no answer."""
        span.set_attribute("messaging.message.id", msg_id)
        span.end()

    def failed(self, span: Span, error: BaseException) -> None:
        """End the span of a message that could not be sent."""
        span.record_exception(error)
        span.set_status(self._trace.StatusCode.ERROR, str(error))
        span.set_attribute("error.type", type(error).__name__)
        span.end()
