"""The outcome of a read of a queue: records, and the offset of the next read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class GetStatus(Enum):
    """The status of a read. Names as in upstream's ``GetMessageStatus``; they are the remarks of pull answers."""

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
    MESSAGE_DAMAGED = "MESSAGE_DAMAGED"
    """A status of the gateway: the message differs from what was stored; ``remark`` says where and what to do."""


class GetResult:
    """The outcome of a read. A plain class for speed: every pull makes one, and a dataclass takes three times as long.

    ``bounds`` are the queue's minimum and maximum offset. ``parts`` are records in queue order, neighbours in the log
    joined; they are copies and stay valid when files are deleted. ``remark`` says what is wrong with a damaged message.
    """

    __slots__ = ("count", "max_offset", "min_offset", "next_begin_offset", "parts", "remark", "status", "total_bytes")

    def __init__(
        self,
        status: GetStatus,
        next_begin_offset: int,
        bounds: tuple[int, int],
        count: int = 0,
        parts: Sequence[bytes] = (),
        remark: str = "",
    ) -> None:
        self.status = status
        self.next_begin_offset = next_begin_offset
        self.min_offset, self.max_offset = bounds
        self.count = count
        self.total_bytes = sum(map(len, parts))
        self.parts = parts
        self.remark = remark

    def __repr__(self) -> str:
        return f"<GetResult {self.status.name} {self.count} messages, next {self.next_begin_offset}>"
