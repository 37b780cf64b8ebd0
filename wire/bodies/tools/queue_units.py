"""The units of a consume queue, for tools that look for a message that is missing."""

from __future__ import annotations

from collections.abc import Sequence

from wire.bodies.declare import Body, JsonObject, field
from wire.bodies.subscriptions import SubscriptionData


class QueueUnit(JsonObject):
    """One unit: where its message lies, and whether a group's filter lets it through.

    ``text`` says what the group's filter could not be asked about.
    """

    physic_offset: int
    physic_size: int
    tags_code: int
    extend_data_json: str | None = None
    bit_map: str | None = None
    is_accepted: bool = field(default=False, name="eval")
    text: str | None = field(default=None, name="msg")


class QueueUnits(Body):
    """Units of a queue with its bounds (upstream ``QueryConsumeQueueResponseBody``).

    ``filter_data`` describes the group's property filter, or why there is none.
    """

    units: Sequence[QueueUnit] = field(default=(), name="queueData")
    min_queue_index: int = 0
    max_queue_index: int = 0
    subscription: SubscriptionData | None = field(default=None, name="subscriptionData")
    filter_data: str | None = None
