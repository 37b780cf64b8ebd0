"""The limits that a query's conditions set to queues, offsets, times and tags, so that less is read.

Spark checks every condition again on the rows. So this module may let too much be read, but never too little. Times
limit the store time, for which the broker makes a binary search. The search is right as long as the broker's clock did
not go back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import Bounds
from gateway.spark.options import ReadOptions
from gateway.spark.reading.planning import QueueRange

_EXACT = {"topic": "topic", "brokername": "broker_name", "queueid": "queue_id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """The limits of a query; None is no limit. Ends are exclusive.

    :param chosen: parts of a queue's name (``topic``, ``broker_name``, ``queue_id``) and the values that each may have.
    """

    chosen: tuple[tuple[str, frozenset[Any]], ...] = ()
    first_offset: int | None = None
    end_offset: int | None = None
    from_ms: int | None = None
    until_ms: int | None = None
    tags: frozenset[str] | None = None

    def ranges(self, bounds: Bounds, ranges: Sequence[QueueRange]) -> list[QueueRange]:
        """Return the parts of ranges that may hold wanted messages."""
        kept = [entry for entry in ranges if self._may_hold(entry.queue)]
        queues = [entry.queue for entry in kept]
        begins = self._at(bounds, queues, self.from_ms)
        ends = self._at(bounds, queues, self.until_ms)
        found: list[QueueRange] = []
        for entry in kept:
            start = max(entry.start, begins.get(entry.queue, 0), self.first_offset or 0)
            end = min(entry.end, ends.get(entry.queue, entry.end))
            if self.end_offset is not None:
                end = min(end, self.end_offset)
            if start < end:
                found.append(dataclasses.replace(entry, start=start, end=end))
        return found

    def options(self, options: ReadOptions) -> ReadOptions:
        """Return options with the wanted tags, if the query has no other filter."""
        if self.tags is None or options.is_filtered or not all(map(_can_travel, self.tags)):
            return options
        return dataclasses.replace(options, expression=" || ".join(sorted(self.tags)))

    def _may_hold(self, queue: MessageQueue) -> bool:
        return all(getattr(queue, part) in values for part, values in self.chosen)

    @staticmethod
    def _at(bounds: Bounds, queues: Sequence[MessageQueue], moment_ms: int | None) -> dict[MessageQueue, int]:
        return {} if moment_ms is None else bounds.at_time(queues, dict.fromkeys(queues, moment_ms))


def narrowing(filters: Iterable[Filter]) -> Narrowing:
    """Return the limits from conditions that all hold."""
    found = Narrowing()
    for entry in filters:
        attribute: tuple[str, ...] = getattr(entry, "attribute", ())
        if len(attribute) == 1 and getattr(entry, "value", None) is not None:
            found = _narrowed(found, attribute[0].lower(), entry)
    return found


def _narrowed(found: Narrowing, name: str, entry: Any) -> Narrowing:
    values = _values(entry) if name in _EXACT or name == "tags" else None
    if name in _EXACT and values is not None:
        return dataclasses.replace(found, chosen=(*found.chosen, (_EXACT[name], values)))
    if name == "tags" and values:
        return dataclasses.replace(found, tags=values if found.tags is None else found.tags & values or values)
    if name == "queueoffset":
        return _limited(found, entry, "first_offset", "end_offset", lambda value: value)
    if name == "storetimestamp":
        return _limited(found, entry, "from_ms", "until_ms", _milliseconds)
    return found


def _values(entry: Any) -> frozenset[Any] | None:
    if isinstance(entry, EqualTo):
        return frozenset((entry.value,))
    return frozenset(entry.value) if isinstance(entry, In) else None


def _limited(found: Narrowing, entry: Any, first: str, end: str, whole: Any) -> Narrowing:
    """Return the limits with one more condition; times become whole milliseconds, rounded so that more is read."""
    number = whole(entry.value)
    if number is None:
        return found
    least, most = getattr(found, first), getattr(found, end)
    if isinstance(entry, EqualTo | GreaterThan | GreaterThanOrEqual):
        least = number if least is None else max(least, number)
    if isinstance(entry, EqualTo | LessThan | LessThanOrEqual):
        most = number + 1 if most is None else min(most, number + 1)
    return dataclasses.replace(found, **{first: least, end: most})


def _milliseconds(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return int(value.timestamp() * 1000)


def _can_travel(tag: Any) -> bool:
    return isinstance(tag, str) and bool(tag) and "|" not in tag and tag == tag.strip() and tag != "*"
