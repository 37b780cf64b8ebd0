"""Single fields of a record in place, without reading the rest: for recovery, dispatch and searches by time.

Where a field lies is asked of the declared head; what stands behind the client's address moves with its
length. The caller has checked the record (``check_record``) or wrote it itself.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from wire.errors import RecordError
from wire.message.record_layout import FLAGS_AT, HEAD_BY_BYTE, HEADS, MAGIC_V2

Readable: TypeAlias = bytes | bytearray | memoryview

_HEAD = HEADS[0]


class _Field:
    """Reads one field; its place depends on the address bits at most."""

    __slots__ = ("_name", "_offsets", "_unpack_from")

    def __init__(self, name: str) -> None:
        self._name = name
        self._unpack_from = _HEAD.packer(name).unpack_from
        self._offsets = tuple(head.offset(name) for head in HEAD_BY_BYTE)

    def __call__(self, buffer: Readable, offset: int = 0) -> int:
        try:
            value: int = self._unpack_from(buffer, offset + self._offsets[buffer[offset + FLAGS_AT]])[0]
        except (IndexError, struct.error) as error:
            raise RecordError(f"cut off before {self._name}: {len(buffer) - offset} bytes left") from error
        return value


total_size_at = _Field("total_size")
queue_id_at = _Field("queue_id")
queue_offset_at = _Field("queue_offset")
commit_log_offset_at = _Field("commit_log_offset")
sys_flag_at = _Field("sys_flag")
born_at_ms_at = _Field("born_at_ms")
stored_at_ms_at = _Field("stored_at_ms")
prepared_transaction_offset_at = _Field("prepared_transaction_offset")

_MAGIC_AT = _HEAD.offset("magic") + 3
"""The byte in which the two kinds of record differ."""
_MAGIC_V2_BYTE = MAGIC_V2 & 0xFF
_BODY_BYTES = tuple(
    (head.packer("body_bytes").unpack_from, head.offset("body_bytes"), head.size) for head in HEAD_BY_BYTE
)


def properties_in(record: Readable, offset: int = 0) -> bytes:
    """The property string of the record that starts at ``offset``.

    :raises RecordError: the record is cut off, or its parts do not add up.
    """
    end = offset + total_size_at(record, offset)
    unpack_from, body_bytes_at, head_bytes = _BODY_BYTES[record[offset + FLAGS_AT]]
    try:
        topic_at: int = offset + head_bytes + unpack_from(record, offset + body_bytes_at)[0] + 1
        topic_bytes = record[topic_at - 1]
        if record[offset + _MAGIC_AT] == _MAGIC_V2_BYTE:
            topic_bytes = topic_bytes << 8 | record[topic_at]
            topic_at += 1
        start = topic_at + topic_bytes + 2
        adds_up = start + (record[start - 2] << 8 | record[start - 1]) == end <= len(record)
    except (IndexError, struct.error) as error:
        raise RecordError(f"cut off before the properties: {len(record) - offset} bytes left") from error
    if not adds_up:
        raise RecordError("the lengths of body, topic and properties do not add up to the record's")
    return bytes(record[start:end])
