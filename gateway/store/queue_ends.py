"""The queues at the last clean stop: where they ended, and how their files looked.

Two uses. A consume queue whose directory is gone looks like one that never was, and its next message would get offset 0
again: a queue that ends earlier than listed here has lost files. And after a clean stop the queues whose files nobody
touched are taken over from here, without opening 80 000 files: the list holds for one end of the log, and each topic
for the times at which its directory and files were last changed.

    #2 <end of the log> <bytes of a queue file> <crc32 of the rest>
    JSON: [[topic, when its directory changed, [[queue id, end, …, when its files changed], …]], …]

Missing or unreadable: nothing is known, nothing is lost. The first version was lines of topic, queue id and end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from gateway.store.files import FileLayer
from gateway.store.paths import StorePaths, offset_name

if TYPE_CHECKING:
    from gateway.store.consume_queue import ConsumeQueue

KnownQueue: TypeAlias = tuple[int, int, int, int, int, int, int, int]
"""Queue id, the six figures of ``ConsumeQueue.state`` (the first is the end), when its files were changed (ms)."""
KnownTopic: TypeAlias = tuple[str, int, list[KnownQueue]]

NOT_THERE = -1
_decoder = msgspec.json.Decoder(list[KnownTopic])


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """What the file says.

    ``ends``: of a list that is of no use for more. ``topics``: of one that is whole. ``log_end``: the end of the log
    that it belongs to, −1 for none.
    """

    ends: Sequence[tuple[str, int, int]] = ()
    topics: Sequence[KnownTopic] = ()
    log_end: int = -1
    file_bytes: int = 0

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """(topic, queue id, end) of every queue."""
        yield from self.ends
        for topic, _, queues in self.topics:
            for queue in queues:
                yield topic, queue[0], queue[1]


def save_queue_ends(files: FileLayer, paths: StorePaths, queues: Iterable[ConsumeQueue], log_end: int = -1) -> None:
    """Replace the list durably.

    :param log_end: up to where the queues are on disk; −1 when the next start has to look at the files.
    """
    by_topic: dict[str, list[ConsumeQueue]] = {}
    file_bytes = 0
    for queue in queues:
        by_topic.setdefault(queue.topic, []).append(queue)
        file_bytes = queue.file_bytes
    modified_ms = files.modified_all(paths.consume_queue, list(by_topic))
    topics = [
        (topic, changed_ms, _known(files, paths, found, file_bytes))
        for (topic, found), changed_ms in zip(by_topic.items(), modified_ms, strict=True)
    ]
    body = msgspec.json.encode(topics)
    temporary = paths.queue_ends.with_suffix(".new")
    files.unlink(temporary)
    fd = files.open(temporary, create=True)
    try:
        files.pwrite(fd, f"#2 {log_end} {file_bytes} {zlib.crc32(body)}\n".encode() + body, 0)
        files.fdatasync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, paths.queue_ends)
    files.fsync_directory(paths.root)


def _known(files: FileLayer, paths: StorePaths, queues: list[ConsumeQueue], file_bytes: int) -> list[KnownQueue]:
    known = [(queue.queue_id, *queue.state()) for queue in queues]
    changed_ms = queue_files_modified_ms(files, paths, queues[0].topic, known, file_bytes)
    return [(*figures, changed) for figures, changed in zip(known, changed_ms, strict=True)]


def queue_files_modified_ms(
    files: FileLayer, paths: StorePaths, topic: str, queues: Sequence[tuple[int, ...]], file_bytes: int
) -> list[int]:
    """When the files of a topic's queues were last changed, the newest of each queue counts; −1: one is not there.

    :param queues: ``KnownQueue``, or its first seven members.
    """
    names = [f"{queue[0]}/{offset_name(start)}" for queue in queues for start in _starts(queue, file_bytes)]
    changed_ms = iter(files.modified_all(paths.consume_queue / topic, names))
    return [_newest([next(changed_ms) for _ in _starts(queue, file_bytes)]) for queue in queues]


def _starts(queue: tuple[int, ...], file_bytes: int) -> range:
    return range(queue[5], queue[6] + 1, file_bytes) if queue[5] >= 0 else range(0)


def _newest(changed_ms: list[int]) -> int:
    return NOT_THERE if NOT_THERE in changed_ms else max(changed_ms, default=0)


def load_queue_ends(files: FileLayer, paths: StorePaths) -> QueueEnds:
    """Read the list; what of it cannot be read counts as not said."""
    if not files.exists(paths.queue_ends):
        return QueueEnds()
    fd = files.open(paths.queue_ends)
    try:
        data = files.pread(fd, files.size(fd), 0)
    finally:
        files.close(fd)
    if not data.startswith(b"#"):
        return QueueEnds(_parse_lines(data))
    head, _, body = data.partition(b"\n")
    try:
        mark, log_end, file_bytes, checksum = head.split(b" ")
        if mark != b"#2" or int(checksum) != zlib.crc32(body):
            return QueueEnds()
        return QueueEnds(topics=_decoder.decode(body), log_end=int(log_end), file_bytes=int(file_bytes))
    except (ValueError, msgspec.MsgspecError):
        return QueueEnds()


def forget_queue_ends(files: FileLayer, paths: StorePaths) -> None:
    """A topic was deleted on purpose: its queues are not lost."""
    files.unlink(paths.queue_ends)
    files.fsync_directory(paths.root)


def _parse_lines(data: bytes) -> list[tuple[str, int, int]]:
    ends = []
    for line in data.decode(errors="replace").splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].isdecimal():
            ends.append((fields[0], int(fields[1]), int(fields[2])))
    return ends
