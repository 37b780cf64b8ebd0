"""Bit maps of messages: the groups whose SQL92 expressions a message passes, computed once, when it is stored.

With ``enableConsumeQueueExt`` and ``enableCalcFilterBitMap``, every new message is matched with the expressions of all
groups known for its topic. The queue's extension keeps the bits of the groups that take the message. A group that pulls
then skips other messages without reading their records. A bit map counts only for messages stored after the group's
expression was known, and only if it has as many bits as are configured now; otherwise the record decides.

The expressions, and since when they are known, are saved in ``consumerFilter.json``. Apache RocketMQ reads and writes
this file as well (``ConsumerFilterManager``, ``ConsumerFilterData``). An expression is forgotten after nobody has
consumed in its group for a day.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from gateway.clock import Milliseconds
from gateway.delivery.filters.bloom import BloomShape, bit_map
from gateway.delivery.filters.sql92 import EXPRESSION_TYPE_SQL92, ExpressionError, Sql92Filter, sql92_filter
from gateway.delivery.filters.turns import FilterTurns
from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.saved.saved_table import SavedTable
from gateway.metadata.saved.write_behind import Saved
from gateway.store.queues.extended_units import AcceptsExtension
from wire.bodies.subscriptions import SubscriptionData
from wire.disk.config_json import ConsumerFiltersFile, GroupBits, GroupFilterEntry, TopicFilters

FILE_NAME = "consumerFilter.json"
MAX_GROUP_FILTERS = 10_000
"""The number of expressions with bit maps; for further ones records decide, until some expressions are forgotten."""
MAX_GROUP_CHARACTERS = 1_048_576
"""The characters of all expressions with bit maps: 100 for each. A start compiles them, in 5 s at most."""
FORGOTTEN_AFTER_MS = 24 * 3_600_000
"""The milliseconds without consumers until an expression is forgotten.

Upstream: ``ConsumerFilterManager.MS_24_HOUR``.
"""
LOADED_DEAD_MS = 30_000
"""The milliseconds before a start at which its groups count as gone (upstream ``ConsumerFilterManager.decode``)."""


@dataclass(frozen=True, slots=True)
class _GroupFilter:
    """One group's expression for a topic."""

    entry: GroupFilterEntry
    accepts: Sql92Filter


class GroupBitMaps(SavedTable[ConsumerFiltersFile]):
    """The expressions by topic and group. Changed on the reactor's thread.

    :param now_ms: returns a time at or after the store time of every stored message.
    :param is_live: returns whether somebody consumes a topic (second) in a group (first).
    :param in_thread: runs the writes; the default writes at once, for tools and tests.
    :param turns: pays for matching new messages; without turns all messages are matched.
    """

    def __init__(
        self,
        *,
        path: Path,
        shape: BloomShape,
        now_ms: Milliseconds,
        is_live: Callable[[str, str], bool],
        in_thread: InThread = in_this_thread,
        turns: FilterTurns | None = None,
        limit: int = MAX_GROUP_FILTERS,
    ) -> None:
        super().__init__(path, ConsumerFiltersFile.parse, in_thread)
        self._shape = shape
        self._now_ms = now_ms
        self._is_live = is_live
        self._turns = turns
        self._limit = limit
        self._topics: dict[str, dict[str, _GroupFilter]] = {}
        self._count = 0
        self._characters = 0
        self._extra: Mapping[str, Any] = {}

    # -- expressions ----------------------------------------------------------------------------------------

    def register(self, group: str, subscription: SubscriptionData, accepts: Sql92Filter) -> None:
        """Note that a group filters a topic by this expression from now on."""
        groups = self._topics.get(subscription.topic, {})
        known = groups.get(group)
        before = 0 if known is None else len(known.entry.expression)
        too_long = self._characters - before + len(subscription.sub_string) > MAX_GROUP_CHARACTERS
        if too_long or (known is None and self._count >= self._limit):
            return
        entry = GroupFilterEntry(
            group=group,
            topic=subscription.topic,
            expression=subscription.sub_string,
            expression_type=EXPRESSION_TYPE_SQL92,
            bits=self._bits(group, subscription.topic),
            born_ms=self._now_ms(),
            client_version=subscription.sub_version,
        )
        if known is not None and known.entry.expression == entry.expression:
            # Its bits were made all the time, also while nobody consumed.
            entry = structs.replace(entry, born_ms=known.entry.born_ms)
        self._put(_GroupFilter(entry, accepts))
        self._writer.touch()

    def remember(self, group: str, subscription: SubscriptionData, accepts: Sql92Filter) -> None:
        """Register the expression again if it was forgotten, because the group still filters by it."""
        if group not in self._topics.get(subscription.topic, ()):
            self.register(group, subscription, accepts)

    def _bits(self, group: str, topic: str) -> GroupBits:
        return GroupBits(self._shape.positions(group, topic), self._shape.bits)

    def _put(self, found: _GroupFilter) -> None:
        groups = self._topics.setdefault(found.entry.topic, {})
        known = groups.get(found.entry.group)
        if known is None:
            self._count += 1
        else:
            self._characters -= len(known.entry.expression)
        self._characters += len(found.entry.expression)
        groups[found.entry.group] = found

    def distrust(self) -> None:
        """Trust no existing bit map: the loaded expressions may be older than those that messages were matched with."""
        now_ms = self._now_ms()
        for groups in self._topics.values():
            for found in list(groups.values()):
                self._put(replace(found, entry=structs.replace(found.entry, born_ms=now_ms)))
        self._writer.touch()

    # -- bit maps -------------------------------------------------------------------------------------------

    def of_message(self, topic: str, properties: Mapping[str, str]) -> bytes:
        """Return the bit map of a new message; b"" if no group filters its topic."""
        groups = self._topics.get(topic)
        if not groups:
            return b""
        positions: list[int] = []
        for found in groups.values():
            if self._may_match(found.accepts, properties):
                positions += found.entry.bits.positions
        return bit_map(positions, self._shape.bits)

    def _may_match(self, accepts: Sql92Filter, properties: Mapping[str, str]) -> bool:
        return accepts.matches(properties) if self._turns is None else self._turns.may_match(accepts, properties)

    def accepts(self, group: str, topic: str, expression: str) -> AcceptsExtension | None:
        """Return a function that checks by bit map whether a message may be for a group; None if none can tell."""
        found = self._topics.get(topic, {}).get(group)
        if found is None or found.entry.expression != expression:
            return None
        born_ms, bit_map_bytes = found.entry.born_ms, self._shape.bits // 8
        wanted = int.from_bytes(bit_map(found.entry.bits.positions, self._shape.bits), "little")

        def accepts(stored_at_ms: int, bits: bytes) -> bool:
            if stored_at_ms <= born_ms or len(bits) != bit_map_bytes:
                return True
            return int.from_bytes(bits, "little") & wanted == wanted

        return accepts

    # -- the file -------------------------------------------------------------------------------------------

    def persist(self, saved: Saved | None = None) -> None:
        """Write all changes, including groups that came or went.

        Call ``saved`` when everything is on disk, or with the error.
        """
        self._look_after()
        super().persist(saved)

    def persist_now(self) -> None:
        """Write all changes like ``persist``, and wait for the write.

        :raises OSError: the change is not on disk.
        """
        self._look_after()
        super().persist_now()

    def _look_after(self) -> None:
        now_ms = self._now_ms()
        for topic, groups in list(self._topics.items()):
            for group, found in list(groups.items()):
                entry = found.entry
                if self._is_live(group, topic) == bool(entry.dead_ms):
                    self._put(replace(found, entry=structs.replace(entry, dead_ms=0 if entry.dead_ms else now_ms)))
                elif entry.dead_ms and now_ms - entry.dead_ms > FORGOTTEN_AFTER_MS:
                    del groups[group]
                    self._count -= 1
                    self._characters -= len(entry.expression)
                else:
                    continue
                self._writer.touch()
            if not groups:
                del self._topics[topic]

    def _restore(self, content: ConsumerFiltersFile) -> None:
        self._extra = content.extra
        gone_ms = self._now_ms() - LOADED_DEAD_MS
        for topic, filters in content.topics.items():
            for group, entry in filters.groups.items():
                found = _checked(structs.replace(entry, topic=topic, group=group), self._bits(group, topic))
                if found is None or self._count >= self._limit:
                    continue
                if self._characters + len(entry.expression) > MAX_GROUP_CHARACTERS:
                    continue
                if not entry.dead_ms:
                    found = replace(found, entry=structs.replace(found.entry, dead_ms=max(gone_ms, entry.born_ms)))
                self._put(found)

    def _frozen(self) -> Callable[[], bytes]:
        topics = {
            topic: TopicFilters({group: _saved(found.entry) for group, found in groups.items()}, topic)
            for topic, groups in self._topics.items()
        }
        return ConsumerFiltersFile(topics, self._extra).build


def _checked(entry: GroupFilterEntry, bits: GroupBits) -> _GroupFilter | None:
    """Return a saved expression with its filter; None if it is unusable.

    An expression is unusable if its bits have another number, or belong to other groups.
    """
    if entry.expression_type != EXPRESSION_TYPE_SQL92 or entry.born_ms <= 0:
        return None
    if (tuple(entry.bits.positions), entry.bits.bits) != (tuple(bits.positions), bits.bits):
        return None
    try:
        return _GroupFilter(entry, sql92_filter(entry.expression))
    except ExpressionError:
        return None


def _saved(entry: GroupFilterEntry) -> GroupFilterEntry:
    return structs.replace(entry, is_dead=entry.dead_ms >= entry.born_ms)
