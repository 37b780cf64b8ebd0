"""The body of a batch send: messages one after the other. The broker makes a record of each message, or one of all.

    total size int32 · magic int32 (0) · body checksum int32 (0) · flag int32 · body length int32 · body
    · properties length int16 · properties

Topic, queue, system flag and hosts are those of the command around the body. Clients send zero as magic and checksum.
Neither field is checked here or upstream (``MessageDecoder.decodeMessages``).

Topics with batch queues (``queue.type=BatchCQ``) have *inner batches*: one record with the body of the send. The broker
writes the offset of the first message into INNER_BASE and the number of messages into INNER_NUM. The n-th message has
the record's offset plus n, and the receiver takes the record apart (``MessageSysFlag``, ``BatchConsumeQueue``).
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from wire.errors import BodyError, LocalError
from wire.fixed_layout import FixedLayout, Int32sb, Readable
from wire.message.flags import SysFlag
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName
from wire.message.record import StoredMessage

PART_HEAD = FixedLayout(
    "batch part head", total_size=Int32sb, magic=Int32sb, body_crc=Int32sb, flag=Int32sb, body_bytes=Int32sb
)
_properties_bytes: Final = struct.Struct(">h")
_HEAD_BYTES: Final = PART_HEAD.size
_PROPERTIES_BYTES: Final = _properties_bytes.size
MIN_PART_BYTES: Final = _HEAD_BYTES + _PROPERTIES_BYTES
_sizes: Final = PART_HEAD.picker(("total_size", "flag", "body_bytes")).unpack_from

MAX_BATCH_PARTS = 32_768
"""The most messages in one batch; a limit of ours. A body of 4 MiB of useful messages has fewer."""


class BatchPart(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes


def parse_batch(body: Readable) -> list[BatchPart]:
    """Return the messages of a batch body in their order; an empty body has none.

    :raises BodyError: a message is cut off, its parts do not match its size, or there are more than
        ``MAX_BATCH_PARTS``.
    """
    return list(map(BatchPart._make, split_batch(body)))


def split_batch(body: Readable) -> list[tuple[int, bytes, bytes]]:
    """Return the messages of a batch body as plain tuples of flag, body and properties.

    Tuples suit callers that read thousands of batches a second.

    :raises BodyError: as ``parse_batch``.
    """
    parts: list[tuple[int, bytes, bytes]] = []
    raw = bytes(body)  # itself, when it is bytes
    offset = 0
    length = len(raw)
    while offset < length:
        if len(parts) == MAX_BATCH_PARTS:
            raise BodyError(f"batch holds more than {MAX_BATCH_PARTS} messages")
        if length - offset < MIN_PART_BYTES:
            raise BodyError(f"batch message {len(parts)} is cut off: {length - offset} bytes left")
        size, flag, body_bytes = _sizes(raw, offset)
        body_at = offset + _HEAD_BYTES
        body_end = body_at + body_bytes
        properties_at = body_end + _PROPERTIES_BYTES
        end = offset + size
        if body_bytes < 0 or end > length or properties_at > end:
            raise BodyError(
                f"batch message {len(parts)}: size {size} and body of {body_bytes} bytes do not fit "
                f"into the {length - offset} bytes left"
            )
        properties_bytes = raw[body_end] << 8 | raw[body_end + 1]
        if properties_bytes > MAX_PROPERTIES_BYTES:
            properties_bytes -= 0x1_0000  # a signed number
        if properties_bytes < 0 or properties_at + properties_bytes != end:
            raise BodyError(
                f"batch message {len(parts)}: its parts take {properties_at - offset + properties_bytes} "
                f"bytes, it says {size}"
            )
        parts.append((flag, raw[body_at:body_end], raw[properties_at:end]))
        offset = end
    return parts


def build_batch(parts: Sequence[BatchPart]) -> bytes:
    """Return the batch body of some messages.

    :raises LocalError: the properties of a message are over 32767 bytes.
    """
    return b"".join([build_part(*part) for part in parts])


def build_part(flag: int, body: bytes, properties: bytes) -> bytes:
    """Return one message of a batch body.

    :raises LocalError: the properties are over 32767 bytes.
    """
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise LocalError(f"properties take {len(properties)} bytes, the limit is {MAX_PROPERTIES_BYTES}")
    head = PART_HEAD.pack(MIN_PART_BYTES + len(body) + len(properties), 0, 0, flag, len(body))
    return b"".join((head, body, _properties_bytes.pack(len(properties)), properties))


INNER_BATCH: Final = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
MAX_INNER_MESSAGES: Final = 32_767
"""The most messages of one record; upstream keeps their number in 16 bits."""
_MAX_DIGITS = 18


def is_inner_batch(sys_flag: int) -> bool:
    """Return whether a record with this system flag holds several messages."""
    return sys_flag & INNER_BATCH == INNER_BATCH


def inner_count(sys_flag: int, queue_offset: int, properties: Mapping[str, str]) -> int:
    """Return how many messages a record holds: 1, or the number that the broker wrote when it stored the record here.

    A copy in another queue counts as one message, even if the original holds several.
    """
    if not is_inner_batch(sys_flag) or _number(properties.get(PropertyName.INNER_BASE)) != queue_offset:
        return 1
    return max(1, min(_number(properties.get(PropertyName.INNER_NUM)), MAX_INNER_MESSAGES))


def inner_offsets(message: StoredMessage) -> range:
    """Return the queue offsets of a stored record: its own offset, and those of the other messages in the record."""
    first = message.queue_offset
    if not is_inner_batch(message.sys_flag):  # nearly all are none: their properties need not be read for this
        return range(first, first + 1)
    return range(first, first + inner_count(message.sys_flag, first, message.property_map))


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else -1
