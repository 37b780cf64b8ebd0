"""The messages of the log that belong to deleted topics or queues: the log itself does not say.

Without this list, a recovery that reads messages from before a deletion would bring the topic back. The gateway keeps a
small file: one line for each topic with the commit log offset below which its messages are gone, or a line for one
queue of a topic, and a checksum over all lines. The file is synced before the queues are removed, and before a
checkpoint says that all queues are on disk, because the queues of a deleted topic may never have got there. Entries
that lie before the start of the log are forgotten.

    #1 <crc32 of the lines>
    topic <tab> offset
    topic <tab> offset <tab> queue id

The gateway deletes whole topics. Lines of single queues come from directories of another broker, which does not note
its deletions (``earlier_lives``). They also come from ``store repair`` and ``store import``, which read the whole log.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from threading import Lock
from typing import TypeAlias

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.disk.small_files import replace_file

QueueName: TypeAlias = tuple[str, int]

_HEAD = "#1 "
MAX_TOPICS = 100_000
"""The most deletions remembered, of topics and as many of queues; deletions lowest in the log are forgotten first."""
MAX_BYTES = 64 << 20
"""The largest file in bytes that is read: a file with ``MAX_TOPICS`` entries takes half as many."""


class DeletedTopics:
    """The file and its content; any thread may note and save.

    A file that cannot be read counts as empty: at worst a deleted topic comes back, but no message is lost.
    """

    def __init__(self, files: FileLayer, paths: StorePaths) -> None:
        self._files = files
        self._paths = paths
        self._lock = Lock()
        self._saving = Lock()
        self._offsets: dict[str, int] = {}
        self._queues: dict[QueueName, int] = {}
        self._is_saved = True

    @property
    def offsets(self) -> Mapping[str, int]:
        """The commit log offset, for each topic, from which on messages belong to a topic made again."""
        return self._offsets

    @property
    def queues(self) -> Mapping[QueueName, int]:
        """The commit log offset, for each single queue, from which on messages belong to a queue made again."""
        return self._queues

    def not_below(self, topic: str, queue_id: int) -> int:
        """Return the commit log offset below which the messages of a queue are gone; 0 if none are."""
        return max(self._offsets.get(topic, 0), self._queues.get((topic, queue_id), 0))

    def load(self) -> str | None:
        """Read the file; return a remark if the file exists and is unreadable, otherwise None."""
        files, path = self._files, self._paths.deleted_topics
        if not files.exists(path):
            return None
        fd = files.open(path)
        try:
            size = files.size(fd)
            data = files.pread(fd, min(size, MAX_BYTES), 0)
        finally:
            files.close(fd)
        try:
            if size > MAX_BYTES:
                raise ValueError(f"it has {size} bytes, the limit is {MAX_BYTES}")
            self._offsets, self._queues = _parse(data)
        except ValueError as error:
            return f"{path} is not used ({error}): messages of topics deleted just before may come back"
        return None

    def note(self, topic: str, log_end: int) -> None:
        """Note that all messages of a topic below an offset are gone; in memory until the next ``save``.

        :param log_end: the end of what is stored; never more, or messages of a topic made again would count as old
            ones.
        """
        with self._lock:
            self._offsets[topic] = log_end
            self._is_saved = False

    def note_queue(self, topic: str, queue_id: int, log_end: int) -> None:
        """Note that all messages of a queue below an offset are gone; in memory until the next ``save``."""
        with self._lock:
            if log_end > self.not_below(topic, queue_id):
                self._queues[topic, queue_id] = log_end
                self._is_saved = False

    def note_earlier(self, topics: Mapping[str, int]) -> None:
        """Note deletions that are told late, as one that a crash interrupted; in memory until the next ``save``.

        Such a deletion counts unless a later deletion of the topic is noted.
        """
        for topic, log_end in topics.items():
            # Messages after ``log_end`` are of a new topic of this name; a noted lower offset is of an older deletion.
            if log_end > self._offsets.get(topic, -1):
                self.note(topic, log_end)

    def take_back(self, topic: str, before: int | None) -> None:
        """Note that a topic was not deleted after all.

        :param before: the log offset of an earlier deletion, which is valid again; None if there was no earlier
            deletion.
        """
        with self._lock:
            if before is None:
                self._offsets.pop(topic, None)
            else:
                self._offsets[topic] = before
            self._is_saved = False

    def save(self) -> None:
        """Return when all notes are on disk; blocks.

        :raises OSError: the file could not be written; may be repeated.
        """
        with self._saving:
            with self._lock:
                if self._is_saved:
                    return
                for topic in sorted(self._offsets, key=self._offsets.__getitem__)[:-MAX_TOPICS]:
                    del self._offsets[topic]
                for name in sorted(self._queues, key=self._queues.__getitem__)[:-MAX_TOPICS]:
                    del self._queues[name]
                content, self._is_saved = _build(self._offsets, self._queues), True
            try:
                replace_file(self._files, self._paths.deleted_topics, content)
            except OSError:
                self._is_saved = False
                raise

    def trim(self, log_min: int, log_end: int) -> None:
        """Forget deletions outside the log; on disk when the method returns.

        A deletion in the part that the log lost at its end must not count for messages that are written there next.

        :raises OSError: the file could not be written.
        """
        with self._lock:
            topics = {topic: min(end, log_end) for topic, end in self._offsets.items() if min(end, log_end) > log_min}
            queues = {name: min(end, log_end) for name, end in self._queues.items() if min(end, log_end) > log_min}
            if topics != self._offsets or queues != self._queues:
                self._offsets, self._queues, self._is_saved = topics, queues, False
        self.save()


def _build(offsets: Mapping[str, int], queues: Mapping[QueueName, int]) -> bytes:
    rows = [f"{topic}\t{offset}\n" for topic, offset in offsets.items()]
    rows += [f"{topic}\t{offset}\t{queue_id}\n" for (topic, queue_id), offset in queues.items()]
    lines = "".join(rows).encode()
    return f"{_HEAD}{zlib.crc32(lines)}\n".encode() + lines


def _parse(data: bytes) -> tuple[dict[str, int], dict[QueueName, int]]:
    head, _, lines = data.partition(b"\n")
    if head != f"{_HEAD}{zlib.crc32(lines)}".encode():
        raise ValueError("its checksum is wrong")
    rows = [line.split("\t") for line in lines.decode().splitlines()]
    topics = {row[0]: int(row[1]) for row in rows if len(row) == 2}
    return topics, {(row[0], int(row[2])): int(row[1]) for row in rows if len(row) == 3}
