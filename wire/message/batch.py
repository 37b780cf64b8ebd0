"""The body of a batch send: messages one after the other, before the broker makes a record of each.

    total size int32 · magic int32 (0) · body checksum int32 (0) · flag int32 · body length int32 · body
    · properties length int16 · properties

Topic, queue, system flag and hosts are those of the command around it. Clients send zero as magic and
checksum; neither is looked at here, nor upstream (``MessageDecoder.decodeMessages``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from wire.errors import BodyError, LocalError
from wire.fixed_layout import FixedLayout
from wire.layout_kinds import Int32sb, Struct
from wire.message.properties import MAX_PROPERTIES_BYTES

Readable: TypeAlias = bytes | bytearray | memoryview

PART_HEAD = FixedLayout(
    "batch part head",
    Struct(
        "total_size" / Int32sb,
        "magic" / Int32sb,
        "body_crc" / Int32sb,
        "flag" / Int32sb,
        "body_bytes" / Int32sb,
    ),
)
_properties_bytes = struct.Struct(">h")
_HEAD_BYTES = PART_HEAD.size
MIN_PART_BYTES = _HEAD_BYTES + _properties_bytes.size

MAX_BATCH_PARTS = 32_768
"""Messages in one batch; a limit of ours. A body of 4 MiB of useful messages has fewer."""


class BatchPart(NamedTuple):
    """One message of a batch; a tuple, since a batch makes thousands."""

    flag: int
    body: bytes
    properties: bytes


def parse_batch(body: Readable) -> list[BatchPart]:
    """The messages of a batch body, in order; an empty body holds none.

    :raises BodyError: a part is cut off, its parts do not add up, or there are more than ``MAX_BATCH_PARTS``.
    """
    parts: list[BatchPart] = []
    offset = 0
    length = len(body)
    while offset < length:
        if len(parts) == MAX_BATCH_PARTS:
            raise BodyError(f"batch holds more than {MAX_BATCH_PARTS} messages")
        if length - offset < MIN_PART_BYTES:
            raise BodyError(f"batch message {len(parts)} is cut off: {length - offset} bytes left")
        size, _, _, flag, body_bytes = PART_HEAD.unpack_from(body, offset)
        body_at = offset + _HEAD_BYTES
        properties_at = body_at + body_bytes + 2
        end = offset + size
        if body_bytes < 0 or end > length or properties_at > end:
            raise BodyError(
                f"batch message {len(parts)}: size {size} and body of {body_bytes} bytes do not fit "
                f"into the {length - offset} bytes left"
            )
        (properties_bytes,) = _properties_bytes.unpack_from(body, properties_at - 2)
        if properties_bytes < 0 or properties_at + properties_bytes != end:
            raise BodyError(
                f"batch message {len(parts)}: its parts take {properties_at - offset + properties_bytes} "
                f"bytes, it says {size}"
            )
        parts.append(BatchPart(flag, bytes(body[body_at : properties_at - 2]), bytes(body[properties_at:end])))
        offset = end
    return parts


def build_batch(parts: Sequence[BatchPart]) -> bytes:
    """The batch body of some messages.

    :raises LocalError: properties over 32767 bytes.
    """
    return b"".join([build_part(*part) for part in parts])


def build_part(flag: int, body: bytes, properties: bytes) -> bytes:
    """One message of a batch body.

    :raises LocalError: properties over 32767 bytes.
    """
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise LocalError(f"properties take {len(properties)} bytes, the limit is {MAX_PROPERTIES_BYTES}")
    head = PART_HEAD.pack(MIN_PART_BYTES + len(body) + len(properties), 0, 0, flag, len(body))
    return b"".join((head, body, _properties_bytes.pack(len(properties)), properties))
