"""Reads the records of a stretch of the commit log in bulk: checks them, makes their units and the keys of the index.

Python's loops are slow, its loops in C are not: each column of some thousand records is checked and worked on as a
whole (checksums, places, topics, properties, hashes). Records of one shape are taken apart together (``record_shape``),
others have their heads read first. A batch with anything unusual in it, a damaged record above all, is gone through
record by record instead. ``gateway.store.log_scan`` is the readable form.
"""

from __future__ import annotations

import mmap
import re
import struct
import sys
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, repeat
from operator import add, itemgetter
from typing import Any, TypeAlias

from gateway.store.dispatch import HIDDEN, SCHEDULE_TOPIC
from gateway.store.index_entries import tag_key
from gateway.store_tool.index_check import StretchKeys
from gateway.store_tool.record_shape import KEYS, LEAST_RECORDS, TAGS, UNIQUE, Columns, RecordShape, shape_at
from gateway.store_tool.unit_columns import build_units, first_of_row, log_offsets_are
from wire.disk.consume_queue import UNIT
from wire.errors import RecordError
from wire.message.flags import SysFlag
from wire.message.java_hash import index_key_hash, index_key_hashes, java_string_hash
from wire.message.properties import PropertyName, parse_properties
from wire.message.record import parse_record
from wire.message.record_layout import FLAGS_AT, HEAD_BY_BYTE, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES

Head: TypeAlias = tuple[int, ...]
Unpack: TypeAlias = Callable[[mmap.mmap, int], Head]

RUN_RECORDS = 2048
"""Records of one shape that are taken at a time."""
BATCH_RECORDS = 4096
SINGLE_BYTES = 65_536
"""After a batch with something unusual in it, so much is gone through record by record."""
MAX_CACHED_TAGS = 65_536
"""Tags whose code, or hash in the index, one stretch remembers."""
_BODY_MASK = 0x7FFFFFFF
_BODY_MASKS = int.from_bytes(array("I", [_BODY_MASK] * RUN_RECORDS).tobytes(), sys.byteorder)
_SIGN = 0x80
_LENGTH_BYTES = 2
_CODE = struct.Struct(">q")
_NAMES = (
    "total_size",
    "magic",
    "body_crc",
    "queue_id",
    "queue_offset",
    "commit_log_offset",
    "sys_flag",
    "stored_at_ms",
    "body_bytes",
)

_FEW = {id(head): (head.picker(_NAMES).unpack_from, head.size) for head in HEAD_BY_BYTE}
_BY_BYTE = tuple(_FEW[id(head)] for head in HEAD_BY_BYTE)
_PAIR_END = b"\x02"
_TAGS, _KEYS, _UNIQUE = (
    f"{name}\x01".encode() for name in (PropertyName.TAGS, PropertyName.KEYS, PropertyName.UNIQ_KEY)
)
# All values of a property in many rows at once; a name begins behind the end of a pair.
_PATTERNS = {name: re.compile(_PAIR_END + name + b"([^\x02]*)") for name in (_TAGS, _KEYS, _UNIQUE)}
_first_byte = itemgetter(0)


@dataclass(slots=True)
class QueueRun:
    """Neighbours in one queue: the units of the messages from ``first`` on, as they should be."""

    topic: str
    queue_id: int
    first: int
    units: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> int:
        """The queue offset after the last."""
        return self.first + len(self.units) // UNIT.size


class _Queue:
    """What is kept for a queue while its records go by; a plain class, touched for every batch."""

    __slots__ = ("next_offset", "queue_id", "run", "topic")

    def __init__(self, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next_offset = -1
        self.run = QueueRun(topic, queue_id, 0)


class RecordRows:
    """Takes records from the file that starts at ``start`` of the log and has ``size`` bytes.

    ``records``, ``hidden`` and ``long_topics`` are counts, ``runs`` the units in the order of their first messages,
    ``end`` the position after the last record taken; store times are 0 as long as there is none.
    """

    def __init__(self, data: mmap.mmap, start: int, size: int) -> None:
        self._data = data
        self._start = start
        self._size = size
        self._queues: dict[tuple[int, bytes], _Queue] = {}
        self._topics: dict[bytes, str] = {}
        self._codes: dict[bytes, int] = {b"": 0}
        self._tag_hashes: dict[tuple[str, bytes], int] = {}
        self.runs: list[QueueRun] = []
        self._keys = StretchKeys()
        self._key_topics: list[str] = []
        self._key_texts: list[str] = []
        self.records = self.hidden = self.long_topics = 0
        self.first_stored_ms = self.last_stored_ms = self.end = 0

    def take(self, position: int, limit: int) -> int:
        """Take intact records; where the first one starts that is not, or that lies at or after ``limit``."""
        while position < limit:
            before = position
            position = self._take_run(position, limit)
            if position == before:
                position = self._take_batch(position, limit)
            if position == before:
                position = self._take_singly(position, min(limit, position + SINGLE_BYTES))
            if position == before:
                break
        return position

    def keys(self) -> StretchKeys:
        """What the index has to have."""
        self._hash_waiting()
        return self._keys

    # --- many of one shape ---------------------------------------------------------------------------------------

    def _take_run(self, position: int, limit: int) -> int:
        """Take records of the shape that the first one has; ``position`` when they are few, or one is unusual."""
        shape = shape_at(self._data, position, self._size)
        if shape is None:
            return position
        most = min(-(-(limit - position) // shape.size), (self._size - position) // shape.size, RUN_RECORDS)
        if most < LEAST_RECORDS:
            return position
        with memoryview(self._data) as view:
            columns = shape.read(view, position, most)
            if columns is None or not self._hold(view, position, shape, columns):
                return position
        count = len(columns.crcs)
        end = position + count * shape.size
        ids = {queue_id: int.from_bytes(queue_id, "big", signed=True) for queue_id in set(columns.queue_ids)}
        names = {field: field[:-_LENGTH_BYTES] for field in set(columns.fields)}
        by_queue = self._by_queue(columns, len(names))
        queues = [(ids[queue[:4]], names[queue[4:] or columns.fields[0]]) for queue in by_queue]
        if min(ids.values()) < 0 or max(columns.places)[0] & _SIGN or not self._know(queues):
            return position
        code = self._one_code(columns)
        for queue, rows in zip(queues, by_queue.values(), strict=True):
            self._add_rows(self._queues[queue], rows, shape.size, code)
        self._add_values(columns, range(self._start + position, self._start + end, shape.size))
        self._count(count, columns.times[0], columns.times[-1], end)
        return end

    def _hold(self, view: memoryview, position: int, shape: RecordShape, columns: Columns) -> bool:
        """Whether checksums are right, and the records say that they lie where they do."""
        size, end = shape.size, position + len(columns.crcs) * shape.size
        if not log_offsets_are(columns.places, range(self._start + position, self._start + end, size)):
            return False
        body_at, body_bytes, crc32 = shape.body_at, shape.body_bytes, zlib.crc32
        found = [crc32(view[at : at + body_bytes]) for at in range(position + body_at, end + body_at, size)]
        # As one number each; the highest bit of a checksum is not kept.
        whole, kept = (int.from_bytes(array("I", crcs).tobytes(), sys.byteorder) for crcs in (found, columns.crcs))
        return whole & _BODY_MASKS == kept

    def _by_queue(self, columns: Columns, topics: int) -> dict[bytes, list[bytes]]:
        """Places, with codes when there are several, of each queue: queue id, and the topic's field if these differ."""
        queues = columns.queue_ids if topics == 1 else list(map(add, columns.queue_ids, columns.fields))
        found: dict[bytes, list[bytes]] = {queue: [] for queue in dict.fromkeys(queues)}
        deque(map(list.append, map(found.__getitem__, queues), self._coded(columns)), maxlen=0)
        return found

    def _one_code(self, columns: Columns) -> bytes | None:
        """The tags code of all records, packed; None when they have several."""
        tags = columns.values.get(TAGS, (b"",))
        return _CODE.pack(self._code(tags[0])) if tags.count(tags[0]) == len(tags) else None

    def _coded(self, columns: Columns) -> Iterable[bytes]:
        """Places, followed by tags codes when there are several."""
        if self._one_code(columns) is not None:
            return columns.places
        tags = columns.values[TAGS]
        codes = {tag: _CODE.pack(self._code(tag)) for tag in set(tags)}
        return map(add, columns.places, map(codes.__getitem__, tags))

    def _add_rows(self, queue: _Queue, rows: Sequence[bytes], size: int, code: bytes | None) -> None:
        """Add the units of one queue: of places, which end with their codes when ``code`` is None."""
        first = first_of_row(rows)
        if first is not None:
            self._append(queue, first, build_units(rows, size, code), len(rows))
            return
        for row in rows:
            queue_offset = int.from_bytes(row[:8], "big")
            self._append(queue, queue_offset, build_units((row,), size, code), 1)

    def _add_values(self, columns: Columns, offsets: Sequence[int]) -> None:
        """Add what the index has to have."""
        known = {field: self._topics[field[:-_LENGTH_BYTES]] for field in set(columns.fields)}
        topics = list(map(known.__getitem__, columns.fields))
        for name in (UNIQUE, KEYS):
            if name in columns.values:
                self._add_texts((topics, offsets, columns.times), columns.values[name], several=name is KEYS)
        if TAGS in columns.values:
            self._add_tags(topics, offsets, columns.times, columns.values[TAGS])

    # --- many at a time ------------------------------------------------------------------------------------------

    def _take_batch(self, position: int, limit: int) -> int:
        """Take plain records; ``position`` when there is anything unusual among them."""
        flags = self._data[position + FLAGS_AT] if position + FLAGS_AT < self._size else 0
        unpack, head_bytes = _BY_BYTE[flags]
        heads, end = self._heads(position, limit, unpack)
        if not heads or end > self._size:
            return position
        sizes, _, crcs, queue_ids, queue_offsets, offsets, sys_flags, times, body_bytes = zip(*heads, strict=True)
        hosts = flags & SysFlag.HOSTS_MASK
        if any(flag & (SysFlag.HOSTS_MASK | HIDDEN) != hosts for flag in set(sys_flags)):
            return position
        starts = list(accumulate(sizes, initial=position))
        if offsets != tuple(map(add, starts[:-1], repeat(self._start))):
            return position
        body_at = list(map(add, starts[:-1], repeat(head_bytes)))
        topic_at = list(map(add, body_at, body_bytes))
        if not self._bodies_hold(body_at, topic_at, crcs):
            return position
        data = self._data
        tails = [data[begin:end] for begin, end in zip(topic_at, starts[1:], strict=True)]
        names, properties = _split_tails(tails)
        if not names or min(queue_offsets) < 0 or min(queue_ids) < 0 or min(body_bytes) < 0:
            return position
        queues = list(zip(queue_ids, names, strict=True))
        if not self._know(set(queues)):
            return position
        tags = _column(properties, _TAGS)
        codes = list(map(self._codes.get, tags))
        if None in codes:
            codes = list(map(self._code, tags))
        self._add_units(queues, queue_offsets, list(map(UNIT.pack, offsets, sizes, codes)))
        topics = list(map(self._topics.__getitem__, names))
        self._add_keys(topics, offsets, times, properties)
        self._add_tags(topics, offsets, times, tags)
        self._count(len(heads), times[0], times[-1], end)
        return end

    def _heads(
        self, position: int, limit: int, unpack: Callable[[mmap.mmap, int], tuple[int, ...]]
    ) -> tuple[list[tuple[int, ...]], int]:
        data = self._data
        heads: list[Head] = []
        keep = heads.append
        try:
            for _ in repeat(None, BATCH_RECORDS):
                head = unpack(data, position)
                if head[1] != MAGIC_V1 or head[0] < MIN_RECORD_BYTES:
                    break
                keep(head)
                position += head[0]
                if position >= limit:
                    break
        except struct.error:
            pass  # the end of the file, or a wrong size
        return heads, position

    def _bodies_hold(self, body_at: Sequence[int], topic_at: Sequence[int], crcs: Sequence[int]) -> bool:
        crc32 = zlib.crc32
        with memoryview(self._data) as view:
            found = [crc32(view[begin:end]) & _BODY_MASK for begin, end in zip(body_at, topic_at, strict=True)]
        return found == list(crcs)

    def _know(self, queues: Iterable[tuple[int, bytes]]) -> bool:
        """Whether all queues are known, or were made now, and none is special."""
        for queue_id, name in queues:
            if (queue_id, name) not in self._queues:
                topic = self._topics.get(name)
                if topic is None:
                    try:
                        topic = self._topics[name] = str(name[1:], "utf-8")
                    except UnicodeDecodeError:
                        return False
                self._queues[queue_id, name] = _Queue(topic, queue_id)
            if self._topics[name] == SCHEDULE_TOPIC:
                return False
        return True

    def _code(self, tag: bytes) -> int:
        code = self._codes.get(tag)
        if code is None:
            code = java_string_hash(str(tag, "utf-8", "replace"))
            if len(self._codes) < MAX_CACHED_TAGS:
                self._codes[tag] = code
        return code

    def _add_units(
        self, queues: Sequence[tuple[int, bytes]], queue_offsets: Sequence[int], units: Sequence[bytes]
    ) -> None:
        by_queue: dict[tuple[int, bytes], tuple[list[int], list[bytes]]] = {name: ([], []) for name in set(queues)}
        for name, queue_offset, unit in zip(queues, queue_offsets, units, strict=True):
            rows = by_queue[name]
            rows[0].append(queue_offset)
            rows[1].append(unit)
        for name in dict.fromkeys(queues):
            found, packed = by_queue[name]
            queue = self._queues[name]
            if found == list(range(found[0], found[0] + len(found))):
                self._append(queue, found[0], b"".join(packed), len(packed))
            else:
                for queue_offset, unit in zip(found, packed, strict=True):
                    self._append(queue, queue_offset, unit, 1)

    def _append(self, queue: _Queue, queue_offset: int, units: bytes, count: int) -> None:
        if queue.next_offset != queue_offset:
            queue.run = QueueRun(queue.topic, queue.queue_id, queue_offset)
            self.runs.append(queue.run)
        queue.run.units += units
        queue.next_offset = queue_offset + count

    def _add_keys(
        self, topics: Sequence[str], offsets: Sequence[int], times: Sequence[int], properties: Sequence[bytes]
    ) -> None:
        for name in (_UNIQUE, _KEYS):
            texts = _column(properties, name)
            rows: Sequence[Sequence[Any]] = (topics, offsets, times, texts)
            if b"" in texts:
                rows = [list(compress(column, texts)) for column in rows]
            if rows[3]:
                self._add_texts(rows[:3], rows[3], several=name is _KEYS)

    def _add_texts(self, rows: Sequence[Sequence[Any]], texts: Sequence[bytes], *, several: bool) -> None:
        """Add keys.

        :param rows: topics, offsets and times; ``texts`` their keys.
        :param several: a text may be several keys.
        """
        # No value holds the byte that ends it.
        words = str(_PAIR_END.join(texts), "utf-8", "replace").split("\x02")
        if several and " " in "".join(words):
            for topic, offset, time, text in zip(*rows, words, strict=True):
                for word in filter(None, text.split(" ")):
                    self._add_key(topic, offset, time, word)
        else:
            self._hash_waiting()
            self._keys.hashes += index_key_hashes(rows[0], words)
            self._keys.offsets += rows[1]
            self._keys.times += rows[2]

    def _hash_waiting(self) -> None:
        """Hash what was added key by key, so that hashes stay in the order of offsets."""
        if self._key_texts:
            self._keys.hashes += index_key_hashes(self._key_topics, self._key_texts)
            self._key_topics, self._key_texts = [], []

    def _add_key(self, topic: str, offset: int, time: int, key: str) -> None:
        self._key_topics.append(topic)
        self._key_texts.append(key)
        self._keys.offsets.append(offset)
        self._keys.times.append(time)

    def _add_tags(
        self, topics: Sequence[str], offsets: Sequence[int], times: Sequence[int], tags: Sequence[bytes]
    ) -> None:
        if b"" in tags:
            topics, offsets = list(compress(topics, tags)), list(compress(offsets, tags))
            times, tags = list(compress(times, tags)), list(filter(None, tags))
            if not tags:
                return
        known = self._tag_hashes
        self._keys.tag_offsets += offsets
        self._keys.tag_times += times
        if topics.count(topics[0]) == tags.count(tags[0]) == len(tags):
            hashed = index_key_hash(topics[0], tag_key(str(tags[0], "utf-8", "replace")))
            self._keys.tag_hashes += [hashed] * len(tags)
            return
        names = list(zip(topics, tags, strict=True))
        for name in set(names) - known.keys():
            if len(known) >= MAX_CACHED_TAGS:
                known.clear()
            known[name] = index_key_hash(name[0], tag_key(str(name[1], "utf-8", "replace")))
        if len(known) >= MAX_CACHED_TAGS:
            hashes = [index_key_hash(topic, tag_key(str(tag, "utf-8", "replace"))) for topic, tag in names]
        else:
            hashes = list(map(known.__getitem__, names))
        self._keys.tag_hashes += hashes

    def _count(self, records: int, first_ms: int, last_ms: int, end: int) -> None:
        self.records += records
        self.first_stored_ms = self.first_stored_ms or first_ms
        self.last_stored_ms = last_ms
        self.end = end

    # --- one at a time -------------------------------------------------------------------------------------------

    def _take_singly(self, position: int, limit: int) -> int:
        """Take records of any kind; where the first one starts that is damaged, or that lies behind ``limit``."""
        with memoryview(self._data) as view:
            while position < limit:
                end = self._take_one(view, position)
                if end == position:
                    break
                position = end
        return position

    def _take_one(self, view: memoryview, position: int) -> int:
        try:
            message = parse_record(view, position, check_crc=True, with_body=False)
        except RecordError:
            return position
        if (
            message.commit_log_offset != self._start + position
            or message.queue_offset < 0
            or message.queue_id < 0
            or message.total_size < MIN_RECORD_BYTES
        ):
            return position
        topic, offset, time = message.topic, message.commit_log_offset, message.stored_at_ms
        properties = message.property_map
        tag = properties.get(PropertyName.TAGS, "")
        if message.magic == MAGIC_V2:
            self.long_topics += 1
        if message.sys_flag & HIDDEN:
            self.hidden += 1
        else:
            raw = topic.encode()
            name = (message.queue_id, (bytes((len(raw),)) if message.magic == MAGIC_V1 else b"\x00") + raw)
            queue = self._queues.get(name)
            if queue is None:
                queue = self._queues[name] = _Queue(topic, message.queue_id)
                self._topics.setdefault(name[1], topic)
            code = time if topic == SCHEDULE_TOPIC else java_string_hash(tag)
            self._append(queue, message.queue_offset, UNIT.pack(offset, message.total_size, code), 1)
        if message.sys_flag & SysFlag.TRANSACTION_MASK != SysFlag.TRANSACTION_ROLLBACK:
            if unique := properties.get(PropertyName.UNIQ_KEY):
                self._add_key(topic, offset, time, unique)
            for word in filter(None, properties.get(PropertyName.KEYS, "").split(" ")):
                self._add_key(topic, offset, time, word)
            if tag:
                self._add_tags((topic,), (offset,), (time,), (tag.encode(),))
        self._count(1, time, time, position + message.total_size)
        return position + message.total_size


# --- columns ---------------------------------------------------------------------------------------------------------


def _split_tails(tails: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Topic with its length, and properties behind 0x02, of records' ends; nothing when one does not add up."""
    try:
        topic_bytes = list(map(_first_byte, tails))
        stated = [tail[size + 1] << 8 | tail[size + 2] for tail, size in zip(tails, topic_bytes, strict=True)]
    except IndexError:
        return [], []
    if stated != [len(tail) - size - 3 for tail, size in zip(tails, topic_bytes, strict=True)]:
        return [], []
    if max(topic_bytes) > 127 or max(stated) > 32767:
        return [], []
    names = [tail[: size + 1] for tail, size in zip(tails, topic_bytes, strict=True)]
    return names, [_PAIR_END + tail[size + 3 :] for tail, size in zip(tails, topic_bytes, strict=True)]


def _column(properties: Sequence[bytes], name: bytes) -> list[bytes]:
    """The value of one property in each row; b"" where there is none.

    :param properties: with 0x02 before the first name.
    """
    counts = list(map(bytes.count, properties, repeat(_PAIR_END + name)))
    most = max(counts)
    if most == 0:
        return [b""] * len(properties)
    texts: list[bytes] = _PATTERNS[name].findall(b"".join(properties)) if most == 1 else []
    if len(texts) == len(properties) and b"" not in texts:
        return texts
    if most == 1 and b"" not in texts:
        each = iter(texts)
        return [next(each) if there else b"" for there in counts]
    return [_value(row, name) if there else b"" for row, there in zip(properties, counts, strict=True)]


def _value(row: bytes, name: bytes) -> bytes:
    """The value of a property that not every row has."""
    start = row.find(_PAIR_END + name) + 1 + len(name)
    end = row.find(_PAIR_END, start)
    value = row[start:end] if end >= 0 else row[start:]
    if not value or row.find(_PAIR_END + name, start) >= 0:  # the last pair of a name counts, and only with a value
        return parse_properties(row[1:]).get(name[:-1].decode(), "").encode()
    return value
