"""The handle by which a timer message can be taken back, as the client reads it; the format is ``wire``'s."""

from __future__ import annotations

from gateway.client.errors import ConfigurationError
from wire.errors import FieldError
from wire.message import recall_handle


def parse_recall_handle(handle: str) -> recall_handle.RecallHandle:
    """Read a handle.

    :raises ConfigurationError: it is none.
    """
    try:
        found = recall_handle.parse_recall_handle(handle)
        int(found.timestamp)
    except (FieldError, ValueError) as error:
        raise ConfigurationError("recall_handle", handle, "SendResult.recall_handle of a timer message") from error
    return found
