"""Tells messages of deleted queues from messages that wait for their queue, in a directory of another broker.

The gateway notes which topics it deleted (``deleted_topics``) and which queues there are (``queue_ends``). Apache
RocketMQ notes nothing: it removes the files of a deleted topic's queues, and their messages stay in the log. A queue
without a message in its files is one that was deleted, or one whose first units were not written any more. What tells
them apart, the surest first:

- the table of topics does not name the topic;
- the broker was stopped properly: it stops only after every message has its unit;
- the topic was made again: a queue of it begins at 0 once more, so what the log has before that queue's last message of
  before was deleted with it. What comes later may be of the new topic.

Without such a proof the queue is made again: rather a message of a deleted topic than one that is lost. Nothing else
counts. A power failure takes the units of one queue and leaves later ones of another, and a directory that was copied,
or whose disk was moved to another machine, does not say which kind of end its broker came to.

Where no queue has a message, somebody removed the queues to have them made again: then only the table counts.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.durability.checkpoint import CheckpointFile
from wire.disk.consume_queue import UNIT, UNIT_BYTES
from wire.disk.unit_collector import CollectedUnits
from wire.message.light_queues import LIGHT_QUEUE_PREFIX

EVERYTHING = 1 << 63
"""Beyond the end of any log."""
NOTHING = -1
_NOT_IN_TABLES = (LIGHT_QUEUE_PREFIX, "rmq_sys_")
"""Names with a queue that no table of topics has to name."""


@dataclass(frozen=True, slots=True)
class EarlierLives:
    """What is known of deletions that nobody noted.

    :param complete_to: below this offset of the log a message without a unit was deleted.
    :param topics: the topics there are; None when nobody knows.
    :param by_next_life: whether a topic made again shows that what came before was deleted.
    """

    complete_to: int
    topics: Container[str] | None
    by_next_life: bool

    @classmethod
    def of_another_broker(
        cls, files: FileLayer, paths: StorePaths, covered_end: int, topics: Container[str] | None
    ) -> EarlierLives:
        """Judge a directory that another broker served last.

        :param covered_end: the log offset after the last message that any queue has; −1 when none has one.
        """
        if covered_end < 0:
            return cls(NOTHING, topics, by_next_life=False)
        return cls(NOTHING if files.exists(paths.abort) else EVERYTHING, topics, by_next_life=True)

    def hides(self, topic: str, position: int, ended: int) -> bool:
        """Whether the messages of a queue that has none in its files were deleted.

        :param position: the log offset of the first of them.
        :param ended: below this offset of the log are messages of lives of the topic that ended, see ``ended_lives``.
        """
        if position < self.complete_to:
            return True
        if self.topics is not None and topic not in self.topics and not topic.startswith(_NOT_IN_TABLES):
            return True
        return self.by_next_life and position < ended


def is_of_another_broker(checkpoint: CheckpointFile, files: FileLayer, paths: StorePaths) -> bool:
    """Whether another broker served the directory last: it may have deleted topics, and noted nothing.

    :param checkpoint: loaded.
    """
    return checkpoint.is_foreign or (checkpoint.marks is None and not files.exists(paths.queue_ends))


def ended_lives(queues: Iterable[CollectedUnits]) -> dict[str, int]:
    """Topic to the log offset below which its messages were deleted for certain: the queue of the last of them begins
    at 0 once more.
    """
    found: dict[str, int] = {}
    for queue in queues:
        expected = 0
        for number, (first, units) in enumerate(queue.runs):
            following = queue.runs[number + 1][0] if number + 1 < len(queue.runs) else None
            is_stray = len(units) == UNIT_BYTES and following == expected + 1 != 1
            if first == 0 < expected and not is_stray:
                before = queue.runs[number - 1][1]
                ended = UNIT.unpack_from(before, len(before) - UNIT_BYTES)[0] + 1
                found[queue.topic] = max(found.get(queue.topic, NOTHING), ended)
            expected = first + len(units) // UNIT_BYTES
    return found
