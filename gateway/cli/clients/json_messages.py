"""Messages as lines of JSON, which ``consume`` and ``tail`` print and ``produce`` reads.

A body that is UTF-8 text is in ``body``, any other body in ``body_base64``. ``produce`` can read printed lines again:
it takes ``body`` or ``body_base64``, ``tags``, ``keys``, ``properties``, ``sharding_key``, ``delay_level`` and
``delay`` (seconds), and ignores other members. Properties of the protocol are printed only with ``all_properties``.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from gateway.client.errors import MessageRefused
from gateway.client.message import RESERVED_PROPERTIES, Message, ReceivedMessage
from gateway.readable import moment_text
from wire.message.properties import PropertyName
from wire.safe_text import safe_json

_OWN_MEMBERS = frozenset(
    (PropertyName.KEYS, PropertyName.TAGS, PropertyName.SHARDING_KEY, PropertyName.WAIT, *RESERVED_PROPERTIES)
)


def message_line(message: ReceivedMessage, *, all_properties: bool = False) -> str:
    """Return a message as one line, without the line's end."""
    members: dict[str, Any] = {
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "msg_id": message.msg_id,
        "stored_at": moment_text(message.stored_at_ms),
        "born_at": moment_text(message.born_at_ms),
        "tags": message.tags or None,
        "keys": list(message.keys) or None,
        "sharding_key": message.sharding_key or None,
        "reconsume_times": message.reconsume_times or None,
        "properties": {
            name: value for name, value in message.properties.items() if all_properties or name not in _OWN_MEMBERS
        }
        or None,
    }
    line = {name: value for name, value in members.items() if value is not None}
    return safe_json({**line, **body_members(message.body)})


def message_of_line(line: str, topic: str) -> Message:
    """Return the message that a line of JSON describes.

    :raises MessageRefused: the line is no JSON object, has no body, or describes a message that is not allowed.
    """
    try:
        members = json.loads(line)
    except json.JSONDecodeError as error:
        raise MessageRefused("line", f"is not JSON: {error}") from error
    if not isinstance(members, dict):
        raise MessageRefused("line", "is not a JSON object")
    keys = members.get("keys") or ()
    try:
        return Message(
            topic,
            _read_body(members),
            tags=members.get("tags") or "",
            keys=keys if isinstance(keys, str) else tuple(keys),
            properties=members.get("properties") or {},
            sharding_key=members.get("sharding_key") or "",
            delay_level=members.get("delay_level") or 0,
            delay=members.get("delay"),
        )
    except (TypeError, AttributeError) as error:
        raise MessageRefused("line", f"has a member of a wrong type: {error}") from error


def body_members(body: bytes) -> dict[str, str]:
    """Return a body as the member ``body`` if it is UTF-8, otherwise as ``body_base64``."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode("ascii")}


def _read_body(members: dict[str, Any]) -> bytes:
    text, packed = members.get("body"), members.get("body_base64")
    if isinstance(packed, str):
        try:
            return base64.b64decode(packed, validate=True)
        except binascii.Error as error:
            raise MessageRefused("body_base64", f"is not base64: {error}") from error
    if isinstance(text, str):
        return text.encode()
    if text is not None:
        return json.dumps(text, ensure_ascii=False).encode()  # an object within the line travels as its own JSON
    raise MessageRefused("line", "has neither body nor body_base64")
