"""What was promised up to a moment: the oracle's side of the story. Facts are added while a workload runs, each at a
position of the disk's log, and told again as crash images move along that log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from wire.bodies.topics import TopicConfig

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
    """What a producer asked for."""

    COMMIT = "commit"
    ROLL_BACK = "rollback"


@dataclass(slots=True)
class Half:
    """A half message that its producer knows to be stored.

    :param final: topic and queue of the message it becomes.
    :param told_at: the end of the log when the producer was told the outcome; −1 as long as it was not.
    """

    shown: Shown
    final: QueueName
    asked: Outcome | None = None
    told_at: int = -1


@dataclass(slots=True)
class Ledger:
    """Facts up to a moment.

    :param allowed: bodies that may be read from a queue: what was sent there, or may have been committed.
    :param shown: by queue and offset.
    :param deleting: retention may have removed what lies below this offset of the log.
    :param flushed: the highest offset of the log that was reported as on disk.
    :param offsets: consumer offsets as memory has them; ``saved_offsets`` were reported as on disk.
    :param topics: every version of a topic so far; ``saved_topics``: the number of its version known to be on disk.
    """

    now_ms: int
    allowed: dict[QueueName, set[bytes]] = field(default_factory=dict)
    shown: dict[QueueName, dict[int, Shown]] = field(default_factory=dict)
    halves: dict[int, Half] = field(default_factory=dict)
    deleting: int = 0
    flushed: int = 0
    offsets: dict[OffsetKey, int] = field(default_factory=dict)
    saved_offsets: dict[OffsetKey, int] = field(default_factory=dict)
    topics: dict[str, list[TopicConfig]] = field(default_factory=dict)
    saved_topics: dict[str, int] = field(default_factory=dict)

    def allow(self, queue: QueueName, body: bytes) -> None:
        """A message is on its way to a queue."""
        self.allowed.setdefault(queue, set()).add(body)

    def show(self, queue: QueueName, offset: int, shown: Shown) -> None:
        """Somebody knows now that a message is there."""
        self.shown.setdefault(queue, {})[offset] = shown

    def ask(self, offset: int, outcome: Outcome) -> None:
        """A producer asked for an outcome; the first one counts."""
        half = self.halves[offset]
        if half.asked is None:
            half.asked = outcome
            if outcome is Outcome.COMMIT:
                self.allow(half.final, half.shown.body)

    def tell(self, offset: int, log_end: int) -> None:
        """A producer was told that its outcome counts."""
        self.halves[offset].told_at = log_end

    def add_topic(self, config: TopicConfig) -> None:
        """A topic was made or changed in memory."""
        self.topics.setdefault(config.topic_name, []).append(config)

    def save_topics(self, versions: dict[str, int]) -> None:
        """The topics are on disk, with these numbers of versions or later ones."""
        for name, version in versions.items():
            self.saved_topics[name] = max(version, self.saved_topics.get(name, 0))

    def save_offsets(self, offsets: dict[OffsetKey, int]) -> None:
        """Consumer offsets are on disk, these or later ones."""
        for key, offset in offsets.items():
            self.saved_offsets[key] = max(offset, self.saved_offsets.get(key, 0))


Fact = Callable[[Ledger], None]
