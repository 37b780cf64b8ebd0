"""Reads the records of a stretch of the commit log in bulk: checks them, makes their units and the keys of the index.

Python's loops are slow, its loops in C are not: each column of some hundred records is checked and worked on as a
whole (checksums, places, topics, properties, hashes). Records of one shape are taken apart together (``record_shape``),
others have their heads read first. A batch with anything unusual in it, a damaged record above all, is gone through
record by record instead. ``gateway.store.log.log_scan`` is the readable form.
"""

from __future__ import annotations

import mmap
import struct
import sys
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, compress, repeat
from operator import add
from typing import Any, TypeAlias

from gateway.store.durability.dispatch import HIDDEN, SCHEDULE_TOPIC
from gateway.store_tool.records import property_columns
from gateway.store_tool.records.property_columns import column, split_tails
from gateway.store_tool.records.queue_runs import QueueName, QueueRows, QueueRun, QueueRuns
from gateway.store_tool.records.record_shape import (
    KEYS,
    LEAST_RECORDS,
    MAX_RECORDS,
    TAGS,
    UNIQUE,
    Columns,
    RecordShape,
    shape_at,
)
from gateway.store_tool.records.stretch_keys import StretchKeys
from wire.checksum import crc32
from wire.disk.consume_queue import UNIT
from wire.errors import RecordError
from wire.message.flags import SysFlag
from wire.message.java_hash import java_string_hash
from wire.message.properties import PropertyName
from wire.message.record import parse_record
from wire.message.record_layout import FLAGS_AT, HEAD_BY_BYTE, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES

Head: TypeAlias = tuple[int, ...]

BATCH_RECORDS = 4096
SINGLE_BYTES = 65_536
"""After a batch with something unusual in it, so much is gone through record by record."""
_BODY_MASK = 0x7FFFFFFF
_BODY_MASKS = int.from_bytes(array("I", [_BODY_MASK] * MAX_RECORDS).tobytes(), sys.byteorder)
_SIGN = 0x80000000
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


class RecordRows:
    """Takes records from the file that starts at ``start`` of the log and has ``size`` bytes.

    ``records``, ``hidden`` and ``long_topics`` are counts, ``runs`` the units in the order of their first messages,
    ``end`` the position after the last record taken; store times are 0 as long as there is none.
    """

    def __init__(self, data: mmap.mmap, start: int, size: int) -> None:
        self._data = data
        self._start = start
        self._size = size
        self._queues = QueueRuns()
        self._keys = StretchKeys()
        self.records = self.hidden = self.long_topics = 0
        self.first_stored_ms = self.last_stored_ms = self.end = 0

    @property
    def runs(self) -> list[QueueRun]:
        """What consume queues have to have."""
        return self._queues.runs

    def keys(self) -> StretchKeys:
        """What the index has to have."""
        return self._keys.finish()

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

    # --- many of one shape ---------------------------------------------------------------------------------------

    def _take_run(self, position: int, limit: int) -> int:
        """Take records of the shape that the first one has; ``position`` when they are few, or one is unusual."""
        shape = shape_at(self._data, position, self._size)
        if shape is None:
            return position
        rows = QueueRows(self._queues, shape.size)
        with memoryview(self._data) as view:
            while position < limit:
                most = min(-(-(limit - position) // shape.size), (self._size - position) // shape.size, shape.most)
                if most < LEAST_RECORDS:
                    break
                with view[position : position + most * shape.size] as block:
                    count = self._take_block(block, position, shape, most, rows)
                position += count * shape.size
                if count < most:
                    break
        rows.flush()
        return position

    def _take_block(self, block: memoryview, position: int, shape: RecordShape, most: int, rows: QueueRows) -> int:
        """Take at most as many records as stay in the cache meanwhile; how many."""
        columns = shape.read(block, most)
        if columns is None:
            return 0
        count = len(columns)
        end = position + count * shape.size
        offsets = array("q", range(self._start + position, self._start + end, shape.size))
        if columns.offsets != offsets or not _hold(columns.crcs, shape.body_crcs(block, count)):
            return 0
        names = {lead: lead[: 1 + lead[0]] for lead in columns.starts}
        code = self._one_code(columns)
        by_queue = self._by_queue(columns, names, self._coded(columns, code))
        if (
            max(name[0] for name in by_queue) >= _SIGN
            or columns.is_any_queue_offset_negative()
            or not self._queues.know(by_queue)
        ):
            return 0
        rows.add(by_queue, code)
        times = columns.times
        self._add_values(columns, names, offsets, times, is_one_tag=code is not None)
        self._count(count, times[0], times[-1], end)
        return count

    def _by_queue(
        self, columns: Columns, names: dict[bytes, bytes], rows: Sequence[bytes]
    ) -> dict[QueueName, Sequence[bytes]]:
        """Heads, with codes when there are several, of each queue."""
        ids = columns.queue_ids
        topics = list(dict.fromkeys(names.values()))
        if len(topics) == 1:
            if ids == ids[:1] * len(ids):
                return {(ids[0], topics[0]): rows}
            queues: Sequence[int] = ids
        else:
            numbers = {lead: topics.index(name) << 32 for lead, name in names.items()}
            queues = list(map(add, ids, map(numbers.__getitem__, columns.leads)))
        found: dict[int, list[bytes]] = {queue: [] for queue in dict.fromkeys(queues)}
        deque(map(list.append, map(found.__getitem__, queues), rows), maxlen=0)
        return {(queue & 0xFFFFFFFF, topics[queue >> 32]): heads for queue, heads in found.items()}

    def _one_code(self, columns: Columns) -> bytes | None:
        """The tags code of all records, packed; None when they have several."""
        tags = columns.values.get(TAGS, (b"",))
        return _CODE.pack(self._queues.code(tags[0])) if tags.count(tags[0]) == len(tags) else None

    def _coded(self, columns: Columns, code: bytes | None) -> Sequence[bytes]:
        """Heads, followed by tags codes when there are several."""
        if code is not None:
            return columns.heads
        tags = columns.values[TAGS]
        codes = {tag: _CODE.pack(self._queues.code(tag)) for tag in set(tags)}
        return list(map(add, columns.heads, map(codes.__getitem__, tags)))

    def _add_values(
        self,
        columns: Columns,
        names: dict[bytes, bytes],
        offsets: array[int],
        times: array[int],
        *,
        is_one_tag: bool,
    ) -> None:
        """Add what the index has to have."""
        known = {lead: self._queues.topics[name] for lead, name in names.items()}
        topics = list(known.values()) if len(known) == 1 else list(map(known.__getitem__, columns.leads))
        for name in (UNIQUE, KEYS):
            if name in columns.values:
                self._keys.add_alike(topics, offsets, times, columns.values[name], several=name is KEYS)
        if TAGS in columns.values and is_one_tag and len(topics) == 1:
            self._keys.add_tag(topics[0], offsets, times, columns.values[TAGS][0])
        elif TAGS in columns.values:
            self._keys.add_tags(topics, offsets, times, columns.values[TAGS])

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
        names, properties = split_tails(tails)
        if not names or min(queue_offsets) < 0 or min(queue_ids) < 0 or min(body_bytes) < 0:
            return position
        queues = list(zip(queue_ids, names, strict=True))
        if not self._queues.know(set(queues)):
            return position
        tags = column(properties, property_columns.TAGS)
        units = list(map(UNIT.pack, offsets, sizes, self._queues.codes(tags)))
        self._queues.append_mixed(queues, queue_offsets, units)
        topics = list(map(self._queues.topics.__getitem__, names))
        self._add_keys(topics, offsets, times, properties)
        self._keys.add_tags(topics, offsets, times, tags)
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
        with memoryview(self._data) as view:
            found = [crc32(view[begin:end]) & _BODY_MASK for begin, end in zip(body_at, topic_at, strict=True)]
        return found == list(crcs)

    def _add_keys(
        self, topics: Sequence[str], offsets: Sequence[int], times: Sequence[int], properties: Sequence[bytes]
    ) -> None:
        for name in (property_columns.UNIQUE, property_columns.KEYS):
            texts = column(properties, name)
            rows: Sequence[Sequence[Any]] = (topics, offsets, times, texts)
            if b"" in texts:
                rows = [list(compress(part, texts)) for part in rows]
            if rows[3]:
                self._keys.add_texts(rows[:3], rows[3], several=name is property_columns.KEYS)

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
            self._queues.make(name, topic)
            code = time if topic == SCHEDULE_TOPIC else java_string_hash(tag)
            self._queues.append(name, message.queue_offset, UNIT.pack(offset, message.total_size, code), 1)
        if message.sys_flag & SysFlag.TRANSACTION_MASK != SysFlag.TRANSACTION_ROLLBACK:
            if unique := properties.get(PropertyName.UNIQ_KEY):
                self._keys.add_key(topic, offset, time, unique)
            for word in filter(None, properties.get(PropertyName.KEYS, "").split(" ")):
                self._keys.add_key(topic, offset, time, word)
            if tag:
                self._keys.add_tags((topic,), (offset,), (time,), (tag.encode(),))
        self._count(1, time, time, position + message.total_size)
        return position + message.total_size


def _hold(stated: array[int], found: array[int]) -> bool:
    """Whether checksums are right; of those found the highest bit is not kept."""
    # As one number each.
    whole, kept = (int.from_bytes(crcs.tobytes(), sys.byteorder) for crcs in (found, stated))
    return whole & _BODY_MASKS == kept
