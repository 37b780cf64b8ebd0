"""Single fields of a record in place, without reading the rest: for recovery, dispatch and searches by time.

The declared head says where a field is; fields after the client's address move with the length of that address. The
caller has checked the record (``check_record``) or wrote the record itself.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import struct
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from wire.errors import RecordError
from wire.fixed_layout import Readable
from wire.message.record_layout import FLAGS_AT, HEAD_BY_BYTE, HEADS, MAGIC_V2, MIN_RECORD_BYTES, MIN_TAIL_BYTES

_HEAD = HEADS[0]


class _Field:
    """A reader of one field, whose place depends only on the address bits."""

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

_MAGIC_AT: Final[i64] = _HEAD.offset("magic") + 3
"""The position of the byte in which the two kinds of record differ."""
_MAGIC_V2_BYTE: Final[i64] = MAGIC_V2 & 0xFF
_FLAGS_AT: Final[i64] = FLAGS_AT
_HEAD_BYTES: Final = bytes(head.size for head in HEAD_BY_BYTE)
_BODY_BYTES_BEHIND: Final = 4
"""The bytes of the body's length, the last field of the head."""
_MIN_RECORD_BYTES: Final[i64] = MIN_RECORD_BYTES
_MIN_TAIL_BYTES: Final[i64] = MIN_TAIL_BYTES
_PAIR_END: Final = 2
_PAIR_END_BYTE: Final = b"\x02"


def properties_start(data: bytes, start: i64, end: i64) -> i64:
    """Return the position at which the property string starts in the record ``data[start:end]``.

    The property string ends the record. The result is −1 for a damaged record: a record that is cut off, or whose
    lengths do not match its size. The function uses machine integers, because a filter calls it for every record that
    the filter reads.
    """
    total = end - start
    if end > len(data) or total < _MIN_RECORD_BYTES or read_i32_be(data, start) != total:
        return -1
    flags: i64 = data[start + _FLAGS_AT]
    head: i64 = _HEAD_BYTES[flags]
    most_body = total - head - _MIN_TAIL_BYTES
    if most_body < 0:
        return -1
    behind = start + head
    body = i64(read_i32_be(data, behind - _BODY_BYTES_BEHIND))
    if not 0 <= body <= most_body:
        return -1
    behind += body
    if data[start + _MAGIC_AT] == _MAGIC_V2_BYTE:
        behind += 2 + (data[behind] << 8 | data[behind + 1])
    else:
        behind += 1 + data[behind]
    if behind + 2 > end or behind + 2 + (data[behind] << 8 | data[behind + 1]) != end:
        return -1
    return behind + 2


def property_mark(name: str) -> bytes:
    """Return the bytes before a property's value; the first property of a string lacks the first of these bytes."""
    return f"\x02{name}\x01".encode()


def property_value(data: bytes, mark: bytes, start: i64, end: i64) -> bytes:
    """Return the value of a property in the property string ``data[start:end]``; b"" if the property is missing.

    The last of several properties with one name counts. A pair without a value does not count.
    """
    at = find_property(data, mark, start, end)
    return b"" if at < 0 else value_from(data, at, end)


def find_property(data: bytes, mark: bytes, start: i64, end: i64) -> i64:
    """Return the position at which the value that ``property_value`` returns starts; −1 if there is none."""
    length: i64 = len(mark)
    before = end
    while True:
        found: i64 = data.rfind(mark, start, before)
        if found < 0:
            break
        at = found + length
        if at < end and data[at] != _PAIR_END:
            return at
        before = found
    at = start + length - 1
    if at < end and data[at] != _PAIR_END and data[start:at] == mark[1:]:
        return at
    return -1


def value_from(data: bytes, start: i64, end: i64) -> bytes:
    """Return the value that starts at ``start`` and ends at the next pair or at the end of the property string."""
    found: i64 = data.find(_PAIR_END_BYTE, start, end)
    return data[start:end] if found < 0 else data[start:found]
