"""Held pops: requests that found nothing and wait for a message, or for their time to run out.

A message is for one client of each group, so it wakes one held pop of a group at a time, the longest waiting first;
what that one leaves wakes the next. Upstream: ``PopLongPollingService``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from gateway.delivery.deadlines import Deadlines
from gateway.delivery.pop.receipts import RETRY_V1, RETRY_V2, pop_retry_topic
from gateway.shares import Shares

if TYPE_CHECKING:
    from gateway.clock import Milliseconds
    from gateway.delivery.filters.message_filter import MessageFilter
    from gateway.delivery.filters.turns import FilterTurns
    from gateway.delivery.long_poll import Arrival, Arrivals

TICK_MS = 100
"""How fine the deadlines are."""
ANY_QUEUE = -1

Key = tuple[str, str, int]
"""Topic, group, queue."""


class Closable(Protocol):
    """What a held request came over."""

    closed: bool


class Held(Enum):
    """What became of a pop that wants to be held."""

    YES = "held"
    FULL = "too many are held"
    TOO_LATE = "its time is over"


class HeldPop:
    """One waiting request. A plain class: thousands are made and dropped a second.

    :param resume: told whether its time is over.
    """

    __slots__ = ("accepts", "channel", "deadline_ms", "key", "resume", "tick", "woken")

    def __init__(
        self,
        key: Key,
        accepts: MessageFilter,
        deadline_ms: int,
        channel: Closable,
        resume: Callable[[bool], None],
    ) -> None:
        self.key = key
        self.accepts = accepts
        self.deadline_ms = deadline_ms
        self.channel = channel
        self.resume = resume
        self.tick = 0
        self.woken = False


def longest_wait_ms(poll_time_ms: int, longest_hold_ms: int) -> int:
    """For how long one is held who asks to wait for ``poll_time_ms``."""
    return min(max(poll_time_ms, 0), longest_hold_ms)


class HeldPops:
    """The held requests of one kind.

    :param turns: of filters; a pop whose filter has no steps left is resumed, to look by itself in a later turn.
    :param limit: how many may wait at once, in shares of a group; :param queue_limit: for one topic, group and queue.
    :param wakes_all: a message wakes everyone who waits for it, not one of each group.
    """

    def __init__(
        self, clock: Milliseconds, turns: FilterTurns, limit: int, queue_limit: int, *, wakes_all: bool = False
    ) -> None:
        self._turns = turns
        self._clock = clock
        self._shares: Shares[str] = Shares(limit)
        self._queue_limit = queue_limit
        self._wakes_all = wakes_all
        self._waiting: dict[Key, dict[HeldPop, None]] = {}
        self._keys_of: dict[str, set[Key]] = {}
        self._deadlines: Deadlines[HeldPop] = Deadlines(clock, TICK_MS)

    def __len__(self) -> int:
        return self._shares.used

    def count(self, key: Key) -> int:
        """How many wait for a topic, group and queue."""
        return len(self._waiting.get(key, ()))

    def hold(self, pop: HeldPop) -> Held:
        """Keep a request until it is woken."""
        if pop.deadline_ms <= self._clock():
            return Held.TOO_LATE
        waiting = self._waiting.get(pop.key)
        group = pop.key[1]
        if not self._shares.has_room(group) or (waiting is not None and len(waiting) >= self._queue_limit):
            return Held.FULL
        self._shares.add(group)
        if waiting is None:
            waiting = self._waiting[pop.key] = {}
            for topic in _topics_of(pop.key):
                self._keys_of.setdefault(topic, set()).add(pop.key)
        waiting[pop] = None
        self._deadlines.add(pop, pop.deadline_ms)
        return Held.YES

    def arrived(self, neighbours: Iterable[Arrivals]) -> None:
        """Wake those who wait for one of these messages."""
        keys_of = self._keys_of
        if not keys_of:
            return
        ready: list[HeldPop] = []
        served: set[Key] = set()
        for arrivals in neighbours:
            keys = keys_of.get(arrivals.topic)
            if keys is None:
                continue
            for message in arrivals.each():
                for key in keys:
                    if key not in served and self._choose(key, message, ready) and not self._wakes_all:
                        served.add(key)
                if served.issuperset(keys):
                    break
        self._resume(ready)

    def wake(self, topic: str, group: str, queue_id: int = ANY_QUEUE) -> None:
        """There may be something to pop in a queue, or in any: one who waits for it looks again."""
        self.woke(topic, group, queue_id)

    def woke(self, topic: str, group: str, queue_id: int = ANY_QUEUE) -> bool:
        """The same; whether anyone waited."""
        ready: list[HeldPop] = []
        for key in self._keys_of.get(topic, ()):
            if key[1] == group and (queue_id == ANY_QUEUE or key[2] in (ANY_QUEUE, queue_id)):
                for pop in self._waiting[key]:
                    if not pop.woken and not pop.channel.closed:
                        pop.woken = True
                        ready.append(pop)
                        break
        self._resume(ready)
        return bool(ready)

    def tick(self) -> None:
        """End those whose time is over; to be called every ``TICK_MS``."""
        while expired := self._deadlines.over():
            for pop in expired:
                pop.woken = True
            self._resume(expired, is_over=True)

    def end_all(self) -> None:
        """End everything that waits, for a broker that stops."""
        everything = [pop for waiting in self._waiting.values() for pop in waiting]
        for pop in everything:
            pop.woken = True
        self._resume(everything, is_over=True)

    def _choose(self, key: Key, message: Arrival, ready: list[HeldPop]) -> bool:
        """Mark who of a key is woken by a message; whether anyone is."""
        topic, _, queue_id = key
        if message.topic == topic and queue_id not in (ANY_QUEUE, message.queue_id):
            return False
        is_retry = message.topic != topic
        chosen = False
        for pop in self._waiting[key]:
            if pop.woken or pop.channel.closed or not (is_retry or _accepts(pop.accepts, message, self._turns)):
                continue
            pop.woken = chosen = True
            ready.append(pop)
            if not self._wakes_all:
                break
        return chosen

    def _resume(self, ready: list[HeldPop], *, is_over: bool = False) -> None:
        for pop in ready:
            self._shares.give_back(pop.key[1])
            self._deadlines.remove(pop)
            waiting = self._waiting[pop.key]
            del waiting[pop]
            if not waiting:
                self._drop(pop.key)
        for pop in ready:
            pop.resume(is_over)

    def _drop(self, key: Key) -> None:
        del self._waiting[key]
        for topic in _topics_of(key):
            keys = self._keys_of[topic]
            keys.discard(key)
            if not keys:
                del self._keys_of[topic]


def _topics_of(key: Key) -> tuple[str, str, str]:
    """Where messages for a held pop arrive."""
    topic, group, _ = key
    return topic, pop_retry_topic(topic, group, RETRY_V1), pop_retry_topic(topic, group, RETRY_V2)


def _accepts(accepts: MessageFilter, message: Arrival, turns: FilterTurns) -> bool:
    if accepts.accepts_code is not None and not accepts.accepts_code(message.tags_code):
        return False
    by_properties = accepts.by_properties
    return by_properties is None or turns.may_match(by_properties, message.message.property_map)
