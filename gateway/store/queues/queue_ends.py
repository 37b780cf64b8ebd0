"""The list of the consume queues: where they end, and how their files looked when the list was written.

The list has two uses. A consume queue whose directory is gone looks like a queue that never existed, and its next
message would get offset 0 again: a queue that ends earlier than listed has lost files. And queues whose files have not
changed since are taken over from the list, without opening 80 000 files.

    #3 <bytes of a queue file>
    <crc32 of the rest> [log end, run of the system, [[topic, when its directory changed, [queue, …]], …], [topic, …]]
    …
    queue: [queue id, end, …, when its files changed]

A line gives the state of the named queues with regard to the log below its end, and the deleted topics; later lines
win. The list is valid as long as the checkpoint knows the same end of the log. Lines after a damaged line count as not
written. If the list is missing, or of another version, nothing is known and nothing is lost.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths, offset_name

KnownQueue: TypeAlias = tuple[int, int, int, int, int, int, int, int]
"""The queue id, the six figures of ``ConsumeQueue.state`` (the first is the end), and when its files changed (ns)."""
KnownTopic: TypeAlias = tuple[str, int, list[KnownQueue]]

_Line: TypeAlias = tuple[int, str, list[KnownTopic], list[str]]

NOT_THERE = -1
MAX_FILES = 1_000_000
"""The most files of one queue, each of 300,000 messages; a list that says more is not believed."""
TOPICS_PER_LINE = 500
"""The most topics in one line of a whole list: a line is parsed without a pause, and other threads wait meanwhile."""
_MARK = b"#3 "
_decoder = msgspec.json.Decoder(_Line)


class QueueEnds(msgspec.Struct, frozen=True):
    """The content of the file.

    - ``log_end``: the end of the log to which the list belongs; −1 for none.
    - ``system_run``: the run of the system that wrote the last line.
    - ``bytes_read``: the length of the part of the file that could be read.
    """

    topics: Sequence[KnownTopic] = ()
    log_end: int = -1
    file_bytes: int = 0
    system_run: str = ""
    bytes_read: int = 0

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Yield (topic, queue id, end) of every queue."""
        for topic, _, queues in self.topics:
            for queue in queues:
                yield topic, queue[0], queue[1]


def build_head(file_bytes: int) -> bytes:
    """Return the first line."""
    return b"%b%d\n" % (_MARK, file_bytes)


def build_line(log_end: int, system_run: str, topics: Sequence[KnownTopic], deleted: Sequence[str] = ()) -> bytes:
    """Return one more line."""
    body = msgspec.json.encode((log_end, system_run, topics, deleted))
    return b"%d %b\n" % (zlib.crc32(body), body)


def build_list(ends: QueueEnds) -> Iterator[bytes]:
    """Yield a whole list in as few lines as possible; only the last line names the end of the log."""
    yield build_head(ends.file_bytes)
    for first in range(0, len(ends.topics), TOPICS_PER_LINE):
        yield build_line(-1, ends.system_run, ends.topics[first : first + TOPICS_PER_LINE])
    yield build_line(ends.log_end, ends.system_run, ())


def parse_list(data: bytes) -> QueueEnds:
    """Read a list; the part that cannot be read counts as not written."""
    at = data.find(b"\n") + 1
    head = data[:at].removeprefix(_MARK).strip()
    if not data.startswith(_MARK) or not head.isdigit():
        return QueueEnds()
    last: _Line = (-1, "", [], [])
    bytes_read = at
    known: dict[str, KnownTopic] = {}
    for line_end, line in _lines(data, at):
        bytes_read, last = line_end, line
        for topic in line[2]:
            before = known.get(topic[0])
            known[topic[0]] = topic if before is None else _merged(before, topic)
        for name in line[3]:
            known.pop(name, None)
    return QueueEnds(list(known.values()), last[0], int(head), last[1], bytes_read)


def _lines(data: bytes, at: int) -> Iterator[tuple[int, _Line]]:
    """Yield (end, content) of the lines up to the first that cannot be read."""
    view = memoryview(data)
    while (end := data.find(b"\n", at)) >= 0:
        space = data.find(b" ", at, end)
        body = view[space + 1 : end]
        if space < 0 or data[at:space] != b"%d" % zlib.crc32(body):
            return
        try:
            line = _decoder.decode(body)
        except msgspec.MsgspecError:
            return
        at = end + 1
        yield at, line


def _merged(before: KnownTopic, after: KnownTopic) -> KnownTopic:
    queues = {queue[0]: queue for queue in before[2]}
    queues.update((queue[0], queue) for queue in after[2])
    return (after[0], after[1], list(queues.values()))


def queue_files_modified(
    files: FileLayer, paths: StorePaths, topics: Iterable[tuple[str, Sequence[tuple[int, ...]]]], file_bytes: int
) -> list[int]:
    """Return the times when the files of queues last changed, in ns; for each queue its newest file counts.

    The time is −1 if a file of the queue is missing.

    :param topics: names with ``KnownQueue`` values, or with the first seven members of these.
    """
    names: list[str] = []
    counts: list[int] = []
    one_each = True
    first_name = offset_name(0)
    for topic, queues in topics:
        for queue in queues:
            first, last = queue[5], queue[6]
            if first == last >= 0:  # nearly every queue has one file
                names.append(f"{topic}/{queue[0]}/{offset_name(first) if first else first_name}")
                counts.append(1)
            else:
                one_each = False
                starts = range(first, last + 1, file_bytes) if first >= 0 and file_bytes > 0 else range(0)
                if not 0 < len(starts) <= MAX_FILES and first >= 0:
                    starts = range(-1, 0)  # a file that is not there
                names += [f"{topic}/{queue[0]}/{offset_name(start)}" for start in starts]
                counts.append(len(starts))
    changed_ns = files.modified_all(paths.consume_queue, names)
    if one_each:
        return list(changed_ns)
    of_all = iter(changed_ns)
    return [_newest([next(of_all) for _ in range(count)]) for count in counts]


def _newest(changed_ns: list[int]) -> int:
    return NOT_THERE if NOT_THERE in changed_ns else max(changed_ns, default=0)
