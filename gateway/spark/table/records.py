"""The places of records in pull bodies, found once and read by column.

One pass over the bytes finds where each record begins. After the pass, every field of fixed width is one gather over
all records. Every part of variable length (body, topic, properties) is a run of slices that Arrow copies in one go. No
Python object is made per record. The layout is that of ``wire.message.record_layout``: offsets are asked for by name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gateway.spark.table.byte_tables import bytes_column, is_one_row
from wire.errors import RecordError
from wire.fixed_layout import FixedLayout
from wire.message.flags import SysFlag
from wire.message.record import parse_record
from wire.message.record_layout import HEADS, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES

Integers = NDArray[np.int64]
Whole: TypeAlias = bytes | bytearray | memoryview
"""The buffer of records."""

_read_size: Final = struct.Struct(">i").unpack_from
_MAGIC_AT: Final = HEADS[0].offset("magic")
_MAGIC_START: Final = (MAGIC_V1 & 0xFFFFFFFF).to_bytes(4, "big")[:3]
"""The first bytes of both magic numbers."""
_MOST_RUNS: Final = 32
"""The most runs of equally long records that are followed in a buffer."""


def numpy_layout(layout: FixedLayout) -> np.dtype[Any]:
    """Return the numpy form of a layout."""
    formats: list[Any] = []
    for name in layout.names:
        packer = layout.packer(name)
        formats.append(("u1", (packer.size,)) if packer.format.endswith("s") else f">i{packer.size}")
    offsets = [layout.offset(name) for name in layout.names]
    return np.dtype({"names": list(layout.names), "formats": formats, "offsets": offsets, "itemsize": layout.size})


_HEADS: Final = {flags: numpy_layout(layout) for flags, layout in HEADS.items()}


def record_starts(buffer: Whole) -> Integers:
    """Return where each record begins in a buffer of whole records.

    Neighbouring records mostly have the same size, so runs of one size are followed first. If sizes change too often,
    every magic number is taken for a part of a record's head. These guesses are right if each guessed record begins
    where the one before it ends. If a body contains the magic number, the sizes are followed one by one.

    :raises RecordError: the last record is cut off, or a size is impossible.
    """
    if not len(buffer):
        return np.empty(0, np.int64)
    starts = _starts_of_runs(buffer)
    if starts is None:
        starts = _guessed_starts(buffer)
    return _followed_starts(buffer) if starts is None else starts


def _starts_of_runs(buffer: Whole) -> Integers | None:
    """Return where each record begins; None unless the records are a few runs of one size each."""
    runs: list[Integers] = []
    at, end = 0, len(buffer)
    while at < end:
        if len(runs) == _MOST_RUNS or end - at < MIN_RECORD_BYTES:
            return None
        (size,) = _read_size(buffer, at)
        if not MIN_RECORD_BYTES <= size <= end - at:
            return None
        sizes = np.ndarray(((end - at) // size,), ">i4", buffer, at, (size,))
        is_other = sizes != size
        # A place at which another size stands is a record's begin all the same, if those before it are.
        count = int(np.argmax(is_other)) if is_other.any() else len(sizes)
        runs.append(np.arange(at, at + count * size, size, dtype=np.int64))
        at += count * size
    return np.concatenate(runs)


def _guessed_starts(buffer: Whole) -> Integers | None:
    """Return where each record begins, by the magic numbers; None if a magic number is not in a head."""
    if len(buffer) < MIN_RECORD_BYTES:
        return None
    text = np.frombuffer(buffer, np.uint8)
    at = np.flatnonzero(text[_MAGIC_AT : len(text) - 3] == _MAGIC_START[0])
    for place, byte in enumerate(_MAGIC_START[1:], 1):
        at = at[text[at + (_MAGIC_AT + place)] == byte]
    sizes = np.ndarray((len(text) - 3,), ">i4", buffer, strides=(1,))[at]
    if len(at) and at[0] == 0 and at[-1] + sizes[-1] == len(text) and (at[:-1] + sizes[:-1] == at[1:]).all():
        return at
    return None


def _followed_starts(buffer: Whole) -> Integers:
    """Return where each record begins, by following the sizes one by one.

    :raises RecordError: the last record is cut off, or a size is impossible.
    """
    starts: list[int] = []
    at, end = 0, len(buffer)
    while at < end:
        if end - at < MIN_RECORD_BYTES:
            raise RecordError(f"cut off: {end - at} bytes at {at} are no record")
        (size,) = _read_size(buffer, at)
        if size < MIN_RECORD_BYTES or size > end - at:
            parse_record(buffer, at)
            raise RecordError(f"the record at {at} has {size} bytes of {end - at}")
        starts.append(at)
        at += size
    return np.array(starts, np.int64)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The places of parts that are alike in all records: bytes after the start of a record, and lengths."""

    body_at: int
    body_bytes: int
    topic_at: int
    topic_bytes: int
    properties_at: int
    properties_bytes: int


class Records:
    """Records whose hosts have the same address families, by column.

    :param buffer: the bytes of the records.
    :param starts: where each record begins.
    :raises RecordError: the parts of a record do not add up.
    """

    def __init__(self, buffer: Whole, starts: Integers, host_flags: int) -> None:
        self.buffer = buffer
        self.starts = starts
        self._buffer = np.frombuffer(buffer, np.uint8)
        dtype = _HEADS[host_flags]
        if len(starts) and int(starts[-1]) + dtype.itemsize > len(buffer):
            parse_record(buffer, int(starts[-1]))
        self._distance = _distance(starts)
        self._heads = _heads(buffer, starts, dtype, self._distance)
        self._integers: dict[str, Integers] = {}
        self._alike = self._parts_alike(dtype.itemsize)
        if self._alike is None:
            self._find_parts(dtype.itemsize)

    def __len__(self) -> int:
        return len(self.starts)

    def integers(self, field: str) -> Integers:
        """Return a number of the head, by its name in the layout."""
        column = self._integers.get(field)
        if column is None:
            column = self._integers[field] = self._heads[field].astype(np.int64)
        return column

    def hosts(self, field: str) -> NDArray[np.uint8]:
        """Return an address of the head: a row of 8 or 20 bytes for each record."""
        return np.ascontiguousarray(self._heads[field])

    def same_host(self, field: str) -> bytes | None:
        """Return the address that all records have; None if there are several addresses or no records."""
        table: NDArray[np.uint8] = self._heads[field]
        return table[0].tobytes() if len(table) and is_one_row(table) else None

    def bodies(self) -> pa.Array:
        """Return the bodies as they travelled."""
        table = self.body_table()
        return slices(self.buffer, self._body_at, self._body_bytes) if table is None else bytes_column(table)

    def body_table(self) -> NDArray[np.uint8] | None:
        """Return the bodies as rows of bytes in the buffer; None unless lengths and distances are equal."""
        return None if self._alike is None else self._table(self._alike.body_at, self._alike.body_bytes)

    def body_slices(self) -> Iterator[slice]:
        """Return the place of each body in the buffer, for bodies that are no table."""
        return map(slice, self._body_at.tolist(), (self._body_at + self._body_bytes).tolist())

    def properties(self) -> pa.Array:
        """Return the property strings, as bytes."""
        table = self.property_table()
        return (
            slices(self.buffer, self._properties_at, self._properties_bytes) if table is None else bytes_column(table)
        )

    def property_table(self) -> NDArray[np.uint8] | None:
        """Return the property strings as rows of bytes in the buffer.

        None unless all records have property strings of one length and lie at equal distances.
        """
        return None if self._alike is None else self._table(self._alike.properties_at, self._alike.properties_bytes)

    def all_of_topic(self, name: bytes) -> bool:
        """Return whether every record belongs to the topic."""
        if self._alike is not None:
            table = self._table(self._alike.topic_at, self._alike.topic_bytes)
            return table[0].tobytes() == name and is_one_row(table)
        if (self._topic_bytes != len(name)).any():
            return False
        names = np.ndarray((len(self.buffer) - len(name) + 1,), f"V{len(name)}", self.buffer, strides=(1,))
        found: bytes = names[self._topic_at].tobytes()
        return found == name * len(self)

    def _table(self, at: int, size: int) -> NDArray[np.uint8]:
        """Return the same range of bytes of every record, in place in the buffer."""
        begin = int(self.starts[0]) + at
        return np.ndarray((len(self), size), np.uint8, self.buffer, begin, (self._distance, 1))

    def _parts_alike(self, head_bytes: int) -> _Parts | None:
        """Return the places of the parts, if all records are equally far apart and have the first record's form.

        None also if the first record is bad: the careful check of each record then names the bad one.
        """
        if not self._distance:
            return None
        begin, first = int(self.starts[0]), self._heads[0]
        total, body_bytes, magic = (int(first[field]) for field in ("total_size", "body_bytes", "magic"))
        topic_at = head_bytes + body_bytes
        if magic not in (MAGIC_V1, MAGIC_V2) or body_bytes < 0 or topic_at + 3 > total:
            return None
        if int(self.starts[-1]) + total > len(self.buffer):
            return None
        name_at = topic_at + (2 if magic == MAGIC_V2 else 1)
        name_bytes = int.from_bytes(self.buffer[begin + topic_at : begin + name_at], "big")
        length_at = name_at + name_bytes
        if length_at + 2 > total:
            return None
        stated = int.from_bytes(self.buffer[begin + length_at : begin + length_at + 2], "big")
        if length_at + 2 + stated != total:
            return None
        sizes = ((0, _MAGIC_AT + 4), (head_bytes - 4, 4), (topic_at, name_at - topic_at), (length_at, 2))
        if not all(is_one_row(self._table(at, size)) for at, size in sizes):
            return None
        return _Parts(head_bytes, body_bytes, name_at, name_bytes, length_at + 2, stated)

    def _find_parts(self, head_bytes: int) -> None:
        starts, magic = self.starts, self._heads["magic"]
        ends = starts + self._heads["total_size"]
        self._body_at = starts + head_bytes
        self._body_bytes = self.integers("body_bytes")
        topic_at = self._body_at + self._body_bytes
        bad = (self._body_bytes < 0) | (topic_at + 3 > ends) | ((magic != MAGIC_V1) & (magic != MAGIC_V2))
        self._refuse(bad)
        topic_bytes = self._buffer[topic_at].astype(np.int64)
        is_v2 = magic == MAGIC_V2
        if is_v2.any():
            topic_bytes = np.where(is_v2, topic_bytes << 8 | self._buffer[topic_at + 1], topic_bytes)
        self._topic_at, self._topic_bytes = topic_at + 1 + is_v2, topic_bytes
        length_at = self._topic_at + topic_bytes
        self._properties_at = length_at + 2
        self._refuse(self._properties_at > ends)
        stated = self._buffer[length_at].astype(np.int64) << 8 | self._buffer[length_at + 1]
        self._refuse(self._properties_at + stated != ends)
        self._properties_bytes = stated

    def _refuse(self, bad: NDArray[np.bool_]) -> None:
        """Raise the careful reader's error for the first bad record, if there is one."""
        if bad.any():
            at = int(self.starts[int(np.argmax(bad))])
            parse_record(self.buffer, at)
            raise RecordError(f"the parts of the record at {at} do not add up")


def _distance(starts: Integers) -> int:
    """Return the distance between neighbours in bytes; 0 if distances differ or there are no records."""
    if len(starts) < 2:
        return len(starts)
    distance = int(starts[1] - starts[0])
    return distance if distance > 0 and (np.diff(starts) == distance).all() else 0


def _heads(buffer: Whole, starts: Integers, dtype: np.dtype[Any], distance: int) -> NDArray[Any]:
    """Return the heads at some places: in the buffer if the distances are equal, otherwise a copy."""
    if distance:
        return np.ndarray((len(starts),), dtype, buffer, int(starts[0]), (distance,))
    # A head can begin at any byte: an array of all of them, of which those that are one are taken.
    every = max(len(buffer) - dtype.itemsize + 1, 0)
    # As opaque bytes first: numpy copies a structure field by field.
    return np.ndarray((every,), f"V{dtype.itemsize}", buffer, strides=(1,))[starts].view(dtype)


Group: TypeAlias = tuple[Integers | None, Records]
"""Records with heads of one form, and their places among all records; None stands for all records, in order."""


def by_hosts(buffer: Whole, starts: Integers) -> Iterator[Group]:
    """Yield the records in groups with heads of one form; mostly one group."""
    flags = host_flags(buffer, starts)
    if not len(flags) or (flags == flags[0]).all():
        yield None, Records(buffer, starts, int(flags[0]) if len(flags) else 0)
        return
    for kind in np.unique(flags):
        places = np.flatnonzero(flags == kind)
        yield places, Records(buffer, starts[places], int(kind))


_FLAGS_AT: Final = HEADS[0].offset("sys_flag") + 3
_OFFSET_AT: Final = HEADS[0].offset("queue_offset")


def host_flags(buffer: Whole, starts: Integers) -> Integers:
    """Return the two address bits of each record."""
    found: Integers = (np.frombuffer(buffer, np.uint8)[starts + _FLAGS_AT] & SysFlag.HOSTS_MASK).astype(np.int64)
    return found


def queue_offsets(buffer: Whole, starts: Integers) -> Integers:
    """Return the queue offset of each record, which is at the same place in all heads."""
    if not len(starts):
        return np.empty(0, np.int64)
    every = np.ndarray((len(buffer) - _OFFSET_AT - 7,), ">i8", buffer, _OFFSET_AT, (1,))
    found: Integers = every[starts].astype(np.int64)
    return found


_MOST_SLICED_BYTES: Final = 2**31 - 1
_BYTES: Final = pa.binary()


def slices(buffer: Whole | pa.Buffer, at: Integers, sizes: Integers, kind: pa.DataType = _BYTES) -> pa.Array:
    """Return pieces of a buffer as one Arrow array of bytes or texts; pieces rise and do not overlap.

    Pieces and the gaps between them first become one array without a copy; then Arrow takes every second element.
    """
    count = len(at)
    whole = buffer if isinstance(buffer, pa.Buffer) else pa.py_buffer(buffer)
    assert whole.size <= _MOST_SLICED_BYTES, "a chunk is a few megabytes"
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = at
    bounds[1::2] = at + sizes
    bounds[-1] = whole.size
    pieces_and_gaps = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(bounds), whole])
    return pieces_and_gaps.take(pa.array(np.arange(0, 2 * count, 2)))
