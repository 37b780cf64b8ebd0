"""Rows of records that are cut alike, as a producer's messages with bodies of one size are: read by one format.

A ``RecordShape`` is made of the first record of a row: where its fields lie, and of its properties the values that
queues and index ask for. One ``struct`` then takes all records of the row apart, field by field in C, and gives each
field as a column. What differs in shape ends the row. Whether the values are right is asked elsewhere
(``record_rows``); here only that the cuts are where a reader of single records would make them.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gateway.store.dispatch import HIDDEN
from wire.message.flags import SysFlag
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName
from wire.message.record_layout import (
    FILLER_HEAD,
    FLAGS_AT,
    HEAD_BY_BYTE,
    MAGIC_V1,
    MAX_TOPIC_V1_BYTES,
    MIN_RECORD_BYTES,
    MIN_TAIL_BYTES,
)

LEAST_RECORDS = 32
"""A shorter row costs more than it saves."""
MAX_VARIANTS = 64
"""Of topics, of system flags, and of what stands between two values; a row with more of them is not read this way."""
_PAIR_END = b"\x02"
TAGS, KEYS, UNIQUE = (name.encode() for name in (PropertyName.TAGS, PropertyName.KEYS, PropertyName.UNIQ_KEY))
_NAMES = re.compile(b"\x02(%b|%b|%b)\x01" % (TAGS, KEYS, UNIQUE))


@dataclass(slots=True)
class Columns:
    """One value of each record of a row.

    ``places`` are queue offset and commit log offset, 16 bytes; ``fields`` the topic with its length before it;
    ``values`` of the properties that the records have, by name, none of them empty.
    """

    crcs: Sequence[int]
    queue_ids: Sequence[bytes]
    places: Sequence[bytes]
    times: Sequence[int]
    fields: Sequence[bytes]
    values: Mapping[bytes, Sequence[bytes]]


class RecordShape:
    """How the records of one row are cut. ``size`` is that of each, its body has ``body_bytes`` at ``body_at``.

    :param flags: the byte of the system flag that says how long the head is.
    :param texts: the parts of the properties: the names of values, b"" for what is none, and their bytes.
    """

    __slots__ = ("_row", "_sizes", "_texts", "_topic_bytes", "body_at", "body_bytes", "size")

    def __init__(self, size: int, flags: int, body_bytes: int, topic_bytes: int, texts: Sequence[tuple[bytes, int]]):
        head = HEAD_BY_BYTE[flags]
        self.size = size
        self.body_at = head.size
        self.body_bytes = body_bytes
        self._topic_bytes = topic_bytes
        self._texts = texts
        self._sizes = FILLER_HEAD.pack(size, MAGIC_V1)
        form, at = ">", 0
        for name, code in (
            ("total_size", "8s"),  # and the magic number
            ("body_crc", "I"),
            ("queue_id", "4s"),
            ("queue_offset", "16s"),  # and commit_log_offset
            ("sys_flag", "4s"),
            ("stored_at_ms", "q"),
            ("body_bytes", "4s"),
        ):
            form += f"{head.offset(name) - at}x{code}"
            at = struct.calcsize(form)
        form += f"{body_bytes}x{topic_bytes + MIN_TAIL_BYTES}s"
        self._row = struct.Struct(form + "".join(f"{length}s" for _, length in texts))

    def read(self, view: memoryview, position: int, count: int) -> Columns | None:
        """The columns of at most ``count`` records from ``position`` on, as far as they have this shape.

        None when there are too few, or something unusual is among them.
        """
        rows = self._row.iter_unpack(view[position : position + count * self.size])
        sizes, crcs, queue_ids, places, flags, times, bodies, fields, *texts = zip(*rows, strict=True)
        alike = min(_leading(sizes), _leading(bodies))
        if alike < count:
            if alike < LEAST_RECORDS:
                return None
            return self.read(view, position, alike)
        if not self._are_plain(flags, fields):
            return None
        values = {}
        for (name, _), column in zip(self._texts, texts, strict=True):
            if name:
                values[name] = column
                if _PAIR_END in b"".join(column):
                    return None
        if not self._are_between(texts):
            return None
        return Columns(crcs, queue_ids, places, times, fields, values)

    def _are_plain(self, flags: Sequence[bytes], fields: Sequence[bytes]) -> bool:
        """Whether heads have the same length and no record hides, and topics and properties fill the rest."""
        kinds, names = _variants(flags), _variants(fields)
        if len(kinds) > MAX_VARIANTS or len(names) > MAX_VARIANTS:
            return False
        hosts = flags[0][-1] & SysFlag.HOSTS_MASK
        properties_bytes = sum(length for _, length in self._texts).to_bytes(2, "big")
        return all(kind[-1] & (SysFlag.HOSTS_MASK | HIDDEN) == hosts for kind in kinds) and all(
            name[0] == self._topic_bytes and name[-2:] == properties_bytes for name in names
        )

    def _are_between(self, texts: Sequence[Sequence[bytes]]) -> bool:
        """Whether what stands around the values holds no value, and ends with the name of the next."""
        before = _PAIR_END
        for number, ((name, _), column) in enumerate(zip(self._texts, texts, strict=True)):
            if name:
                before = b""
                continue
            following = [self._texts[number + 1][0]] if number + 1 < len(self._texts) else []
            variants = _variants(column)
            if len(variants) > MAX_VARIANTS:
                return False
            for text in variants:
                whole = before + text
                if _NAMES.findall(whole) != following or (following and not whole.endswith(_name(following[0]))):
                    return False
                if not before and text and not text.startswith(_PAIR_END):
                    return False
        return True


def shape_at(data: mmap.mmap, position: int, end: int) -> RecordShape | None:
    """The shape of the record at a place, when enough others of its size seem to follow before ``end``."""
    sizes = data[position : position + FILLER_HEAD.size]
    size, magic = FILLER_HEAD.unpack_from(sizes) if len(sizes) == FILLER_HEAD.size else (0, 0)
    last = position + (LEAST_RECORDS - 1) * size
    if magic != MAGIC_V1 or size < MIN_RECORD_BYTES or last + size > end or data[last : last + len(sizes)] != sizes:
        return None
    flags = data[position + FLAGS_AT]
    head = HEAD_BY_BYTE[flags]
    (body_bytes,) = head.packer("body_bytes").unpack_from(data, position + head.offset("body_bytes"))
    topic_at = position + head.size + body_bytes
    if body_bytes < 0 or topic_at + MIN_TAIL_BYTES > position + size:
        return None
    topic_bytes = data[topic_at]
    properties = data[topic_at + topic_bytes + MIN_TAIL_BYTES : position + size]
    stated = int.from_bytes(data[topic_at + topic_bytes + 1 : topic_at + topic_bytes + MIN_TAIL_BYTES], "big")
    if topic_bytes > MAX_TOPIC_V1_BYTES or stated != len(properties) or stated > MAX_PROPERTIES_BYTES:
        return None
    texts = _texts(properties)
    return None if texts is None else RecordShape(size, flags, body_bytes, topic_bytes, texts)


def _texts(properties: bytes) -> list[tuple[bytes, int]] | None:
    """The parts of properties: what is no value (b"") and the values of TAGS, KEYS and UNIQ_KEY, in turn.

    None when one of them is empty or there twice.
    """
    texts: list[tuple[bytes, int]] = []
    end = 0
    for found in _NAMES.finditer(_PAIR_END + properties):
        start = found.end() - len(_PAIR_END)
        stop = properties.find(_PAIR_END, start)
        stop = len(properties) if stop < 0 else stop
        name = found[1]
        if stop == start or any(name == known for known, _ in texts):
            return None
        texts += [(b"", start - end), (name, stop - start)]
        end = stop
    return [*texts, (b"", len(properties) - end)]


def _name(name: bytes) -> bytes:
    return _PAIR_END + name + b"\x01"


def _leading(column: Sequence[bytes]) -> int:
    """How many values from the first on are like it."""
    first = column[0]
    if column.count(first) == len(column):
        return len(column)
    return next(number for number, value in enumerate(column) if value != first)


def _variants(column: Sequence[bytes]) -> Collection[bytes]:
    """The different values of a column."""
    return column[:1] if column.count(column[0]) == len(column) else set(column)
