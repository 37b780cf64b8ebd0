"""The store times of a topic's messages, and the store time up to which a group has consumed."""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import Body, JsonObject, field
from wire.bodies.message_queue import MessageQueue


class QueueTimeSpan(JsonObject):
    """The times of one queue in epoch milliseconds, −1 if there is no message; the delay is in milliseconds.

    The texts are the same times as ``yyyy-MM-dd#HH:mm:ss:SSS``, for people. Java clients make the texts again.
    """

    message_queue: MessageQueue
    min_time: int = field(name="minTimeStamp")
    max_time: int = field(name="maxTimeStamp")
    consume_time: int = field(name="consumeTimeStamp")
    delay_time: int = 0
    min_time_text: str | None = field(default=None, name="minTimeStampStr")
    max_time_text: str | None = field(default=None, name="maxTimeStampStr")
    consume_time_text: str | None = field(default=None, name="consumeTimeStampStr")


class ConsumeTimeSpans(Body):
    """The queues of a topic (upstream ``QueryConsumeTimeSpanBody``)."""

    spans: Sequence[QueueTimeSpan] = field(default=(), name="consumeTimeSpanSet")
