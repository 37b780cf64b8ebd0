"""The difference between deleted queues and queues that were not written yet, in a directory of another broker.

The gateway notes which topics it deleted (``deleted_topics``) and which queues exist (``queue_ends``). Apache RocketMQ
notes nothing: it removes the files of a deleted topic's queues, and their messages stay in the log. A queue without a
message in its files was either deleted, or its first units were never written. The following proves a deletion, the
surest proof first:

- the table of topics does not name the topic;
- the broker was stopped properly: it stops only after every message has its unit;
- the topic was made again: a queue of it starts at 0 once more. The messages of the topic before the last message of
  that queue's earlier life were deleted with the queue; later messages may be of the new topic.

Without such a proof the queue is made again: better a message of a deleted topic than a lost message. Nothing else
counts as a proof. A power failure takes the units of one queue and leaves later units of another queue. A directory
that was copied, or whose disk was moved to another machine, does not say how its broker ended.

If no queue has a message, somebody removed the queues so that they are made again: then only the table counts.
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
"""An offset beyond the end of any log."""
NOTHING = -1
_NOT_IN_TABLES = (LIGHT_QUEUE_PREFIX, "rmq_sys_")
"""The prefixes of topics that have a queue although the table of topics need not name them."""


@dataclass(frozen=True, slots=True)
class EarlierLives:
    """The knowledge about deletions that nobody noted.

    :param complete_to: below this offset of the log, a message without a unit was deleted.
    :param topics: the existing topics; None if they are unknown.
    :param by_next_life: True if a topic that was made again proves that earlier messages were deleted.
    """

    complete_to: int
    topics: Container[str] | None
    by_next_life: bool

    @classmethod
    def of_another_broker(
        cls, files: FileLayer, paths: StorePaths, covered_end: int, topics: Container[str] | None
    ) -> EarlierLives:
        """Judge a directory that another broker served last.

        :param covered_end: the log offset after the last message that any queue has; −1 if no queue has one.
        """
        if covered_end < 0:
            return cls(NOTHING, topics, by_next_life=False)
        return cls(NOTHING if files.exists(paths.abort) else EVERYTHING, topics, by_next_life=True)

    def hides(self, topic: str, position: int, ended: int) -> bool:
        """Return whether the messages of a queue without any message in its files were deleted.

        :param position: the log offset of the first of these messages.
        :param ended: below this offset of the log are messages of earlier lives of the topic, see ``ended_lives``.
        """
        if position < self.complete_to:
            return True
        if self.topics is not None and topic not in self.topics and not topic.startswith(_NOT_IN_TABLES):
            return True
        return self.by_next_life and position < ended


def is_of_another_broker(checkpoint: CheckpointFile, files: FileLayer, paths: StorePaths) -> bool:
    """Return whether another broker served the directory last, and may have deleted topics without a note.

    :param checkpoint: the loaded checkpoint.
    """
    return checkpoint.is_foreign or (checkpoint.marks is None and not files.exists(paths.queue_ends))


def ended_lives(queues: Iterable[CollectedUnits]) -> dict[str, int]:
    """Return for each topic the log offset below which its messages were deleted for certain.

    The last of these messages belongs to a queue that starts at 0 once more.
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
