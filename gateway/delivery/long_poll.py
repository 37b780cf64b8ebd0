"""Held pulls: pull requests that found nothing and wait for a message or for their deadline.

A pull is held under its topic and queue, with the offset and the tags it waits for. A batch of new messages wakes each
queue once; a held pull that no message woke is resumed at its deadline. One message may wake all of 100,000 held pulls,
so one turn of the reactor resumes only a few. Upstream: ``PullRequestHoldService``, without its five-second re-checks:
this dispatcher misses no message, so re-checks are not needed.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from gateway.clock import Milliseconds
from gateway.delivery.deadlines import Deadlines, LookPace
from gateway.delivery.filters.message_filter import MessageFilter
from gateway.delivery.filters.turns import FilterTurns
from gateway.delivery.held_bytes import NOTHING, TakenBytes, WaitingBytes
from gateway.store.reading.hidden_queues import ShownQueue

LONGEST_HOLD_MS = 120_000
"""The longest time in milliseconds that a pull is held, even if it asks for more; stock clients ask for 15 to 30 s."""
TICK_MS = 250
"""The milliseconds between two checks of deadlines: a held pull is resumed late by at most this much."""

RESUME_STEPS = 250
"""The steps of a pull that is resumed, in addition to its filter's: one turn has steps for 240 pulls."""

FREE_STEPS = 100
"""The steps that the tags of one queue's messages may cost beyond those of a turn: most queues have few pulls."""

LOOKS_PER_STEP = 8
"""The pulls that are looked at for one step; asking a filter for a tag is one step, too."""

QueueKey = tuple[str, int]


class HasProperties(Protocol):
    """A message with its properties."""

    @property
    def property_map(self) -> Mapping[str, str]: ...  # noqa: D102


class Arrival(Protocol):
    """The part of a newly dispatched message that held pulls use."""

    topic: str
    queue_id: int
    queue_offset: int
    tags_code: int

    @property
    def message(self) -> HasProperties: ...  # noqa: D102


class Arrivals(Protocol):
    """The part of newly dispatched neighbours of one queue that held pulls use."""

    topic: str
    queue_id: int

    def each(self) -> Iterable[Arrival]:
        """Return the messages, in order."""


class HeldPull:
    """One waiting pull request. A plain class for speed: thousands are made and dropped a second."""

    __slots__ = (
        "accepts",
        "characters",
        "deadline_ms",
        "key",
        "next_offset",
        "owner",
        "resume",
        "taken",
        "tick",
        "woken",
    )

    def __init__(
        self,
        next_offset: int,
        accepts: MessageFilter,
        deadline_ms: int,
        resume: Callable[[], None],
        owner: object = None,
        characters: int = 0,
    ) -> None:
        self.owner = owner
        self.characters = characters
        """The number of characters in the texts that the pull keeps in memory."""
        self.next_offset = next_offset
        self.accepts = accepts
        self.deadline_ms = deadline_ms
        self.resume = resume
        self.key: QueueKey = ("", 0)
        """The topic and the queue id of the queue for which the pull is held."""
        self.taken: TakenBytes = NOTHING
        self.tick = 0
        self.woken = False


class HeldPulls:
    """All held pulls of a broker.

    :param turns: the turns of filters and of resumed pulls. A pull whose filter has no steps left is resumed, and
        checks for messages itself in a later turn.
    :param held_bytes: counts what all held requests keep.
    :param limit: how many pulls may wait; one more is refused and answered at once.
    :param owner_limit: how many pulls of one owner may wait; the owner is the connection.
    """

    def __init__(
        self,
        clock: Milliseconds,
        turns: FilterTurns,
        held_bytes: WaitingBytes,
        limit: int,
        owner_limit: int | None = None,
    ) -> None:
        self._turns = turns
        self._limit = limit
        self._owner_limit = limit if owner_limit is None else owner_limit
        self._of_owner: dict[object, int] = {}
        self._held_bytes = held_bytes
        self._by_queue: dict[QueueKey, list[HeldPull]] = {}
        self._deadlines: Deadlines[HeldPull] = Deadlines(clock, TICK_MS)
        self._count = 0
        self._look_pace = LookPace(TICK_MS)
        self._has_looked = False
        """True if closed connections were searched for at the limit since the last search at a tick."""

    def __len__(self) -> int:
        return self._count

    def hold(self, topic: str, queue_id: int, pull: HeldPull) -> bool:
        """Keep a pull until it is woken; return False if a limit is reached."""
        if self._count >= self._limit and not self._has_looked:
            self._has_looked = True
            self._forget_closed()
        owned = self._of_owner.get(pull.owner, 0)
        if self._count >= self._limit or owned >= self._owner_limit:
            return False
        taken = self._held_bytes.take(pull.owner, pull.accepts, pull.characters)
        if taken is None:
            return False
        pull.taken = taken
        self._of_owner[pull.owner] = owned + 1
        key = (topic, queue_id)
        waiting = self._by_queue.get(key)
        if waiting is None:
            pull.key = key
            self._by_queue[key] = [pull]
        else:
            pull.key = waiting[0].key  # one key for all
            waiting.append(pull)
        self._deadlines.add(pull, pull.deadline_ms)
        self._count += 1
        return True

    def arrived(self, neighbours: Iterable[Arrivals]) -> None:
        """Resume the pulls that wait for one of these messages, each once."""
        held = self._by_queue
        if not held:
            return
        ready: list[HeldPull] = []
        touched: set[QueueKey] = set()
        for arrivals in neighbours:
            key = (arrivals.topic, arrivals.queue_id)
            waiting = held.get(key)
            if waiting is None:
                continue
            sleeping = [pull for pull in waiting if not pull.woken]
            if sleeping and _choose(sleeping, arrivals, ready, self._turns):
                touched.add(key)
        self._resume(ready, touched)

    def wake(self, topic: str, queue_id: int) -> None:
        """Resume every pull that waits at a queue, because the answer to a pull from the queue has changed."""
        key = (topic, queue_id)
        waiting = [pull for pull in self._by_queue.get(key, ()) if not pull.woken]
        for pull in waiting:
            pull.woken = True
        self._resume(waiting, {key})

    def shown(self, queues: Iterable[ShownQueue]) -> None:
        """Resume the pulls that wait for messages which readers see from now on."""
        ready: list[HeldPull] = []
        touched: set[QueueKey] = set()
        for topic, queue_id, _, end in queues if self._by_queue else ():
            key = (topic, queue_id)
            for pull in self._by_queue.get(key, ()):
                if not pull.woken and pull.next_offset < end:
                    pull.woken = True
                    ready.append(pull)
                    touched.add(key)
        self._resume(ready, touched)

    def wake_topic(self, topic: str) -> None:
        """Resume every pull that waits at a queue of a topic, because the topic was deleted."""
        for queue in [queue for queue in self._by_queue if queue[0] == topic]:
            self.wake(*queue)

    def tick(self) -> None:
        """Resume the pulls whose time is over, and drop those of closed connections; call this every ``TICK_MS``."""
        if self._look_pace.tick():
            self._has_looked = False
            self._forget_closed()
        while expired := self._deadlines.over():
            for pull in expired:
                pull.woken = True
            self._resume(expired, {pull.key for pull in expired})

    def resume_all(self) -> None:
        """Resume every pull, for a broker that stops."""
        everything = [pull for waiting in self._by_queue.values() for pull in waiting]
        for pull in everything:
            pull.woken = True
        self._take_out(everything, set(self._by_queue))
        for pull in everything:
            self._tell(pull)

    def _resume(self, ready: list[HeldPull], touched: set[QueueKey]) -> None:
        """Resume as many of the woken pulls as this turn has steps for; other pulls have their turn later."""
        self._take_out(ready, touched)
        turns = self._turns
        for pull in ready:
            if turns.is_spent:
                turns.resume(pull.owner, partial(self._tell, pull))
            else:
                self._tell(pull)

    def _take_out(self, ready: list[HeldPull], touched: set[QueueKey]) -> None:
        for key in touched:
            still = [pull for pull in self._by_queue.pop(key, ()) if not pull.woken]
            if still:
                self._by_queue[key] = still
        for pull in ready:
            self._deadlines.remove(pull)

    def _forget_closed(self) -> None:
        """Drop the pulls of closed connections: they cannot be answered, and other pulls may be held in their place."""
        for owner in self._of_owner:
            if getattr(owner, "closed", False):
                break
        else:
            return
        gone = [
            pull
            for waiting in self._by_queue.values()
            for pull in waiting
            if not pull.woken and getattr(pull.owner, "closed", False)
        ]
        for pull in gone:
            pull.woken = True
        self._take_out(gone, {pull.key for pull in gone})
        for pull in gone:
            self._let_go(pull)

    def _tell(self, pull: HeldPull) -> None:
        """Resume a pull, which counts as held until now.

        So a peer cannot make more and more pulls wait for their turn.
        """
        self._let_go(pull)
        self._turns.spend(RESUME_STEPS)
        pull.resume()

    def _let_go(self, pull: HeldPull) -> None:
        self._count -= 1
        of_owner, owner = self._of_owner, pull.owner
        owned = of_owner[owner] - 1
        if owned:
            of_owner[owner] = owned
        else:
            del of_owner[owner]
        self._held_bytes.give_back(pull.taken)


def _choose(sleeping: list[HeldPull], arrivals: Arrivals, ready: list[HeldPull], turns: FilterTurns) -> bool:
    """Mark the pulls that one of these messages wakes; return whether there are any.

    A pull for which tags alone decide is asked once for each tags code. Questions cost steps. If a turn has no steps
    left, all are woken, and look for messages themselves.
    """
    before = len(ready)
    codes: set[int] = set()
    steps = 0
    by_code: list[HeldPull] = []
    by_message: list[HeldPull] = []
    for message in arrivals.each():
        if not codes:  # the first message
            for pull in sleeping:
                decided = pull.accepts.by_properties is None and pull.next_offset <= message.queue_offset
                (by_code if decided else by_message).append(pull)
        if by_message:
            by_message, more = _asked(by_message, message, ready, turns, pays=steps >= FREE_STEPS)
            steps += more
        if message.tags_code not in codes:
            codes.add(message.tags_code)
            by_code, more = _asked(by_code, message, ready, turns, pays=steps >= FREE_STEPS)
            steps += more
        if not by_code and not by_message:
            break
    return len(ready) > before


def _asked(
    pulls: list[HeldPull], message: Arrival, ready: list[HeldPull], turns: FilterTurns, *, pays: bool
) -> tuple[list[HeldPull], int]:
    """Mark the pulls that a message wakes; return those that sleep on, and how many steps it took.

    :param pays: whether all pulls are woken if the turn has no steps left.
    """
    if pays and turns.is_spent:
        for pull in pulls:
            pull.woken = True
        ready.extend(pulls)
        return [], 0
    left: list[HeldPull] = []
    last: Callable[[int], bool] | None = None
    is_wanted = True
    steps = len(pulls) // LOOKS_PER_STEP
    for pull in pulls:
        accepts = pull.accepts
        by_code = accepts.accepts_code
        if by_code is not None and by_code is not last:  # neighbours often have the same filter
            last, is_wanted = by_code, by_code(message.tags_code)
            steps += 1
        if message.queue_offset < pull.next_offset or (by_code is not None and not is_wanted):
            left.append(pull)
            continue
        by_properties = accepts.by_properties
        if by_properties is not None and not turns.may_match(by_properties, message.message.property_map):
            left.append(pull)
            continue
        pull.woken = True
        ready.append(pull)
    turns.spend(steps)
    return left, steps
