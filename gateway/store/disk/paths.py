"""Every file name of a store directory, in one place. Never change: Apache RocketMQ looks for the same names.

    commitlog/<offset>                        message records
    consumequeue/<topic>/<queue>/<offset>     one unit per message of a queue
    consumequeue_ext/<topic>/<queue>/<offset> more of each message, when ``enableConsumeQueueExt`` asks for it
    index/<yyyyMMddHHmmssSSS>                 key index
    checkpoint  abort  lock                   how far things are durable; "was not closed"; "in use"
    recovered/<offset>.tail                   ours: what recovery cut off the end of the log
    gateway-queues                            ours: the queues, their ends, and when their files changed
    gateway-index                             ours: the names of the index files
    gateway-deleted                           ours: topics that were deleted, and where in the log that was
    gateway-broker-name                       ours: the name under which the directory is served (gateway.metadata)
    deleted/<number>-<log offset>-<topic>     ours: consume queues of a deleted topic while they are being removed

An offset is written with 20 digits and is the offset of the file's first byte.
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

    :param commit_log: the commit log's directory when it is not ``<root>/commitlog``.
    """

    __slots__ = (
        "abort",
        "checkpoint",
        "commit_log",
        "consume_queue",
        "consume_queue_extension",
        "deleted",
        "deleted_topics",
        "index",
        "index_names",
        "lock",
        "queue_ends",
        "recovered",
        "root",
    )

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

    def queue(self, topic: str, queue_id: int) -> Path:
        """The directory of one consume queue."""
        return self.consume_queue / topic / str(queue_id)

    def extension(self, topic: str, queue_id: int) -> Path:
        """The directory of its extension."""
        return self.consume_queue_extension / topic / str(queue_id)

    def tail(self, commit_log_offset: int, number: int = 1) -> Path:
        """Where a torn tail that began at an offset is kept; ``number`` counts those that began at the same one."""
        suffix = "" if number == 1 else f"-{number}"
        return self.recovered / f"{offset_name(commit_log_offset)}{suffix}.tail"


def offset_name(offset: int) -> str:
    """``00000000001073741824``."""
    return f"{offset:0{OFFSET_DIGITS}d}"


def parse_offset_name(name: str) -> int | None:
    """The offset a file is named after; None when it is not one of ours."""
    return int(name) if len(name) == OFFSET_DIGITS and name.isascii() and name.isdigit() else None


def is_queue_name(name: str) -> bool:
    """Whether a directory of a topic is a consume queue: its number as it is written, without zeros in front."""
    return name.isascii() and name.isdigit() and str(int(name)) == name and int(name) <= MAX_QUEUE_ID


def is_topic_name(name: str) -> bool:
    """Whether a directory may hold the queues of a topic: names of files can be bytes that are no text."""
    return name.isprintable() or not any("\ud800" <= character <= "\udfff" for character in name)


def printable(text: Path | str) -> str:
    """A path, or a text with paths in it, for people, also when their bytes are no text."""
    return os.fsencode(text).decode(errors="backslashreplace")


def index_name(created_at_ms: int) -> str:
    """``20260504101112345``: local time, as upstream ``UtilAll.timeMillisToHumanString``."""
    moment = datetime.fromtimestamp(created_at_ms // 1000)
    return f"{moment:%Y%m%d%H%M%S}{created_at_ms % 1000:03d}"


def is_index_name(name: str) -> bool:
    """Whether a file of the index directory is an index file."""
    return len(name) == INDEX_NAME_DIGITS and name.isascii() and name.isdigit()
