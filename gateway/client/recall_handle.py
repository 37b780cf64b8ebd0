"""The handle by which a timer message can be taken back (upstream ``RecallMessageHandle``).

URL-safe base64 of ``v1 topic broker timestamp id``, joined by spaces.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from gateway.client.errors import ConfigurationError


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
        text = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)).decode()
        version, topic, broker_name, timestamp, msg_id = text.split(" ")
        if version != "v1":
            raise ValueError(version)
        return RecallHandle(topic, broker_name, int(timestamp), msg_id)
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError("recall_handle", handle, "SendResult.recall_handle of a timer message") from error
