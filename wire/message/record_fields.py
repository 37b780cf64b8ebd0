"""Single fields of a record in place, without reading the rest: for recovery, dispatch and searches by time.

Where a field lies is asked of the declared head; what stands behind the client's address moves with its
length. The caller has checked the record (``check_record``) or wrote it itself.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from wire.errors import RecordError
from wire.message.record_layout import FLAGS_AT, HEAD_BY_BYTE, HEADS, MAGIC_V2, MIN_RECORD_BYTES, MIN_TAIL_BYTES

if TYPE_CHECKING:
    from mypy_extensions import i64

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
queue_offset_at = _Field("queue_offset")
commit_log_offset_at = _Field("commit_log_offset")
sys_flag_at = _Field("sys_flag")
stored_at_ms_at = _Field("stored_at_ms")
prepared_transaction_offset_at = _Field("prepared_transaction_offset")

_MAGIC_AT = _HEAD.offset("magic") + 3
"""The byte in which the two kinds of record differ."""
_MAGIC_V2_BYTE = MAGIC_V2 & 0xFF
_HEAD_BYTES = bytes(head.size for head in HEAD_BY_BYTE)
_BODY_BYTES_BEHIND = 4
"""The length of the body ends the head."""


def properties_start(data: bytes, start: int, end: int) -> int:
    """Where the property string starts in the record ``data[start:end]``, which it ends.

    −1 when the record is cut off, or its lengths do not add up: it is damaged. Machine integers, because a filter asks
    for every record that it looks into.
    """
    at: i64 = start
    last: i64 = end
    if last > len(data) or last - at < MIN_RECORD_BYTES:
        return -1
    head: i64 = _HEAD_BYTES[data[at + FLAGS_AT]]
    total = _unsigned_at(data, at)
    least = head + MIN_TAIL_BYTES
    if total != last - at or total < least:
        return -1
    behind = at + head
    body = _unsigned_at(data, behind - _BODY_BYTES_BEHIND)
    if body > total - least:
        return -1
    behind += body
    if data[at + _MAGIC_AT] == _MAGIC_V2_BYTE:
        behind += 2 + (data[behind] << 8 | data[behind + 1])
    else:
        behind += 1 + data[behind]
    if behind + 2 > last or behind + 2 + (data[behind] << 8 | data[behind + 1]) != last:
        return -1
    return behind + 2


def _unsigned_at(data: bytes, at: i64) -> i64:
    first: i64 = data[at]
    return first << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def property_mark(name: str) -> bytes:
    """What stands before a property's value, unless it is the first of a property string: then without its head."""
    return f"\x02{name}\x01".encode()


def property_value(data: bytes, mark: bytes, start: int, end: int) -> bytes:
    """The value of a property in the property string ``data[start:end]``; b"" when it has none.

    Of several with one name the last one counts; a pair without a value is none.
    """
    value: bytes
    before = end
    while True:
        at: int = data.rfind(mark, start, before)
        if at < 0:
            break
        value = _until_next(data, at + len(mark), end)
        if value:
            return value
        before = at
    first = start + len(mark) - 1
    if first <= end and data[start:first] == mark[1:]:
        return _until_next(data, first, end)
    return b""


def _until_next(data: bytes, start: int, end: int) -> bytes:
    at: i64 = start
    last: i64 = end
    while at < last and data[at] != _PAIR_END:
        at += 1
    return data[start:at]


_PAIR_END = 2
