"""What a sender is told of a message that was stored, or was not.

Upstream: ``SendMessageProcessor.handlePutMessageResult``.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.store.put_result import PutStatus
from wire.codes import ResponseCode

ANSWER_OF: Mapping[PutStatus, ResponseCode] = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.CREATE_MAPPED_FILE_FAILED: ResponseCode.SYSTEM_ERROR,
    PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED: ResponseCode.LMQ_QUOTA_EXCEEDED,
    PutStatus.UNKNOWN_ERROR: ResponseCode.SYSTEM_ERROR,
}

TOO_MUCH_WAITS = "more waits to be written than gateway.maxUnwrittenBytes allows; the disk is too slow for the load"
STATUS_REMARKS: Mapping[PutStatus, str] = {
    PutStatus.MESSAGE_ILLEGAL: (
        "the message is illegal: its record would be over maxMessageSize plus 64 KiB, or its topic too long"
    ),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: "the message properties are over 32767 bytes",
    PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED: "there are as many light queues as maxLmqConsumeQueueNum allows",
    PutStatus.CREATE_MAPPED_FILE_FAILED: "create mapped file failed; see the broker's log",
}


def remark_of(status: PutStatus, reason: str | None) -> str:
    """What a refused sender is told; ``reason`` is the store's own, where it is the store that refuses."""
    if status is PutStatus.SERVICE_NOT_AVAILABLE:
        return f"service not available now: {reason or TOO_MUCH_WAITS}"
    if status is PutStatus.UNKNOWN_ERROR and reason is not None:
        return f"{status.name}: {reason}"
    return STATUS_REMARKS.get(status, status.name)
