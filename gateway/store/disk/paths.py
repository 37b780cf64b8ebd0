"""Every file name of a store directory, in one place. Never change: Apache RocketMQ uses these names, too.

    commitlog/<offset>                        message records
    consumequeue/<topic>/<queue>/<offset>     one unit per message of a queue
    consumequeue_ext/<topic>/<queue>/<offset> more of each message, when ``enableConsumeQueueExt`` asks for it
    index/<yyyyMMddHHmmssSSS>                 key index
    checkpoint  abort  lock                   how far things are durable; "was not closed"; "in use"
    recovered/<offset>.tail                   ours: what recovery cut off the end of the log
    gateway-queues                            ours: the queues, their ends, and when their files changed
    gateway-index                             ours: the names of the index files
    gateway-deleted                           ours: topics that were deleted, and where in the log that was
    gateway-cut                               ours: where the log is being cut, until it is
    recovered/<offset>-<end>.cut              ours: what a cut took off the end of the log
    gateway-role                              ours: the role that an operator ordered (gateway.broker)
    gateway-replicated                        ours: how far slaves have the log (gateway.replication)
    gateway-copy                              ours: log and tables are copies of a master's (gateway.broker)
    gateway-broker-name                       ours: the name under which the directory is served (gateway.metadata)
    deleted/<number>-<log offset>-<topic>     ours: consume queues of a deleted topic while they are being removed

An offset in a name has 20 digits and is the offset of the file's first byte.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

OFFSET_DIGITS = 20
INDEX_NAME_DIGITS = 17
MAX_QUEUE_ID = 0x7FFFFFFF


class StorePaths:
    """The names below one root.

    :param commit_log: the commit log's directory if it is not ``<root>/commitlog``.
    """

    def __init__(self, root: Path, commit_log: Path | None = None) -> None:
        self.root = root
        self.commit_log = commit_log or root / "commitlog"
        self.consume_queue = root / "consumequeue"
        self.consume_queue_extension = root / "consumequeue_ext"
        self.index = root / "index"
        self.recovered = root / "recovered"
        self.deleted = root / "deleted"
        self.checkpoint = root / "checkpoint"
        self.abort = root / "abort"
        self.lock = root / "lock"
        self.queue_ends = root / "gateway-queues"
        self.index_names = root / "gateway-index"
        self.deleted_topics = root / "gateway-deleted"
        self.cut_note = root / "gateway-cut"

    def queue(self, topic: str, queue_id: int) -> Path:
        """Return the directory of one consume queue."""
        return self.consume_queue / topic / str(queue_id)

    def extension(self, topic: str, queue_id: int) -> Path:
        """Return the directory of one consume queue's extension."""
        return self.consume_queue_extension / topic / str(queue_id)

    def tail(self, commit_log_offset: int, number: int = 1) -> Path:
        """Return the path of the copy of a torn tail that started at a log offset.

        ``number`` counts the tails that started at this offset.
        """
        suffix = "" if number == 1 else f"-{number}"
        return self.recovered / f"{offset_name(commit_log_offset)}{suffix}.tail"

    def cut(self, offset: int, end: int) -> Path:
        """Return the path of the copy of what a cut took off: the bytes from one log offset to another."""
        return self.recovered / f"{offset_name(offset)}-{offset_name(end)}.cut"


def offset_name(offset: int) -> str:
    """Return a file name such as ``00000000001073741824``."""
    return f"{offset:0{OFFSET_DIGITS}d}"


def parse_offset_name(name: str) -> int | None:
    """Return the offset in a file's name; None if the name is not of this form."""
    return int(name) if len(name) == OFFSET_DIGITS and name.isascii() and name.isdigit() else None


def is_queue_name(name: str) -> bool:
    """Return whether a topic's directory entry is a consume queue: a queue number, written without leading zeros."""
    return name.isascii() and name.isdigit() and str(int(name)) == name and int(name) <= MAX_QUEUE_ID


def is_topic_name(name: str) -> bool:
    """Return whether a directory may hold the queues of a topic: the bytes of a file name need not be text."""
    return name.isprintable() or not any("\ud800" <= character <= "\udfff" for character in name)


def printable(text: Path | str) -> str:
    """Return a path or a text with paths in a form for people, even if its bytes are no text."""
    return os.fsencode(text).decode(errors="backslashreplace")


def index_name(created_at_ms: int) -> str:
    """Return a name such as ``20260504101112345``: local time, as upstream ``UtilAll.timeMillisToHumanString``."""
    moment = datetime.fromtimestamp(created_at_ms // 1000)
    return f"{moment:%Y%m%d%H%M%S}{created_at_ms % 1000:03d}"


def is_index_name(name: str) -> bool:
    """Return whether a file of the index directory is an index file."""
    return len(name) == INDEX_NAME_DIGITS and name.isascii() and name.isdigit()
