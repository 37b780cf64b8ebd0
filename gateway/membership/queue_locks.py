"""Queue locks: which client of a group may consume a queue in order.

Upstream: ``RebalanceLockManager``. A lock lives for a minute after its last refresh, in memory only; clients refresh
their locks every 20 s. A lock is not dropped when a connection ends: for half a minute its owner still believes that it
has the lock, and two owners would break the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.clock import Milliseconds
from gateway.errors import RequestRefused
from gateway.remoting.turns import ENTRIES_PER_TURN, Work, finish
from gateway.shares import Shares
from wire.bodies.message_queue import MessageQueue
from wire.codes import ResponseCode

LOCK_MAX_LIVE_MS = 60_000
"""Milliseconds that a lock lives after its last refresh: upstream's ``rocketmq.broker.rebalance.lockMaxLiveTime``."""
MAX_LOCKS = 1_000_000
"""The number of locks of all groups. One group gets a share of them."""
SEARCH_MS = 1_000
"""Milliseconds between two searches for expired locks by requests that find no room."""

Queue = tuple[str, int]
"""A topic and a queue's number.

The broker's name in a request is left out, because a lock is always for a queue of this broker.
"""


class _Lock:
    """The holder of a queue. A plain class for speed: each lock is refreshed every 20 s."""

    __slots__ = ("client_id", "refreshed_ms")

    def __init__(self, client_id: str, refreshed_ms: int) -> None:
        self.client_id = client_id
        self.refreshed_ms = refreshed_ms


class QueueLocks:
    """All queue locks of a broker."""

    def __init__(self, clock_ms: Milliseconds, *, max_locks: int = MAX_LOCKS) -> None:
        self._clock_ms = clock_ms
        self._shares: Shares[str] = Shares(max_locks)
        self._groups: dict[str, dict[Queue, _Lock]] = {}
        self._searched_ms = -SEARCH_MS

    def lock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        """Lock queues for a client; return the queues that it holds now.

        A client gets free queues, its own queues, and queues whose lock has expired.

        :raises RequestRefused: SYSTEM_BUSY: the group has used up its share of the locks; queues before that stay
            locked.
        """
        now_ms = self._clock_ms()
        locks = self._groups.get(group, {})
        granted = []
        for queue in queues:
            key = (queue.topic, queue.queue_id)
            held = locks.get(key)
            if held is None:
                self._take(group)
                locks = self._groups.setdefault(group, {})
                locks[key] = _Lock(client_id, now_ms)
            elif held.client_id == client_id or _has_run_out(held, now_ms):
                held.client_id = client_id
                held.refreshed_ms = now_ms
            else:
                continue
            granted.append(queue)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release the client's own locks on these queues; locks of other clients stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            key = (queue.topic, queue.queue_id)
            held = locks.get(key)
            if held is not None and held.client_id == client_id:
                del locks[key]
                self._shares.give_back(group)
        if not locks:
            self._groups.pop(group, None)

    def group_is_orderly(self, group: str) -> bool:
        """Return whether the group consumes in order: one of its locks has not expired."""
        now_ms = self._clock_ms()
        return any(not _has_run_out(lock, now_ms) for lock in self._groups.get(group, {}).values())

    def forget_run_out(self) -> Work[None]:
        """Free the memory of expired locks; once a minute is enough."""
        now_ms = self._clock_ms()
        looked_at = 0
        for group, locks in list(self._groups.items()):
            for queue, lock in list(locks.items()):
                if _has_run_out(lock, now_ms) and locks.get(queue) is lock:
                    del locks[queue]
                    self._shares.give_back(group)
                looked_at += 1
                if looked_at % ENTRIES_PER_TURN == 0:
                    yield
            if not locks and self._groups.get(group) is locks:
                del self._groups[group]

    def _take(self, group: str) -> None:
        if self._shares.take(group):
            return
        now_ms = self._clock_ms()
        if abs(now_ms - self._searched_ms) >= SEARCH_MS:
            self._searched_ms = now_ms
            finish(self.forget_run_out())
        if not self._shares.take(group):
            raise RequestRefused(
                ResponseCode.SYSTEM_BUSY, self._shares.refusal(group, f"queues locked by group {group}")
            )


def _has_run_out(lock: _Lock, now_ms: int) -> bool:
    return now_ms - lock.refreshed_ms > LOCK_MAX_LIVE_MS
