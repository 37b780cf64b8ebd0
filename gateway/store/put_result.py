"""The outcome of an append, and what listeners are told of it.

One object per message serves the sender's callback and the listeners alike: at tens of thousands of messages a
second a second object of the same facts would cost more than it explains.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from gateway.store.consume_queue import ConsumeQueue
    from wire.message.record import OutgoingMessage


Places: TypeAlias = "tuple[tuple[ConsumeQueue, int], ...]"
"""Units that a message has besides that of its own offset: in light queues, or of its batch."""


class PutStatus(Enum):
    """What became of a message; names as upstream ``PutMessageStatus``."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"

    @property
    def is_stored(self) -> bool:
        """Whether the message is in the log, though perhaps not as durably as asked for."""
        return self is PutStatus.PUT_OK or self is PutStatus.FLUSH_DISK_TIMEOUT


class WaitFor(Enum):
    """What has to happen before a sender is told. With ASYNC_FLUSH there is no difference: told when written."""

    DISK = "on disk"
    """The outcome is final: on disk, or refused. For whoever acts on it."""
    DISK_OR_TIMEOUT = "on disk, but no longer than syncFlushTimeout"
    """Told FLUSH_DISK_TIMEOUT when the disk takes too long; the message is written and goes on to the disk."""
    WRITE = "written"
    """Told PUT_OK once the system has it (the sender's WAIT=false); readers still see it when it is on disk."""


class PutResult:
    """Where a message was stored. A plain class: one is made for every message.

    ``queue_offset`` is 0 and ``queue`` None for records that no consume queue shows (prepared and rollback kinds).
    ``tags_code`` is filled in by the dispatch; ``further``: see ``Places``. When refused, the offsets
    are −1.
    """

    __slots__ = (
        "commit_log_offset",
        "further",
        "message",
        "queue",
        "queue_id",
        "queue_offset",
        "size",
        "status",
        "stored_at_ms",
        "tags_code",
        "topic",
    )

    def __init__(
        self,
        status: PutStatus,
        message: OutgoingMessage,
        queue: ConsumeQueue | None = None,
        queue_offset: int = -1,
        commit_log_offset: int = -1,
        size: int = 0,
        stored_at_ms: int = 0,
    ) -> None:
        self.status = status
        self.message = message
        self.topic = message.topic
        self.queue_id = message.queue_id
        self.queue = queue
        self.queue_offset = queue_offset
        self.commit_log_offset = commit_log_offset
        self.size = size
        self.stored_at_ms = stored_at_ms
        self.tags_code = 0
        self.further: Places = ()


Dispatched: TypeAlias = PutResult
"""A message that is now visible to readers, as listeners see it."""
