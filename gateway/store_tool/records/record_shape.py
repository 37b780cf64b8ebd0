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
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, overload

from gateway.store.durability.dispatch import HIDDEN
from gateway.store_tool.records.unit_columns import (
    LOG_OFFSET_AT,
    QUEUE_OFFSET_AT,
    WORD_BYTES,
    as_words,
    numbers,
    small_numbers,
)
from wire.checksum import crc32
from wire.message.flags import SysFlag
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName
from wire.message.record_layout import (
    FILLER_HEAD,
    FLAGS_AT,
    HEAD_BY_BYTE,
    HEADS,
    MAGIC_V1,
    MAX_TOPIC_V1_BYTES,
    MIN_RECORD_BYTES,
    MIN_TAIL_BYTES,
)

LEAST_RECORDS = 32
"""A shorter row costs more than it saves."""
MAX_VARIANTS = 64
"""Of topics, of system flags, and of what stands between two values; a row with more of them is not read this way."""
BLOCK_BYTES = 640 * 1024
"""Records are taken as many at a time as stay in a processor's cache while they are looked at again and again."""
MAX_RECORDS = 2048
"""Taken at a time."""
CACHED_CUTS = 64
"""Ways of cutting bodies that are remembered."""
_CRC_AT, _QUEUE_ID_AT, _FLAGS_AT = (
    HEADS[0].offset(name) // WORD_BYTES for name in ("body_crc", "queue_id", "sys_flag")
)
_WORD_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
_PAIR_END = b"\x02"
TAGS, KEYS, UNIQUE = (name.encode() for name in (PropertyName.TAGS, PropertyName.KEYS, PropertyName.UNIQ_KEY))
_NAMES = re.compile(b"\x02(%b|%b|%b)\x01" % (TAGS, KEYS, UNIQUE))


@dataclass(slots=True)
class Columns:
    """One value of each record of a row.

    ``heads`` are all bytes before the bodies, ``words`` the same as words of ``width`` a record; ``leads`` what lies
    from the topic's length up to the first value, ``starts`` each of these once; ``values`` of the properties that the
    records have, by name, all of one length and none of them empty.
    """

    heads: Sequence[bytes]
    words: array[int]
    width: int
    leads: Sequence[bytes]
    starts: Collection[bytes]
    values: Mapping[bytes, Sequence[bytes]]
    times_at: int

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def crcs(self) -> array[int]:
        """Checksums, as the records say them."""
        return small_numbers(self.words, self.width, _CRC_AT)

    @property
    def queue_ids(self) -> array[int]:
        """Without their sign: a negative one is 2^31 or more."""
        return small_numbers(self.words, self.width, _QUEUE_ID_AT)

    @property
    def offsets(self) -> array[int]:
        """Commit log offsets, as the records say them."""
        return numbers(self.words, self.width, LOG_OFFSET_AT)

    @property
    def times(self) -> array[int]:
        """Store times."""
        return numbers(self.words, self.width, self.times_at)

    def is_any_queue_offset_negative(self) -> bool:
        """Whether one of the queue offsets is negative."""
        highest = small_numbers(self.words, self.width, QUEUE_OFFSET_AT)
        return any(word & _SIGN for word in _variants(highest))


class RecordShape:
    """How the records of one row are cut. ``size`` is that of each; at ``most`` so many are to be taken at a time.

    :param flags: the byte of the system flag that says how long the head is.
    :param texts: the parts of the properties: the names of values, b"" for what is none, and their bytes. The first
        is none.
    """

    __slots__ = (
        *("_body_at", "_body_bytes", "_flags", "_row", "_stated", "_texts", "_times_at", "_topic_bytes", "_width"),
        *("most", "size"),
    )

    def __init__(self, size: int, flags: int, body_bytes: int, topic_bytes: int, texts: Sequence[tuple[bytes, int]]):
        head = HEAD_BY_BYTE[flags]
        self.size = size
        self.most = min(max(BLOCK_BYTES // size, LEAST_RECORDS), MAX_RECORDS)
        self._body_at, self._body_bytes = head.size, body_bytes
        self._flags = flags
        self._topic_bytes = topic_bytes
        self._texts = texts
        self._width = head.size // WORD_BYTES
        self._times_at = head.offset("stored_at_ms") // WORD_BYTES
        self._stated = tuple(
            (head.offset(name) // WORD_BYTES, as_words([(value & _WORD_MASK).to_bytes(WORD_BYTES, "big")]))
            for name, value in (("total_size", size), ("magic", MAGIC_V1), ("body_bytes", body_bytes))
        )
        lead = topic_bytes + MIN_TAIL_BYTES + texts[0][1]
        self._row = struct.Struct(
            f"{head.size}s{body_bytes}x{lead}s" + "".join(f"{length}s" for _, length in texts[1:])
        )

    def read(self, view: memoryview, count: int) -> Columns | None:
        """The columns of at most ``count`` records from the begin of ``view`` on, as far as they have this shape.

        None when there are too few, or something unusual is among them.
        """
        heads, leads, *texts = zip(*self._row.iter_unpack(view[: count * self.size]), strict=True)
        words, width = as_words(heads), self._width
        alike = min(_leading(words[at::width], stated) for at, stated in self._stated)
        if alike < count:
            return self.read(view, alike) if alike >= LEAST_RECORDS else None
        starts = _variants(leads)
        if not self._are_plain(small_numbers(words, width, _FLAGS_AT), starts):
            return None
        values = {}
        for (name, _), column in zip(self._texts[1:], texts, strict=True):
            if name:
                values[name] = column
                if _PAIR_END in b"".join(column):
                    return None
        if not self._are_between(starts, texts):
            return None
        return Columns(heads, words, width, leads, starts, values, self._times_at)

    def body_crcs(self, view: memoryview, count: int) -> array[int]:
        """The checksums that the bodies have."""
        bodies = _bodies(self._body_at, self._body_bytes, self.size, self.most)(view[: count * self.size])
        return array("I", list(map(crc32, bodies[:count])))

    def _are_plain(self, flags: array[int], leads: Collection[bytes]) -> bool:
        """Whether heads have the same length and no record hides, and topics and properties fill the rest."""
        kinds = _variants(flags)
        if len(kinds) > MAX_VARIANTS or len(leads) > MAX_VARIANTS:
            return False
        hosts = self._flags & SysFlag.HOSTS_MASK
        stated = sum(length for _, length in self._texts).to_bytes(2, "big")
        stated_at = 1 + self._topic_bytes
        return all(kind & (SysFlag.HOSTS_MASK | HIDDEN) == hosts for kind in kinds) and all(
            name[0] == self._topic_bytes and name[stated_at : stated_at + 2] == stated for name in leads
        )

    def _are_between(self, leads: Collection[bytes], texts: Sequence[Sequence[bytes]]) -> bool:
        """Whether what stands around the values holds no value, and ends with the name of the next."""
        cut = self._topic_bytes + MIN_TAIL_BYTES
        firsts = [_PAIR_END + lead[cut:] for lead in leads]
        if not all(self._is_between(text, 0) for text in firsts):
            return False
        for number, ((name, _), column) in enumerate(zip(self._texts[1:], texts, strict=True), 1):
            if name:
                continue
            variants = _variants(column)
            if len(variants) > MAX_VARIANTS:
                return False
            for text in variants:
                if (text and not text.startswith(_PAIR_END)) or not self._is_between(text, number):
                    return False
        return True

    def _is_between(self, text: bytes, number: int) -> bool:
        """Whether a text holds only the name of the value after the part ``number``, at its end."""
        following = [self._texts[number + 1][0]] if number + 1 < len(self._texts) else []
        return _NAMES.findall(text) == following and (not following or text.endswith(_name(following[0])))


@lru_cache(CACHED_CUTS)
def _bodies(at: int, body_bytes: int, size: int, count: int) -> Callable[[memoryview], tuple[memoryview, ...]]:
    """Cuts the bodies out of as many records; empty ones for those that are not there."""
    return itemgetter(*(slice(begin, begin + body_bytes) for begin in range(at, at + count * size, size)))


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


def _leading(column: array[int], stated: array[int]) -> int:
    """How many words from the first on are the one stated."""
    if column == stated * len(column):
        return len(column)
    return next(number for number, value in enumerate(column) if value != stated[0])


@overload
def _variants(column: array[int]) -> Collection[int]: ...
@overload
def _variants(column: Sequence[bytes]) -> Collection[bytes]: ...
def _variants(column: Sequence[Any]) -> Collection[Any]:
    """The different values of a column."""
    if isinstance(column, array):
        return column[:1] if column == column[:1] * len(column) else set(column)
    return column[:1] if column.count(column[0]) == len(column) else set(column)
