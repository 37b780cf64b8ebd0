"""Ordered pops: the messages of a queue that a group has in hand, and when it may have the next ones.

A queue is closed to a group while messages that the group popped in order are neither acknowledged nor visible again.
Acknowledgements move the offset; no message goes to a retry topic. Pure: times are arguments. Upstream:
``ConsumerOrderInfoManager``, whose file ``consumerOrderInfo.json`` this module reads and writes.
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
"""The number of queues that groups consume in order, each an entry of about 500 bytes; a group gets a share of them."""
FREES_KEPT: Final = 1_000
"""The number of times kept at which queues become free, besides two for each queue: most are out of date."""
FREES_MOVED: Final = 2
"""The number of times that are looked at with each new time, once too many are kept."""

FREES_AT_ONCE: Final = 200
"""The number of times of free queues that are checked in one turn of the reactor."""

Key = tuple[str, str, int]
"""A queue of a group: topic, group, queue id."""
Free = tuple[int, int, Key]
"""A time when a queue becomes free: the millisecond, the number of the change that set it, and the queue."""


class AckFault(Enum):
    """The reason why an acknowledgement changes nothing, for the outcomes that upstream numbers -1 and -2."""

    UNKNOWN = "the message was not popped in order"
    OTHER_POP = "the message was popped again since"


@dataclass(slots=True)
class OrderInfo:
    """The last ordered pop of a group from a queue.

    :ivar offsets: the offsets of the messages, in rising order.
    :ivar counts: how often a message was popped before.
    :ivar visible_at_ms: the time until which a message is invisible, if it differs from the pop's time.
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
        """Return whether the message at this index of ``offsets`` is acknowledged."""
        return bool(self.committed >> index & 1)

    def free_at_ms(self) -> int | None:
        """Return when all unacknowledged messages are visible again; None if all messages are acknowledged."""
        default = self.popped_at_ms + self.invisible_ms
        times = [
            self.visible_at_ms.get(offset, default)
            for index, offset in enumerate(self.offsets)
            if not self.is_acked(index)
        ]
        return max(times) if times else None

    def is_over(self, now_ms: int) -> bool:
        """Return whether all messages are acknowledged, and acknowledgements are no longer repeated."""
        return self.free_at_ms() is None and now_ms >= self.popped_at_ms + self.invisible_ms

    def next_offset(self) -> int:
        """Return where the group continues: at the first unacknowledged message, or after the last message."""
        for index, offset in enumerate(self.offsets):
            if not self.is_acked(index):
                return offset
        return self.offsets[-1] + 1

    def entry(self) -> OrderInfoEntry:
        """Return the pop as an entry of the file."""
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
        """Return the pop of an entry of the file; None if the entry names no message."""
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
    """Return the table in the form of the file: ``topic@group`` → queue → entry."""
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
        # Times when queues become free, in two heaps: the times of the former heap that still count move to the other,
        # a few with each new time. So no call has to search all times for those that are out of date.
        self._frees: list[Free] = []
        self._former_frees: list[Free] = []
        self._noted: dict[Key, int] = {}  # the change of the time that counts
        self.changes = 0
        """A number that rises with every change of the table."""

    def __len__(self) -> int:
        return len(self._table)

    def get(self, key: Key) -> OrderInfo | None:
        """Return the last ordered pop, or None."""
        return self._table.get(key)

    def put(self, key: Key, info: OrderInfo | None) -> None:
        """Set the last ordered pop as the log or the file says; None removes it."""
        self.changes += 1
        if info is None:
            if self._table.pop(key, None) is not None:
                self._shares.give_back(key[1])
                self._own.discard(key)
                self._noted.pop(key, None)
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
        """Return whether the group has to wait; False for a repeated attempt, which gets its answer again."""
        info = self._table.get(key)
        if info is None or (attempt_id is not None and attempt_id == info.attempt_id):
            return False
        free_at_ms = info.free_at_ms()
        return free_at_ms is not None and now_ms < free_at_ms

    def is_full(self, key: Key) -> bool:
        """Return whether this queue would exceed the group's share of all ordered queues."""
        return key not in self._table and not self._shares.has_room(key[1])

    def popped(
        self, key: Key, offsets: Sequence[int], now_ms: int, invisible_ms: int, attempt_id: str | None
    ) -> OrderInfo:
        """Note that the group popped these messages."""
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
        """Acknowledge a message; return where the group continues, or why nothing changed."""
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
        """Forget the last pop if all of it is acknowledged; a repeated acknowledgement is unknown afterwards."""
        info = self._table.get(key)
        if info is not None and info.free_at_ms() is None:
            self.put(key, None)

    def change_visible(
        self, key: Key, offset: int, popped_at_ms: int, visible_at_ms: int, *, suspended: bool = False
    ) -> AckFault | None:
        """Change the time when a message of the last pop becomes visible; return why nothing changed, or None.

        :param suspended: True if nobody tried the message: this pop does not count.
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
        """Return the entry for a change: a copy if the entry is in a frozen table."""
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
        """Return the queues that have become free since the last call; None if there are no more.

        :param most: the number of times to check; not all of them may count.
        """
        free: list[Key] = []
        heap = self._first_heap()
        if not heap or heap[0][0] > now_ms:
            return None
        while heap and heap[0][0] <= now_ms and most > 0:
            most -= 1
            _, change, key = heapq.heappop(heap)
            if self._noted.get(key) == change:
                del self._noted[key]
                if not self.is_closed(key, None, now_ms):
                    free.append(key)
            heap = self._first_heap()
        return free

    def _first_heap(self) -> list[Free]:
        """Return the heap that has the earliest time."""
        frees, former = self._frees, self._former_frees
        return former if former and (not frees or former[0] < frees[0]) else frees

    def forget_topic(self, topic: str) -> bool:
        """Forget a deleted topic; return whether any of its queues were consumed in order."""
        gone = list(self._by_topic.get(topic, ()))
        for key in gone:
            self.put(key, None)
        return bool(gone)

    # -- the file -------------------------------------------------------------------------------------------

    def frozen(self) -> Mapping[Key, OrderInfo]:
        """Return the present table, for any thread: later changes are not in it."""
        self._own = set()
        return self._table.copy()

    def load(self, table: Mapping[str, Mapping[int, OrderInfoEntry]]) -> None:
        """Take over the content of the file."""
        for name, queues in table.items():
            topic, _, group = name.partition("@")
            for queue_id, entry in queues.items():
                self.put((topic, group, queue_id), OrderInfo.of_entry(entry))

    def _note_free(self, key: Key, info: OrderInfo) -> None:
        """Note when a queue becomes free; a message may be hidden for longer again and again, so old times are dropped.

        Call this after ``changes`` has risen: the change tells the time that counts from the queue's earlier ones.
        """
        free_at_ms = info.free_at_ms()
        if free_at_ms is None:
            return
        self._noted[key] = self.changes
        heapq.heappush(self._frees, (free_at_ms, self.changes, key))
        if not self._former_frees and len(self._frees) > FREES_KEPT + 2 * len(self._table):
            self._former_frees, self._frees = self._frees, []
        for former in [self._former_frees.pop() for _ in range(min(FREES_MOVED, len(self._former_frees)))]:
            if self._noted.get(former[2]) == former[1]:  # the last of a heap, so its other times stay a heap
                heapq.heappush(self._frees, former)
