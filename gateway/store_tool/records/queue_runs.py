"""What a stretch of the commit log asks of consume queues: the units of its messages, by queue.

A queue is named as records name it: its id, and its topic's bytes behind their length (behind a zero where the length
takes two bytes). Only units are made here; ``queue_check`` compares them with the files.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.store.durability.dispatch import SCHEDULE_TOPIC
from gateway.store_tool.records.unit_columns import WORD_BYTES, as_words, build_units, first_of_row, queue_offsets
from wire.disk.consume_queue import UNIT
from wire.message.java_hash import java_string_hash

QueueName: TypeAlias = tuple[int, bytes]
MAX_CACHED_TAGS = 65_536
"""Tags whose code, or hash in the index, one stretch remembers."""


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


class QueueRuns:
    """Collects units; ``runs`` has them in the order of their first messages, ``topics`` the text of topics."""

    def __init__(self) -> None:
        self.runs: list[QueueRun] = []
        self.topics: dict[bytes, str] = {}
        self._queues: dict[QueueName, _Queue] = {}
        self._codes: dict[bytes, int] = {b"": 0}

    def know(self, queues: Iterable[QueueName]) -> bool:
        """Whether all queues are known, or were made now, and none is special."""
        for name in queues:
            topic = name[1]
            if name not in self._queues:
                text = self.topics.get(topic)
                if text is None:
                    try:
                        text = str(topic[1:], "utf-8")
                    except UnicodeDecodeError:
                        return False
                self.make(name, text)
            if self.topics[topic] == SCHEDULE_TOPIC:
                return False
        return True

    def make(self, name: QueueName, topic: str) -> None:
        """Know a queue from now on, if it is not known yet."""
        if name not in self._queues:
            self._queues[name] = _Queue(self.topics.setdefault(name[1], topic), name[0])

    def code(self, tag: bytes) -> int:
        """The tags code of a tag."""
        code = self._codes.get(tag)
        if code is None:
            code = java_string_hash(str(tag, "utf-8", "replace"))
            if len(self._codes) < MAX_CACHED_TAGS:
                self._codes[tag] = code
        return code

    def codes(self, tags: Sequence[bytes]) -> list[int]:
        """The tags codes of many records."""
        known = list(map(self._codes.get, tags))
        return [code for code in known if code is not None] if None not in known else list(map(self.code, tags))

    def append(self, name: QueueName, queue_offset: int, units: bytes, count: int) -> None:
        """The next units of a known queue."""
        queue = self._queues[name]
        if queue.next_offset != queue_offset:
            queue.run = QueueRun(queue.topic, queue.queue_id, queue_offset)
            self.runs.append(queue.run)
        queue.run.units += units
        queue.next_offset = queue_offset + count

    def append_mixed(self, names: Sequence[QueueName], queue_offsets: Sequence[int], units: Sequence[bytes]) -> None:
        """Units of several known queues, in log order."""
        # One after the other: a batch has mostly one or two messages of a queue when there are thousands of queues.
        queues = map(self._queues.__getitem__, names)
        for queue, queue_offset, unit in zip(queues, queue_offsets, units, strict=True):
            if queue.next_offset != queue_offset:
                queue.run = QueueRun(queue.topic, queue.queue_id, queue_offset)
                self.runs.append(queue.run)
            queue.run.units += unit
            queue.next_offset = queue_offset + 1


class QueueRows:
    """Heads of records of one size on their way to units: those of one queue are turned into units together.

    :param size: of each record.
    """

    def __init__(self, runs: QueueRuns, size: int) -> None:
        self._runs = runs
        self._size = size
        self._waiting: dict[QueueName, array[int]] = {}
        self._code: bytes | None = None
        self._width = 0

    def add(self, by_queue: Mapping[QueueName, Sequence[bytes]], code: bytes | None) -> None:
        """Heads of known queues.

        :param code: the tags code of all of them, packed; None when each head ends with its own.
        """
        width = len(next(iter(by_queue.values()))[0]) // WORD_BYTES
        if (code, width) != (self._code, self._width):
            self.flush()
            self._code, self._width = code, width
        waiting = self._waiting
        for name, heads in by_queue.items():
            if name in waiting:
                waiting[name] += as_words(heads)
            else:
                waiting[name] = as_words(heads)

    def flush(self) -> None:
        """Hand the units over."""
        width, size, code = self._width, self._size, self._code
        for name, words in self._waiting.items():
            first = first_of_row(words, width)
            if first is not None:
                self._runs.append(name, first, build_units(words, width, size, code), len(words) // width)
                continue
            for at, queue_offset in zip(range(0, len(words), width), queue_offsets(words, width), strict=True):
                self._runs.append(name, queue_offset, build_units(words[at : at + width], width, size, code), 1)
        self._waiting = {}
