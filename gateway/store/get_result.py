"""The outcome of reading a queue: records, and where to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class GetStatus(Enum):
    """Names as upstream ``GetMessageStatus``; they are the remarks of pull answers."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


@dataclass(frozen=True, slots=True)
class GetResult:
    """What a read found.

    ``parts`` are records in queue order, neighbours in the log joined; they are copies and stay valid when files are
    deleted. ``cold`` tells that they were probably read from the disk and not from memory.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    count: int = 0
    total_bytes: int = 0
    parts: Sequence[bytes] = ()
    cold: bool = False
