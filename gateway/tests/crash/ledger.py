"""What was promised up to a moment: the oracle's side of the story. Facts are added while a workload runs, each at a
position of the disk's log, and told again as crash images move along that log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from gateway.metadata.names import WHEEL_TIMER_TOPIC
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig

Key = TypeVar("Key")
Value = TypeVar("Value")
QueueName = tuple[str, int]
OffsetKey = tuple[str, str, int]
"""Group, topic, queue."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message that somebody was told of: its sender that it is stored, or a reader its content.

    :param end: the offset of the log after it.
    """

    body: bytes
    place: int
    end: int
    key: str


class Outcome(Enum):
    """The outcome that a producer asked for."""

    COMMIT = "commit"
    ROLL_BACK = "rollback"


@dataclass(slots=True)
class Half:
    """A half message that its producer knows to be stored.

    :param final: topic and queue of the message it becomes.
    :param asked: the outcome that counts, if none is refused.
    :param told_at: the end of the log when the producer was told the outcome; −1 as long as it was not.
    :param open_asks: outcomes that are not answered.
    """

    shown: Shown
    final: QueueName
    asked: Outcome | None = None
    told_at: int = -1
    open_asks: list[Outcome] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A delayed message whose sender knows that it is stored.

    :param final: topic and queue to which it is delivered.
    """

    shown: Shown
    final: QueueName


class Table(Generic[Key, Value]):
    """Every value that each key of a table had, the last one being that in memory; None for a removed one.

    :param saved: the number of the key's value that is known to be on disk, or a later one; without one it may be that
        nothing of the key is there.
    """

    __slots__ = ("saved", "values")

    def __init__(self) -> None:
        self.values: dict[Key, list[Value | None]] = {}
        self.saved: dict[Key, int] = {}

    def add(self, key: Key, value: Value | None) -> None:
        """A new value in memory."""
        self.values.setdefault(key, []).append(value)

    def last(self, key: Key) -> Value | None:
        """The value in memory."""
        return self.values[key][-1] if key in self.values else None

    def numbers(self) -> dict[Key, int]:
        """Return the numbers of the values in memory, which a write that starts now brings to the disk."""
        return {key: len(values) - 1 for key, values in self.values.items()}

    def save(self, numbers: Mapping[Key, int]) -> None:
        """Note that these values, or later ones, are on disk."""
        for key, number in numbers.items():
            self.saved[key] = max(number, self.saved.get(key, 0))

    def start_from(self, key: Key, value: Value | None) -> None:
        """The only value that counts."""
        self.values[key], self.saved[key] = [value], 0

    def allowed(self, key: Key) -> list[Value | None]:
        """Return the values that may be there after a crash."""
        values = self.values.get(key, [])
        return values[self.saved[key] :] if key in self.saved else [None, *values]


@dataclass(slots=True)
class Ledger:
    """Facts up to a moment.

    :param allowed: bodies that may be read from a queue: what was sent there, or may have been committed.
    :param shown: by queue and offset.
    :param deleting: retention may have removed what lies below this offset of the log.
    :param flushed: the highest offset of the log that was reported as on disk.
    :param offsets: of consumers.
    :param waiting: delayed messages by queue and offset of the schedule topic; they may be delivered more than once.
    :param timers: timer messages by offset of their topic's queue; they are delivered once.
    :param cut: while the log is being cut, the messages that are all there or all gone.
    :param cut_waiting: while the log is being cut, the bodies of delayed messages that the cut takes away; as long as
        the log is the old one, it has each as often as it was delivered before.
    :param taken_back: bodies of timer messages that somebody asked to take back, each with the end of the marker when
        the answer came before its time; −1 otherwise.
    """

    now_ms: int
    allowed: dict[QueueName, set[bytes]] = field(default_factory=dict)
    shown: dict[QueueName, dict[int, Shown]] = field(default_factory=dict)
    halves: dict[int, Half] = field(default_factory=dict)
    deleting: int = 0
    flushed: int = 0
    offsets: Table[OffsetKey, int] = field(default_factory=Table)
    topics: Table[str, TopicConfig] = field(default_factory=Table)
    groups: Table[str, SubscriptionGroupConfig] = field(default_factory=Table)
    waiting: dict[tuple[int, int], Waiting] = field(default_factory=dict)
    timers: dict[int, Waiting] = field(default_factory=dict)
    taken_back: dict[bytes, int] = field(default_factory=dict)
    cut: list[tuple[QueueName, Shown]] = field(default_factory=list)
    cut_waiting: set[bytes] = field(default_factory=set)

    def allow(self, queue: QueueName, body: bytes) -> None:
        """A message is on its way to a queue."""
        self.allowed.setdefault(queue, set()).add(body)

    def show(self, queue: QueueName, offset: int, shown: Shown) -> None:
        """Somebody knows now that a message is there."""
        self.shown.setdefault(queue, {})[offset] = shown

    def ask(self, offset: int, outcome: Outcome) -> None:
        """A producer asked for an outcome; the first one counts."""
        half = self.halves[offset]
        half.open_asks.append(outcome)
        if half.asked is None:
            self._decide(half)

    def _decide(self, half: Half) -> None:
        half.asked = half.open_asks[0] if half.open_asks else None
        if half.asked is Outcome.COMMIT:
            self.allow(half.final, half.shown.body)

    def tell(self, offset: int, outcome: Outcome, log_end: int) -> None:
        """A producer was told that its outcome counts."""
        half = self.halves[offset]
        half.open_asks.remove(outcome)
        half.told_at = log_end

    def refuse(self, offset: int, outcome: Outcome) -> None:
        """A producer was told that its outcome was not taken: another one came first, or the disk was full."""
        half = self.halves[offset]
        half.open_asks.remove(outcome)
        if half.told_at < 0 and half.asked is outcome:
            self._decide(half)

    def delay(self, queue_id: int, offset: int, waiting: Waiting) -> None:
        """A delayed message is stored."""
        self.waiting[queue_id, offset] = waiting

    def wait_for_time(self, offset: int, waiting: Waiting) -> None:
        """A timer message is stored."""
        self.timers[offset] = waiting

    def take_back(self, body: bytes, marker_end: int = -1) -> None:
        """A timer message may not be delivered any more, or must not be."""
        self.taken_back[body] = marker_end

    def begin_deletion(self, topic: str) -> None:
        """Messages of a topic may be gone from now on, or come back until the deletion is done."""
        for queue in [queue for queue in self.shown if queue[0] == topic]:
            del self.shown[queue]

    def end_deletion(self, bodies: Mapping[QueueName, frozenset[bytes]]) -> None:
        """Note that the files are gone for good."""
        for queue, gone in bodies.items():
            self.allowed[queue] -= gone

    def begin_cut(self, offset: int) -> None:
        """Nothing at or above an offset of the log is promised any more."""
        for queue, messages in self.shown.items():
            for number in [number for number, shown in messages.items() if shown.end > offset]:
                self.cut.append((queue, messages.pop(number)))
        self.halves = {number: half for number, half in self.halves.items() if half.shown.end <= offset}
        for half in self.halves.values():
            half.told_at = half.told_at if half.told_at <= offset else -1
        for key in [key for key, waiting in self.waiting.items() if waiting.shown.end > offset]:
            self.cut_waiting.add(self.waiting.pop(key).shown.body)
        self.timers = {key: waiting for key, waiting in self.timers.items() if waiting.shown.end <= offset}
        self.taken_back = {body: end if end <= offset else -1 for body, end in self.taken_back.items()}
        self.flushed = min(self.flushed, offset)

    def end_cut(self) -> None:
        """What was cut does not come back."""
        for queue, shown in self.cut:
            self.allowed.get(queue, set()).discard(shown.body)
        self.cut.clear()
        self.cut_waiting.clear()
        for half in self.halves.values():
            if half.asked is Outcome.COMMIT:
                self.allow(half.final, half.shown.body)
        for waiting in (*self.waiting.values(), *self.timers.values()):
            self.allow(waiting.final, waiting.shown.body)
        for waiting in self.timers.values():  # one that waits for long is stored again now and then
            self.allow((WHEEL_TIMER_TOPIC, 0), waiting.shown.body)


Fact = Callable[[Ledger], None]
