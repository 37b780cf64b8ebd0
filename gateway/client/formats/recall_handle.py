"""The handle by which a timer message can be taken back, as the client reads it; the format is ``wire``'s."""

from __future__ import annotations

from typing import NamedTuple

from gateway.client.errors import ConfigurationError
from wire.errors import FieldError
from wire.message import recall_handle


class RecallHandle(NamedTuple):
    """What a handle says."""

    topic: str
    broker_name: str
    deliver_at_ms: int
    msg_id: str


def parse_recall_handle(handle: str) -> RecallHandle:
    """Read a handle.

    :raises ConfigurationError: it is none.
    """
    try:
        found = recall_handle.parse_recall_handle(handle)
        return RecallHandle(found.topic, found.broker_name, int(found.timestamp), found.unique_key)
    except (FieldError, ValueError) as error:
        raise ConfigurationError("recall_handle", handle, "SendResult.recall_handle of a timer message") from error
