"""The handle by which a timer message can be taken back; the handle comes with the answer to the send.

A handle is the URL-safe base64 of ``v1 topic broker timestamp key``, joined by spaces. (Upstream:
``RecallMessageHandle``.)
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from wire.errors import FieldError

# On the wire: never change.
VERSION = "v1"
_SPACES = 4


class RecallHandle(NamedTuple):
    """The contents of a handle; ``timestamp`` can be any text if a client made up the handle."""

    topic: str
    broker_name: str
    timestamp: str
    unique_key: str

    def build(self) -> str:
        """Return the handle as text."""
        return base64.urlsafe_b64encode(" ".join((VERSION, *self)).encode()).decode()


def parse_recall_handle(handle: str) -> RecallHandle:
    """Read a handle, with or without the padding at its end.

    :raises FieldError: the text is not a handle.
    """
    try:
        raw = handle.rstrip("=").translate(_STANDARD).encode("ascii")
        text = base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True).decode()
        version, topic, broker_name, timestamp, unique_key = text.split(" ", _SPACES + 1)
    except (binascii.Error, ValueError) as error:
        raise FieldError("recall handle", "recallHandle", handle, "the handle of a timer message") from error
    if version != VERSION:
        raise FieldError("recall handle", "recallHandle", handle, f"a handle of version {VERSION}")
    return RecallHandle(topic, broker_name, timestamp, unique_key)


_STANDARD = str.maketrans("-_", "+/")
