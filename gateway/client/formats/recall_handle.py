"""The handle with which a timer message can be recalled, as the client reads it; ``wire`` knows the format."""

from __future__ import annotations

from gateway.client.errors import ConfigurationError
from wire.errors import FieldError
from wire.message import recall_handle


def parse_recall_handle(handle: str) -> recall_handle.RecallHandle:
    """Return the content of a handle.

    :raises ConfigurationError: the text is not a handle.
    """
    try:
        found = recall_handle.parse_recall_handle(handle)
        int(found.timestamp)
    except (FieldError, ValueError) as error:
        raise ConfigurationError("recall_handle", handle, "SendResult.recall_handle of a timer message") from error
    return found
