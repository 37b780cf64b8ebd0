"""The bulk walk over records of the commit log, a megabyte at a time: collects consume queue units and more on request.

The walk is a quick form of ``wire.message.record.parse_record``. The walk takes the records that are plainly right. All
other records, damaged ones above all, are left to ``parse_record``, which alone says what is wrong. Recovery and
``store verify`` walk this way. The loop makes no object for a record except its unit. The checks are those of
upstream's ``CommitLog.checkMessageAndReturnSize``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeAlias

from wire.checksum import crc32
from wire.disk.consume_queue import UNIT
from wire.errors import RecordError
from wire.message.batch import INNER_BATCH, inner_offsets
from wire.message.flags import SysFlag
from wire.message.light_queues import LIGHT_QUEUE_ID, light_places
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, parse_properties
from wire.message.record import StoredMessage
from wire.message.record_layout import (
    FLAGS_AT,
    HEAD_BY_BYTE,
    MAGIC_V1,
    MAGIC_V2,
    MAX_TOPIC_BYTES,
    MAX_TOPIC_V1_BYTES,
)
from wire.message.tags import tags_code

QueueName: TypeAlias = tuple[str, int]
UnitCode: TypeAlias = Callable[[str, Mapping[str, str], int], int]
"""(topic, properties, store time) → the code that the unit keeps beside the message's place."""
NotBelow: TypeAlias = Callable[[str, int], int]
"""(topic, queue id) → the commit log offset below which the queue's messages were deleted; 0 if none were."""
Seen: TypeAlias = Callable[[str, int, int, int, int, bytes], None]
"""(topic, queue offset, system flag, commit log offset, store time, properties) → None, called for each intact record.

The function may raise RecordError; the record then counts as damaged.
"""

HIDDEN = SysFlag.TRANSACTION_PREPARED
"""The bit of the prepared and the rollback kind; no queue shows these messages."""
MAX_CACHED_TAGS = 4096

_FIELDS = (
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
_TAG = f"{PropertyName.TAGS}\x01".encode()
_LIGHT = f"{PropertyName.INNER_MULTI_QUEUE_OFFSET}\x01".encode()
_PAIR_END = b"\x02"
_ZERO = b"\x00"
_EVERYTHING = 1 << 63  # no record lies there: a queue with this limit takes none
_NO_OFFSET = -(1 << 64)
_NO_NAME = frozenset("/\0")
"""Characters that no topic may have: a topic is a directory, and a flipped bit must not lead out of it."""

_PICKS = {head.name: head.picker(_FIELDS).unpack_from for head in HEAD_BY_BYTE}
_PICK_BY_BYTE = tuple((_PICKS[head.name], head.size) for head in HEAD_BY_BYTE)


class CollectedUnits:
    """The units found for one queue. A plain class for speed, because every record touches one.

    ``runs`` are (first queue offset, units) in log order; the offsets within a run have no gap.
    """

    __slots__ = ("by_properties", "next_offset", "not_below", "queue_id", "runs", "topic", "units")

    def __init__(self, topic: str, queue_id: int, *, not_below: int, by_properties: bool) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.not_below = not_below
        self.by_properties = by_properties
        self.runs: list[tuple[int, bytearray]] = []
        self.units = bytearray()
        self.next_offset = _NO_OFFSET

    def begin_run(self, first_offset: int) -> bytearray:
        """Start a run for units that do not follow the last unit."""
        self.units = bytearray()
        self.runs.append((first_offset, self.units))
        return self.units


def check_queue_name(topic: str, queue_id: int) -> None:
    """Refuse a topic and a queue id that cannot be directories.

    :raises RecordError: the topic or the queue id cannot be a directory.
    """
    if (
        queue_id < 0
        or not 0 < len(topic.encode()) <= MAX_TOPIC_BYTES
        or topic in (".", "..")
        or not _NO_NAME.isdisjoint(topic)
    ):
        raise RecordError(f"no queue can be called {queue_id} of topic {topic[:MAX_TOPIC_BYTES]!r}")


class UnitCollector:
    """A collector of the units of all queues, or of some.

    :param unit_code: makes the code of a unit for topics whose units do not keep the hash of a tag.
    :param special_topics: these topics.
    :param only: the queues wanted; None for all.
    :param not_below: the commit log offset below which the messages of a queue were deleted; None if none were.
    :param light_queues: whether to trust INNER_MULTI_QUEUE_OFFSET; the property is the broker's only while the broker
        puts messages into light queues.
    :param unsynced_from: the log offset from which sectors may never have been written; None if every sector was. A
        record that ends after this offset, and has a zero byte in its properties, is not plainly right.
    :param inner_batches: True if each message of a batch that is one record has a unit; False if the record has one
        unit.
    :param seen: see ``Seen``.
    """

    def __init__(
        self,
        *,
        unit_code: UnitCode,
        special_topics: Container[str] = (),
        only: Container[QueueName] | None = None,
        not_below: NotBelow | None = None,
        check_crc: bool = True,
        light_queues: bool = False,
        unsynced_from: int | None = None,
        inner_batches: bool = True,
        seen: Seen | None = None,
    ) -> None:
        self._unit_code = unit_code
        self._special_topics = special_topics
        self._only = only
        self._not_below = not_below
        self.check_crc = check_crc
        self._light_queues = light_queues
        self.unsynced_from = unsynced_from
        self._inner_batches = inner_batches
        self._seen = seen
        self._queues: dict[tuple[bytes, int], CollectedUnits] = {}
        """The units by topic and queue id; the topic is the field of a record, with its length."""
        self._by_name: dict[QueueName, CollectedUnits] = {}
        self._codes: dict[bytes, int] = {}
        self.collecting = True
        """True while units are collected; False if records are only checked and counted."""
        self.records = 0
        self.units = 0
        self.last_stored_at_ms = 0
        self.end = 0
        """The commit log offset after the last record that was taken."""

    def queues(self) -> Iterable[CollectedUnits]:
        """Return the queues that have units."""
        return [queue for queue in self._by_name.values() if queue.runs]

    def stop_collecting(self) -> None:
        """Only check and count records from now on."""
        self.collecting = False
        for queue in self._by_name.values():
            queue.not_below = _EVERYTHING

    def take(self, data: bytes, commit_log_offset: int) -> int:  # noqa: C901 (one loop, a call a record would double it)
        """Collect from the records at the start of ``data``, which lies at ``commit_log_offset`` of the log.

        :returns: how many bytes of whole, intact records were taken. The rest is cut off at the end of ``data``, or is
            not plainly a record; the caller has to read it with ``parse_record``.
        """
        view, end = memoryview(data), len(data)
        find_queue, pack, find = self._queues.get, UNIT.pack, data.find
        find_code, picks, check_crc = self._codes.get, _PICK_BY_BYTE, self.check_crc
        light_queues, inner_batch = self._light_queues, INNER_BATCH
        most_properties, seen = MAX_PROPERTIES_BYTES, self._seen
        unsynced_from = _EVERYTHING if self.unsynced_from is None else self.unsynced_from
        records = units = position = 0
        last_ms = self.last_stored_at_ms
        try:
            while position < end:
                pick, head_bytes = picks[data[position + FLAGS_AT]]
                size, magic, crc, queue_id, queue_offset, offset, sys_flag, stored_ms, body_bytes = pick(data, position)
                record_end = position + size
                body_at = position + head_bytes
                topic_at = body_at + body_bytes
                if offset != commit_log_offset + position or record_end > end or topic_at < body_at:
                    break
                if magic == MAGIC_V1 and (name_bytes := data[topic_at]) <= MAX_TOPIC_V1_BYTES:
                    name_end = topic_at + 1 + name_bytes
                elif magic == MAGIC_V2:
                    name_end = topic_at + 2 + (data[topic_at] << 8 | data[topic_at + 1])
                else:
                    break
                properties_at = name_end + 2
                properties_bytes = record_end - properties_at
                if data[name_end] << 8 | data[name_end + 1] != properties_bytes or properties_bytes > most_properties:
                    break
                if sys_flag & inner_batch == inner_batch or (
                    light_queues and find(_LIGHT, properties_at, record_end) >= 0
                ):
                    break  # has several units
                if offset + size > unsynced_from and find(_ZERO, properties_at, record_end) >= 0:
                    break
                if check_crc and crc32(view[body_at:topic_at]) & 0x7FFFFFFF != crc:
                    break
                key = (data[topic_at:name_end], queue_id)
                queue = find_queue(key) or self._add_field(key)
                if seen is not None:
                    seen(queue.topic, queue_offset, sys_flag, offset, stored_ms, data[properties_at:record_end])
                position = record_end
                records += 1
                if stored_ms > last_ms:
                    last_ms = stored_ms
                if sys_flag & HIDDEN or offset < queue.not_below:
                    continue
                if queue.by_properties:
                    code = self._code_of(queue.topic, data[properties_at:record_end], stored_ms)
                elif (tag_at := find(_TAG, properties_at, record_end)) < 0:
                    code = 0
                else:
                    tag_end = find(_PAIR_END, tag_at, record_end)
                    if tag_end < 0:  # the last pair, of a writer before 5.0
                        tag_end = record_end
                    tag = data[tag_at - (tag_at > properties_at) : tag_end]
                    known = find_code(tag)
                    if known is None or find(_TAG, tag_end, record_end) >= 0:
                        known = self._code_of_tag(tag, data[properties_at:record_end])
                    code = known
                collected = queue.units if queue_offset == queue.next_offset else queue.begin_run(queue_offset)
                collected += pack(offset, size, code)
                queue.next_offset = queue_offset + 1
                units += 1
        except (IndexError, struct.error, RecordError):
            pass  # cut off, or a name that cannot be: the reader of single records finds the words
        self.records += records
        self.units += units
        self.last_stored_at_ms = last_ms
        if position:
            self.end = commit_log_offset + position
        return position

    def add(self, message: StoredMessage) -> None:
        """Collect one message that was read singly.

        :raises RecordError: the topic or queue of the message cannot have a directory.
        """
        queue, first = self._queue(message.topic, message.queue_id), message.queue_offset
        if self._seen is not None:
            place, stored_at_ms = message.commit_log_offset, message.stored_at_ms
            self._seen(message.topic, first, message.sys_flag, place, stored_at_ms, message.properties)
        self.end = message.commit_log_offset + message.total_size
        self.records += 1
        self.last_stored_at_ms = max(self.last_stored_at_ms, message.stored_at_ms)
        if message.sys_flag & HIDDEN:
            return
        code = self._code_of(message.topic, message.properties, message.stored_at_ms)
        for offset in inner_offsets(message) if self._inner_batches else (first,):
            self._collect(queue, offset, message, code)
        if self._light_queues:
            for name, offset in light_places(message.topic, message.property_map):
                if offset < message.commit_log_offset + message.total_size:  # else a client wrote it, once
                    self._collect(self._queue(name, LIGHT_QUEUE_ID), offset, message, code)

    def _collect(self, queue: CollectedUnits, queue_offset: int, message: StoredMessage, code: int) -> None:
        if message.commit_log_offset < queue.not_below:
            return
        collected = queue.units if queue_offset == queue.next_offset else queue.begin_run(queue_offset)
        collected += UNIT.pack(message.commit_log_offset, message.total_size, code)
        queue.next_offset = queue_offset + 1
        self.units += 1

    def _add_field(self, key: tuple[bytes, int]) -> CollectedUnits:
        """Return the queue for a topic field that was not met before."""
        field, queue_id = key
        name_at = 1 if len(field) == field[0] + 1 else 2
        try:
            topic = field[name_at:].decode()
        except UnicodeDecodeError as error:
            raise RecordError("the topic is not UTF-8") from error
        queue = self._queues[key] = self._queue(topic, queue_id)
        return queue

    def _queue(self, topic: str, queue_id: int) -> CollectedUnits:
        queue = self._by_name.get((topic, queue_id))
        if queue is not None:
            return queue
        check_queue_name(topic, queue_id)
        wanted = self.collecting and (self._only is None or (topic, queue_id) in self._only)
        limit = 0 if self._not_below is None else self._not_below(topic, queue_id)
        queue = self._by_name[topic, queue_id] = CollectedUnits(
            topic,
            queue_id,
            not_below=limit if wanted else _EVERYTHING,
            by_properties=topic in self._special_topics,
        )
        return queue

    def _code_of(self, topic: str, properties: bytes, stored_at_ms: int) -> int:
        return self._unit_code(topic, parse_properties(properties), stored_at_ms)

    def _code_of_tag(self, tag: bytes, properties: bytes) -> int:
        """Return the code of a message with a tag.

        The code is remembered for ``tag``, the pair with the end of the pair before it, if the message has no second
        tag.
        """
        code = tags_code(parse_properties(properties).get(PropertyName.TAGS))
        if tag.startswith((_TAG, _PAIR_END)) and properties.count(_TAG) == 1 and len(self._codes) < MAX_CACHED_TAGS:
            self._codes[tag] = code
        return code
