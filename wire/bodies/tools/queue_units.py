"""The units of a consume queue, for tools that search for a missing message."""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import Body, JsonObject, field
from wire.bodies.subscriptions import SubscriptionData


class QueueUnit(JsonObject):
    """One unit: the place of its message, and whether a group's filter accepts the message.

    ``text`` says why the group's filter could not be applied.
    """

    physic_offset: int
    physic_size: int
    tags_code: int
    extend_data_json: str | None = None
    bit_map: str | None = None
    is_accepted: bool = field(default=False, name="eval")
    text: str | None = field(default=None, name="msg")


class QueueUnits(Body):
    """The units of a queue and the queue's bounds (upstream ``QueryConsumeQueueResponseBody``).

    ``filter_data`` describes the group's property filter, or says why there is none.
    """

    units: Sequence[QueueUnit] = field(default=(), name="queueData")
    min_queue_index: int = 0
    max_queue_index: int = 0
    subscription: SubscriptionData | None = field(default=None, name="subscriptionData")
    filter_data: str | None = None
