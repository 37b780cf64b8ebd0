"""Ordered pops: which messages of a queue a group has in hand, and when it may have the next ones.

A queue is closed to a group while messages that it popped in order are neither acknowledged nor visible again. The
offset moves on as acknowledgements allow; nothing goes to a retry topic. Pure, times are arguments.
Upstream: ``ConsumerOrderInfoManager``, whose file ``consumerOrderInfo.json`` this reads and writes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from gateway.shares import Shares
from wire.disk.config_json import OrderInfoEntry

MAX_ORDER_QUEUES: Final = 200_000
"""Queues that groups consume in order: one entry each, about 500 bytes. A group gets a share of them."""
FREES_KEPT: Final = 1_000
"""Times at which queues come free that are kept besides two for each queue: most of the others are out of date."""

FREES_AT_ONCE: Final = 200
"""Queues that open at once and are looked at in one turn of the reactor."""

Key = tuple[str, str, int]
"""Topic, group, queue."""


class AckFault(Enum):
    """Why an acknowledgement changes nothing; names of the outcomes that upstream numbers -1 and -2."""

    UNKNOWN = "the message was not popped in order"
    OTHER_POP = "the message was popped again since"


@dataclass(slots=True)
class OrderInfo:
    """The last ordered pop of a group from a queue.

    :ivar offsets: ascending; ``counts`` how often a message was popped before, ``visible_at_ms`` until when a message
        is invisible where that is not as for all.
    :ivar committed: a bit for each offset that is acknowledged.
    """

    offsets: Sequence[int]
    popped_at_ms: int
    invisible_ms: int
    attempt_id: str | None = None
    committed: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    visible_at_ms: dict[int, int] = field(default_factory=dict)

    def is_acked(self, index: int) -> bool:
        """Whether the message at this place of ``offsets`` is acknowledged."""
        return bool(self.committed >> index & 1)

    def free_at_ms(self) -> int | None:
        """When the first unacknowledged message can be had again: all of them must; None when there is none left."""
        default = self.popped_at_ms + self.invisible_ms
        times = [
            self.visible_at_ms.get(offset, default)
            for index, offset in enumerate(self.offsets)
            if not self.is_acked(index)
        ]
        return max(times) if times else None

    def next_offset(self) -> int:
        """Where the group goes on: at the first message that is not acknowledged, or after the last."""
        for index, offset in enumerate(self.offsets):
            if not self.is_acked(index):
                return offset
        return self.offsets[-1] + 1

    def entry(self) -> OrderInfoEntry:
        """As in the file."""
        first = self.offsets[0]
        return OrderInfoEntry(
            offsets=[first, *(offset - first for offset in self.offsets[1:])],
            popped_at_ms=self.popped_at_ms,
            invisible_ms=self.invisible_ms,
            visible_at_ms=dict(self.visible_at_ms) or None,
            counts=dict(self.counts) or None,
            committed=self.committed,
            last_consumed_ms=self.popped_at_ms,
            attempt_id=self.attempt_id,
        )

    @classmethod
    def of_entry(cls, entry: OrderInfoEntry) -> OrderInfo | None:
        """What the file says; None when that names no message."""
        if not entry.offsets:
            return None
        first, *others = entry.offsets
        return cls(
            offsets=[first, *(first + other for other in others)],
            popped_at_ms=entry.popped_at_ms,
            invisible_ms=entry.invisible_ms or 0,
            attempt_id=entry.attempt_id,
            committed=entry.committed,
            counts=dict(entry.counts or {}),
            visible_at_ms=dict(entry.visible_at_ms or {}),
        )


def entries_of(table: Mapping[Key, OrderInfo]) -> dict[str, dict[int, OrderInfoEntry]]:
    """As in the file: ``topic@group`` → queue → entry."""
    entries: dict[str, dict[int, OrderInfoEntry]] = {}
    for (topic, group, queue_id), info in table.items():
        entries.setdefault(f"{topic}@{group}", {})[queue_id] = info.entry()
    return entries


class OrderTable:
    """The ordered pops of all groups."""

    def __init__(self, max_queues: int = MAX_ORDER_QUEUES) -> None:
        self._table: dict[Key, OrderInfo] = {}
        self._by_topic: dict[str, dict[Key, None]] = {}
        # Keys whose entries are in no frozen table and may be changed; those of others are replaced.
        self._own: set[Key] = set()
        self._shares: Shares[str] = Shares(max_queues)
        self._frees: list[tuple[int, Key]] = []
        self.changes = 0
        """Rises with every change."""

    def __len__(self) -> int:
        return len(self._table)

    def get(self, key: Key) -> OrderInfo | None:
        """The last ordered pop, or None."""
        return self._table.get(key)

    def put(self, key: Key, info: OrderInfo | None) -> None:
        """As the log or the file says; None: there is none any more."""
        self.changes += 1
        if info is None:
            if self._table.pop(key, None) is not None:
                self._shares.give_back(key[1])
                self._own.discard(key)
                keys = self._by_topic[key[0]]
                del keys[key]
                if not keys:
                    del self._by_topic[key[0]]
        else:
            if key not in self._table:
                self._shares.add(key[1])
                self._by_topic.setdefault(key[0], {})[key] = None
            self._table[key] = info
            self._own.add(key)
            self._note_free(key, info)

    def is_closed(self, key: Key, attempt_id: str | None, now_ms: int) -> bool:
        """Whether the group has to wait; not for the answer to an attempt that it makes again."""
        info = self._table.get(key)
        if info is None or (attempt_id is not None and attempt_id == info.attempt_id):
            return False
        free_at_ms = info.free_at_ms()
        return free_at_ms is not None and now_ms < free_at_ms

    def is_full(self, key: Key) -> bool:
        """Whether this queue would be one too many for its group, which gets a share of all."""
        return key not in self._table and not self._shares.has_room(key[1])

    def popped(
        self, key: Key, offsets: Sequence[int], now_ms: int, invisible_ms: int, attempt_id: str | None
    ) -> OrderInfo:
        """The group popped these messages."""
        former = self._table.get(key)
        counts: dict[int, int] = {}
        if former is not None:
            same = attempt_id is not None and attempt_id == former.attempt_id
            known = set(former.offsets)
            for offset in offsets:
                if offset in known:
                    times = former.counts.get(offset, 0) + (not same)
                    if times:
                        counts[offset] = times
        info = OrderInfo(offsets, now_ms, invisible_ms, attempt_id, counts=counts)
        self.put(key, info)
        return info

    def ack(self, key: Key, offset: int, popped_at_ms: int) -> int | AckFault:
        """A message is done; where the group goes on."""
        info = self._table.get(key)
        if info is None:
            return AckFault.UNKNOWN
        if info.popped_at_ms != popped_at_ms:
            return AckFault.OTHER_POP
        if offset not in info.offsets:
            return AckFault.UNKNOWN
        self.changes += 1
        info = self._changeable(key, info)
        info.committed |= 1 << info.offsets.index(offset)
        if info.visible_at_ms:  # else it comes free when it was to anyway, or at once
            self._note_free(key, info)
        return info.next_offset()

    def drop_settled(self, key: Key) -> None:
        """Forget the last pop when all of it is acknowledged; what is acknowledged once more is unknown then."""
        info = self._table.get(key)
        if info is not None and info.free_at_ms() is None:
            self.put(key, None)

    def change_visible(
        self, key: Key, offset: int, popped_at_ms: int, visible_at_ms: int, *, suspended: bool = False
    ) -> AckFault | None:
        """A message of the last pop becomes visible at another time.

        :param suspended: nobody tried it: this pop does not count.
        """
        info = self._table.get(key)
        if info is None or offset not in info.offsets:
            return AckFault.UNKNOWN
        if info.popped_at_ms != popped_at_ms:
            return AckFault.OTHER_POP
        self.changes += 1
        info = self._changeable(key, info)
        info.visible_at_ms[offset] = visible_at_ms
        if suspended:
            info.counts[offset] = info.counts.get(offset, 0) - 1
        self._note_free(key, info)
        return None

    def _changeable(self, key: Key, info: OrderInfo) -> OrderInfo:
        """The entry to be changed, which is in no frozen table."""
        if key not in self._own:
            info = self._table[key] = OrderInfo(
                info.offsets,
                info.popped_at_ms,
                info.invisible_ms,
                info.attempt_id,
                info.committed,
                dict(info.counts),
                dict(info.visible_at_ms),
            )
            self._own.add(key)
        return info

    def take_free(self, now_ms: int, most: int = FREES_AT_ONCE) -> list[Key] | None:
        """The queues that have come free by the time since the last call; None when that is all.

        :param most: times that are looked at; not all of them may count.
        """
        if not self._frees or self._frees[0][0] > now_ms:
            return None
        free: list[Key] = []
        while self._frees and self._frees[0][0] <= now_ms and most > 0:
            most -= 1
            _, key = heapq.heappop(self._frees)
            if key in self._table and not self.is_closed(key, None, now_ms):
                free.append(key)
        return free

    def forget_topic(self, topic: str) -> bool:
        """A topic is gone. Whether any of its queues were consumed in order."""
        gone = list(self._by_topic.get(topic, ()))
        for key in gone:
            self.put(key, None)
        return bool(gone)

    # -- the file -------------------------------------------------------------------------------------------

    def frozen(self) -> Mapping[Key, OrderInfo]:
        """The table as it is now, for any thread: what changes later is not in it."""
        self._own = set()
        return self._table.copy()

    def load(self, table: Mapping[str, Mapping[int, OrderInfoEntry]]) -> None:
        """Take over what the file says."""
        for name, queues in table.items():
            topic, _, group = name.partition("@")
            for queue_id, entry in queues.items():
                self.put((topic, group, queue_id), OrderInfo.of_entry(entry))

    def _note_free(self, key: Key, info: OrderInfo) -> None:
        free_at_ms = info.free_at_ms()
        if free_at_ms is not None:
            heapq.heappush(self._frees, (free_at_ms, key))
            if len(self._frees) > FREES_KEPT + 2 * len(self._table):
                self._drop_old_frees()

    def _drop_old_frees(self) -> None:
        """Keep one time for each queue: a message may be hidden for longer again and again."""
        times = ((info.free_at_ms(), key) for key, info in self._table.items())
        self._frees = [(free_at_ms, key) for free_at_ms, key in times if free_at_ms is not None]
        heapq.heapify(self._frees)
