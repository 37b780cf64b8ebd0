"""The traces of deleted topics and queues in a directory: the same as the next server that opens it finds.

noted      in ``gateway-deleted``, and by the names of what a killed server left in ``deleted``
not noted  a queue that has no message in its files: it was deleted, or it lost its files, or a killed server
           had its units in memory. The list of queues decides; in a directory of another broker,
           ``earlier_lives`` does
"""

from __future__ import annotations

from gateway.metadata.names import SYSTEM_TOPICS
from gateway.store.disk.files import EntryKind
from gateway.store.durability.checkpoint import CheckpointFile
from gateway.store.queues.deleted_topics import DeletedTopics, QueueName
from gateway.store.queues.queue_ends import QueueEnds
from gateway.store.queues.queue_journal import QueueJournal
from gateway.store.queues.queues_away import QueuesAway
from gateway.store.recovery.earlier_lives import NOTHING, EarlierLives, is_of_another_broker
from gateway.store_tool.files.directory import ReadOnlyFiles, StoreDirectory


def noted_deletions(directory: StoreDirectory) -> tuple[DeletedTopics, str | None]:
    """Return the deletions that the directory notes, and a remark if their file cannot be read."""
    files = ReadOnlyFiles()
    paths = directory.paths
    deleted = DeletedTopics(files, paths)
    # What is of another kind has a finding of its own, and tells of no deletion.
    remark = deleted.load() if files.kind(paths.deleted_topics) is EntryKind.FILE else None
    if files.kind(paths.deleted) is EntryKind.DIRECTORY:
        deleted.note_earlier(QueuesAway(files, paths).topics())
    return deleted, remark


class EmptyQueues:
    """Judge queues that have no message in their files.

    :param covered_end: the log offset after the last message that any queue has; −1 if no queue has one.
    :param topics: the topics of the table; None if not known.
    :ivar another: True if another broker served the directory last.
    """

    def __init__(self, directory: StoreDirectory, covered_end: int, topics: frozenset[str] | None) -> None:
        files, paths = ReadOnlyFiles(), directory.paths
        checkpoint = CheckpointFile(files, paths)
        if paths.checkpoint.is_file():
            checkpoint.load()
            checkpoint.close()
        self.another = is_of_another_broker(checkpoint, files, paths)
        self._listed: frozenset[QueueName] = frozenset()
        if self.another:
            known = None if topics is None else SYSTEM_TOPICS.union(topics)
            self._lives = EarlierLives.of_another_broker(files, paths, covered_end, known)
            return
        # Not the table of topics: after a kill it may be older than the queues.
        ends = QueueJournal(files, paths).load() if paths.queue_ends.is_file() else QueueEnds()
        marks = checkpoint.marks
        self._lives = EarlierLives(
            max(ends.log_end, NOTHING if marks is None else marks.queues), None, by_next_life=False
        )
        self._listed = frozenset((topic, queue_id) for topic, queue_id, end in ends if end > 0)

    def were_deleted(self, name: QueueName, position: int, ended: int = NOTHING) -> bool:
        """Return whether the log's messages of a queue, none of which is in its files, are hidden on purpose.

        :param position: the log offset of the first of these messages.
        :param ended: the log offset below which messages belong to earlier lives of the topic, which have ended.
        """
        return name not in self._listed and self._lives.hides(name[0], position, ended)
