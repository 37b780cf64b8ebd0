"""Between which times the messages of a topic were stored, and up to which a group has consumed them."""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import Body, JsonObject, field
from wire.bodies.message_queue import MessageQueue


class QueueTimeSpan(JsonObject):
    """One queue; times in epoch milliseconds, −1 where there is no message, and the delay in milliseconds.

    The texts are of the times as ``yyyy-MM-dd#HH:mm:ss:SSS``, for people; Java clients make them anew.
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
