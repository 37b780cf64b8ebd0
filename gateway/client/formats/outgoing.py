"""The form in which a message is sent: its id, its property string, its body, compressed or not.

No I/O and no clock: the caller brings the id. Batches are prepared here, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.client.compression import FLAGS, compress
from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.errors import MessageRefused, MessageTooLarge
from gateway.client.formats.send_form import json_text
from gateway.client.message import Message, check_is_message, check_size, message_properties
from wire.message.batch import MAX_BATCH_PARTS, MIN_PART_BYTES, BatchPart
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, build_properties
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

_NO_MORE: Final[Mapping[str, str]] = {}


def is_plain(message: Message) -> bool:
    """Return whether a message has no properties of its own; most messages have none, and take a quicker way."""
    if message.keys or message.tags or message.properties or message.sharding_key or message.delay_level:
        return False
    return message.deliver_at is None and message.delay is None and message.wait_store_msg_ok


def plain_properties(message: Message, msg_id: str) -> bytes | None:
    """Return the property string, as JSON, of a message without properties of its own; None for any other message.

    This shortcut takes a tenth of the time of ``json_properties``.
    """
    if not is_plain(message):
        return None
    return f'"WAIT\\u0001true\\u0002UNIQ_KEY\\u0001{msg_id}\\u0002"'.encode()


def json_properties(properties: Mapping[str, str]) -> bytes:
    """Return the property string of a map, as JSON writes it.

    :raises MessageTooLarge: the string has more than 32767 bytes.
    """
    raw = build_properties(properties)
    _check_properties(raw)
    return json_text(raw.decode())


def full_properties(message: Message, msg_id: str, more: Mapping[str, str] = _NO_MORE) -> dict[str, str]:
    """Return all properties with which a message is sent.

    :param more: properties from the producer: namespace, transaction, correlation …
    """
    properties = message_properties(message)
    properties[PropertyName.UNIQ_KEY] = msg_id
    properties.update(more)
    return properties


def compressed_body(message: Message, settings: ProducerSettings) -> tuple[bytes, int]:
    """Return the body as it is sent, and the bits of the system flag that name the compression.

    Bodies of ``compress_msg_body_over`` bytes or more are compressed. A body that does not become shorter is sent as it
    is.

    :raises MessageTooLarge: the uncompressed body exceeds ``max_message_size``.
    """
    body = message.body
    check_size(message, settings.max_message_size)
    kind = settings.compress_type
    if len(body) < settings.compress_msg_body_over or kind == "none":
        return body, 0
    compressed = compress(body, kind, settings.compress_level)
    return (compressed, FLAGS[kind]) if len(compressed) < len(body) else (body, 0)


def check_batch(messages: Sequence[Message]) -> None:
    """Refuse messages that cannot be sent in one batch, by the rules of the Java client.

    :raises MessageRefused: no messages, different topics, a delay, different ``wait_store_msg_ok``, a retry topic.
    """
    if not isinstance(messages, Sequence):
        raise MessageRefused("batch", f"is {type(messages).__name__}, not a sequence: make a list of the messages")
    if not messages:
        raise MessageRefused("batch", "has no messages")
    for message in messages:
        check_is_message(message)
    first = messages[0]
    for message in messages:
        if message.topic != first.topic:
            raise MessageRefused("batch", f"has topics {first.topic!r} and {message.topic!r}: it takes one topic")
        if message.wait_store_msg_ok != first.wait_store_msg_ok:
            raise MessageRefused("batch", "has messages with and without wait_store_msg_ok")
        if message.is_delayed:
            raise MessageRefused("batch", "has a delayed message: send it alone")
    if first.topic.startswith(RETRY_TOPIC_PREFIX):
        raise MessageRefused("batch", "is for a retry topic: send the messages one by one")


def split_batch(
    messages: Sequence[Message], msg_ids: Sequence[str], limit_bytes: int, more: Mapping[str, str] = _NO_MORE
) -> Iterator[tuple[slice, list[BatchPart]]]:
    """Cut a batch into parts whose bodies fit the limit; yield each part after the range of its messages.

    :raises MessageTooLarge: one message alone does not fit, or its properties exceed their limit.
    """
    begin = 0
    size = 0
    parts: list[BatchPart] = []
    for index, (message, msg_id) in enumerate(zip(messages, msg_ids, strict=True)):
        if len(message.body) > limit_bytes - MIN_PART_BYTES:
            check_size(message, limit_bytes - MIN_PART_BYTES)  # refuses it
        if not more and is_plain(message):
            properties = f"WAIT\x01true\x02UNIQ_KEY\x01{msg_id}\x02".encode()
        else:
            properties = build_properties(full_properties(message, msg_id, more))
            _check_properties(properties)
        part_bytes = MIN_PART_BYTES + len(message.body) + len(properties)
        if parts and (size + part_bytes > limit_bytes or len(parts) == MAX_BATCH_PARTS):
            yield slice(begin, index), parts
            begin, size, parts = index, 0, []
        parts.append(BatchPart(message.flag, message.body, properties))
        size += part_bytes
    yield slice(begin, len(messages)), parts


def _check_properties(raw: bytes) -> None:
    if len(raw) > MAX_PROPERTIES_BYTES:
        fix = "shorten keys and properties, or put the data into the body"
        raise MessageTooLarge("properties", len(raw), MAX_PROPERTIES_BYTES, fix)
