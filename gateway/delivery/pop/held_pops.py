"""Held pops: requests that found nothing and wait for a message or for their deadline.

A message is for one client of each group. So a message wakes one held pop of a group, the longest waiting first, and
messages that this pop leaves wake the next one. A woken pop looks for messages itself. One turn of the reactor resumes
a limited number of pops; other woken pops have their turn later. Upstream: ``PopLongPollingService``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Protocol

from gateway.clock import Milliseconds
from gateway.delivery.deadlines import Deadlines, LookPace
from gateway.delivery.filters.message_filter import MessageFilter
from gateway.delivery.filters.turns import FilterTurns
from gateway.delivery.held_bytes import NOTHING, TakenBytes, WaitingBytes
from gateway.delivery.long_poll import LONGEST_HOLD_MS, Arrival, Arrivals
from gateway.delivery.pop.receipts import RETRY_V1, RETRY_V2, pop_retry_topic
from gateway.shares import Shares
from wire.message.record import StoredMessage

TICK_MS = 100
"""The milliseconds between two checks of deadlines."""
ANY_QUEUE = -1
RESUME_STEPS = 250
"""The steps of a request that is resumed, in addition to its filter's: one turn has steps for 240 requests."""
TAG_STEPS = 1
"""The steps of one check of a message's tag."""

Key = tuple[str, str, int]
"""A queue of a group: topic, group, queue id."""
Owner = tuple[str, str]
"""A topic and a group."""


class Closable(Protocol):
    """The connection of a held request."""

    @property
    def closed(self) -> bool:
        """True if nobody can be answered any more."""


class Held(Enum):
    """The outcome for a pop that wants to be held."""

    YES = "held"
    FULL = "too many are held"
    TOO_LATE = "its time is over"


@dataclass(slots=True)
class ShownMessage:
    """A message that a start hid and that readers see from now on; an ``Arrival``."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int
    message: StoredMessage


class HeldPop:
    """One waiting request. A plain class for speed: thousands are made and dropped a second.

    :param resume: called with True if its time is over, otherwise with False.
    :param retries: whether messages that are delivered again wake the request, too.
    """

    __slots__ = (
        "accepts",
        "channel",
        "deadline_ms",
        "key",
        "resume",
        "retries",
        "taken",
        "text_bytes",
        "tick",
        "woken",
    )

    def __init__(
        self,
        key: Key,
        accepts: MessageFilter,
        deadline_ms: int,
        channel: Closable,
        resume: Callable[[bool], None],
        retries: bool = True,
    ) -> None:
        self.key = key
        self.accepts = accepts
        self.deadline_ms = deadline_ms
        self.channel = channel
        self.resume = resume
        self.retries = retries
        self.text_bytes = 0
        """The bytes of the texts that the request keeps in memory; set before it is held."""
        self.taken: TakenBytes = NOTHING
        self.tick = 0
        self.woken = False


def longest_wait_ms(poll_time_ms: int) -> int:
    """Return how many milliseconds a request is held that asks to wait for ``poll_time_ms``."""
    return min(max(poll_time_ms, 0), LONGEST_HOLD_MS)


class HeldPops:
    """The held requests of one kind.

    :param turns: the turns of filters and of resumed requests. A pop whose filter has no steps left is resumed, and
        looks for messages itself in a later turn. If no steps are left, every resumed request waits for a later turn.
    :param held_bytes: counts what all held requests keep.
    :param limit: how many requests may wait; a group gets a share.
    :param queue_limit: how many requests may wait for one topic, group and queue.
    :param wakes_all: True if a message wakes every request that waits for it, not one of each group.
    """

    def __init__(
        self,
        clock: Milliseconds,
        turns: FilterTurns,
        held_bytes: WaitingBytes,
        limit: int,
        queue_limit: int,
        *,
        wakes_all: bool = False,
    ) -> None:
        self._held_bytes = held_bytes
        self._turns = turns
        self._clock = clock
        self._shares: Shares[str] = Shares(limit)
        self._queue_limit = queue_limit
        self._wakes_all = wakes_all
        self._waiting: dict[Key, dict[HeldPop, None]] = {}
        self._keys_at: dict[tuple[str, int], dict[Key, None]] = {}  # by topic and queue, or ANY_QUEUE
        self._for_retries: dict[Owner, OrderedDict[HeldPop, None]] = {}  # of all queues of a topic, very many maybe
        self._owners_at: dict[str, dict[Owner, None]] = {}  # by retry topic
        self._deadlines: Deadlines[HeldPop] = Deadlines(clock, TICK_MS)
        self._gone: list[HeldPop] = []  # found closed, to be let go
        self._look_pace = LookPace(TICK_MS)

    def __len__(self) -> int:
        return self._shares.used

    def count(self, key: Key) -> int:
        """Return how many requests wait for a topic, group and queue."""
        return len(self._waiting.get(key, ()))

    def hold(self, pop: HeldPop) -> Held:
        """Keep a request until it is woken."""
        if pop.deadline_ms <= self._clock():
            return Held.TOO_LATE
        waiting = self._waiting.get(pop.key)
        topic, group, queue_id = pop.key
        if not self._shares.has_room(group) or (waiting is not None and len(waiting) >= self._queue_limit):
            return Held.FULL
        taken = self._held_bytes.take(pop.channel, pop.accepts, pop.text_bytes)
        if taken is None:
            return Held.FULL
        pop.taken = taken
        self._shares.add(group)
        if waiting is None:
            waiting = self._waiting[pop.key] = {}
            self._keys_at.setdefault((topic, queue_id), {})[pop.key] = None
        waiting[pop] = None
        if pop.retries:
            self._hold_for_retries(pop, (topic, group))
        self._deadlines.add(pop, pop.deadline_ms)
        return Held.YES

    def _hold_for_retries(self, pop: HeldPop, owner: Owner) -> None:
        waiting = self._for_retries.get(owner)
        if waiting is None:
            waiting = self._for_retries[owner] = OrderedDict()
            for name in _retry_topics(owner):
                self._owners_at.setdefault(name, {})[owner] = None
        waiting[pop] = None

    def arrived(self, neighbours: Iterable[Arrivals]) -> None:
        """Wake requests that wait for one of these messages."""
        if not self._waiting:
            return
        ready: list[HeldPop] = []
        served: set[Key] = set()
        retried: set[Owner] = set()
        for arrivals in neighbours:
            topic = arrivals.topic
            for owner in self._owners_at.get(topic, ()):
                if owner not in retried:
                    retried.add(owner)
                    self._choose_for_retries(owner, ready)
            for queue_id in (ANY_QUEUE, arrivals.queue_id):
                for key in self._keys_at.get((topic, queue_id), ()):
                    if key not in served and self._choose(key, arrivals.each(), ready):
                        served.add(key)
        self._resume(ready)

    def shown(self, topic: str, queue_id: int, messages: Callable[[], Iterable[Arrival] | None]) -> None:
        """Wake requests because messages of a queue can be read that were hidden.

        :param messages: reads the messages; None if they cannot be read at once: then filters do not count.
        """
        ready: list[HeldPop] = []
        for owner in self._owners_at.get(topic, ()):
            self._choose_for_retries(owner, ready)
        keys = [key for waited_for in (ANY_QUEUE, queue_id) for key in self._keys_at.get((topic, waited_for), ())]
        found = messages() if keys else None
        for key in keys:
            if found is None:
                self._mark(self._waiting[key], ready)
            else:
                self._choose(key, found, ready)
        self._resume(ready)

    def wake(self, topic: str, group: str, queue_id: int = ANY_QUEUE) -> None:
        """Wake a request that waits for a queue or for any queue, since there may be messages to pop."""
        self.woke(topic, group, queue_id)

    def woke(self, topic: str, group: str, queue_id: int = ANY_QUEUE) -> bool:
        """Wake one request like ``wake``; return whether any request waited."""
        ready: list[HeldPop] = []
        self._mark_first(self._waiting.get((topic, group, ANY_QUEUE), ()), ready)
        if queue_id != ANY_QUEUE:
            self._mark_first(self._waiting.get((topic, group, queue_id), ()), ready)
        if not ready:  # it may come again, which whoever waits for another queue is told of, too
            self._mark_first(self._for_retries.get((topic, group), ()), ready)
        for owner in self._owners_at.get(topic, ()):
            if owner[1] == group:
                self._mark_first(self._for_retries[owner], ready)
        self._resume(ready)
        return bool(ready)

    def tick(self) -> None:
        """End requests whose time is over, and drop those of closed connections; call this every ``TICK_MS``."""
        if self._look_pace.tick():
            self._forget_closed()
        while expired := self._deadlines.over():
            for pop in expired:
                pop.woken = True
            self._resume(expired, is_over=True)

    def _forget_closed(self) -> None:
        gone = [pop for waiting in self._waiting.values() for pop in waiting if pop.channel.closed and not pop.woken]
        for pop in gone:
            pop.woken = True
            self._let_go(pop)

    def end_all(self) -> None:
        """End every request, for a broker that stops."""
        everything = [pop for waiting in self._waiting.values() for pop in waiting]
        for pop in everything:
            pop.woken = True
            self._let_go(pop)
        for pop in everything:
            pop.resume(True)

    # -- who is chosen --------------------------------------------------------------------------------------

    def _choose(self, key: Key, messages: Iterable[Arrival], ready: list[HeldPop]) -> bool:
        """Mark the requests of a key that messages wake; return whether the key need not be tried again."""
        waiting: Iterable[HeldPop] = self._waiting[key]
        left: list[HeldPop] = []
        for message in messages:
            left = []
            for pop in waiting:
                if not self._is_here(pop):
                    continue
                if not self._accepts(pop.accepts, message):
                    left.append(pop)
                    continue
                pop.woken = True
                ready.append(pop)
                if not self._wakes_all:
                    return True
            if not left:
                break
            waiting = left
        return not left

    def _choose_for_retries(self, owner: Owner, ready: list[HeldPop]) -> None:
        """Mark the requests that redelivered messages wake, without regard to their filters."""
        self._mark(self._for_retries[owner], ready)

    def _mark(self, waiting: Iterable[HeldPop], ready: list[HeldPop]) -> None:
        """Mark the request that waits the longest, or all of them."""
        for pop in waiting:
            if self._is_here(pop):
                pop.woken = True
                ready.append(pop)
                if not self._wakes_all:
                    return

    def _mark_first(self, waiting: Iterable[HeldPop], ready: list[HeldPop]) -> None:
        """Mark the request that waits the longest."""
        for pop in waiting:
            if self._is_here(pop):
                pop.woken = True
                ready.append(pop)
                return

    def _is_here(self, pop: HeldPop) -> bool:
        """Return whether a request can be woken; a request of a closed connection is dropped after the look."""
        if pop.woken:
            return False
        if pop.channel.closed:
            pop.woken = True
            self._gone.append(pop)
            return False
        return True

    def _accepts(self, accepts: MessageFilter, message: Arrival) -> bool:
        """Return whether a message is for a pop; True also if no steps are left to find out."""
        if accepts.accepts_code is not None:
            if self._turns.is_spent:
                return True
            self._turns.spend(TAG_STEPS)
            if not accepts.accepts_code(message.tags_code):
                return False
        by_properties = accepts.by_properties
        return by_properties is None or self._turns.may_match(by_properties, message.message.property_map)

    # -- who is told ----------------------------------------------------------------------------------------

    def _resume(self, ready: list[HeldPop], *, is_over: bool = False) -> None:
        gone, self._gone = self._gone, []
        for pop in gone:
            self._let_go(pop)
        for pop in ready:
            self._let_go(pop)
        for pop in ready:
            if self._turns.is_spent:
                self._turns.resume(pop.channel, partial(self._tell, pop, is_over))
            else:
                self._tell(pop, is_over)

    def _tell(self, pop: HeldPop, is_over: bool) -> None:
        self._turns.spend(RESUME_STEPS)
        pop.resume(is_over)

    def _let_go(self, pop: HeldPop) -> None:
        topic, group, queue_id = pop.key
        self._shares.give_back(group)
        self._held_bytes.give_back(pop.taken)
        self._deadlines.remove(pop)
        waiting = self._waiting[pop.key]
        del waiting[pop]
        if not waiting:
            del self._waiting[pop.key]
            keys = self._keys_at[topic, queue_id]
            del keys[pop.key]
            if not keys:
                del self._keys_at[topic, queue_id]
        if pop.retries:
            self._let_go_of_retries(pop, (topic, group))

    def _let_go_of_retries(self, pop: HeldPop, owner: Owner) -> None:
        waiting = self._for_retries[owner]
        del waiting[pop]
        if waiting:
            return
        del self._for_retries[owner]
        for name in _retry_topics(owner):
            owners = self._owners_at[name]
            del owners[owner]
            if not owners:
                del self._owners_at[name]


def _retry_topics(owner: Owner) -> tuple[str, str]:
    """Return the topics in which messages are delivered again."""
    topic, group = owner
    return pop_retry_topic(topic, group, RETRY_V1), pop_retry_topic(topic, group, RETRY_V2)
