"""The queues and their ends at the last clean stop, to notice that a queue's files were lost since.

A consume queue whose directory is gone looks like one that never was, and its next message would get offset 0 again.
One line a queue: topic, queue id, end, separated by tabs. Missing or unreadable: nothing is known, nothing is lost.
"""

from __future__ import annotations

from gateway.store.consume_queues import ConsumeQueues
from gateway.store.files import FileLayer
from gateway.store.paths import StorePaths


def save_queue_ends(files: FileLayer, paths: StorePaths, queues: ConsumeQueues) -> None:
    """Replace the list durably."""
    lines = [f"{queue.topic}\t{queue.queue_id}\t{queue.max_offset}\n" for queue in queues]
    temporary = paths.queue_ends.with_suffix(".new")
    files.unlink(temporary)
    fd = files.open(temporary, create=True)
    try:
        files.pwrite(fd, "".join(lines).encode(), 0)
        files.fdatasync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, paths.queue_ends)
    files.fsync_directory(paths.root)


def lost_queues(files: FileLayer, paths: StorePaths, queues: ConsumeQueues) -> set[tuple[str, int]]:
    """The queues that end earlier than they did at the last clean stop."""
    if not files.exists(paths.queue_ends):
        return set()
    fd = files.open(paths.queue_ends)
    try:
        text = files.pread(fd, files.size(fd), 0).decode(errors="replace")
    finally:
        files.close(fd)
    lost = set()
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) != 3 or not (fields[1].isdecimal() and fields[2].isdecimal()):
            continue
        topic, queue_id, end = fields[0], int(fields[1]), int(fields[2])
        queue = queues.find((topic, queue_id))
        if end > (queue.max_offset if queue is not None else 0):
            lost.add((topic, queue_id))
    return lost


def forget_queue_ends(files: FileLayer, paths: StorePaths) -> None:
    """A topic was deleted on purpose: its queues are not lost."""
    files.unlink(paths.queue_ends)
    files.fsync_directory(paths.root)
