"""Answers to the sender of a message, stored or not, and the time of the answer.

Upstream: ``SendMessageProcessor.handlePutMessageResult``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.store.put_result import PutStatus, WaitFor
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.message.properties import PropertyName

ANSWER_OF: Mapping[PutStatus, ResponseCode] = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.CREATE_MAPPED_FILE_FAILED: ResponseCode.SYSTEM_ERROR,
    PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: ResponseCode.SYSTEM_ERROR,
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

# Looked up for every message, which for an attribute of an enumeration takes as long as a call.
_WAIT: Final = WaitFor.DISK_OR_TIMEOUT
_HASTY: Final = WaitFor.WRITE


def wait_for(properties: dict[str, str]) -> WaitFor:
    """Return when the sender is answered.

    Without WAIT, or with WAIT=true, the answer comes when the message is on disk. Upstream reads every other value as
    false (``Message.isWaitStoreMsgOK``). The sender of a half message is never answered early, because the producer
    would then run the local transaction.
    """
    wait = properties.get(PropertyName.WAIT)
    if wait is None or wait == "true" or wait.lower() == "true" or PropertyName.TRAN_MSG in properties:
        return _WAIT
    return _HASTY


def refused_answer(
    command: RemotingCommand, status: PutStatus, refusal: str | None, ext: Mapping[str, str]
) -> RemotingCommand:
    """Return the answer to the sender of a message that was not stored.

    :param refusal: the reason why the store takes no messages now; None if the store takes messages.
    :param ext: the fields that every answer about a message carries.
    """
    return command.response(ANSWER_OF[status], _remark_of(status, refusal), dict(ext))


def _remark_of(status: PutStatus, reason: str | None) -> str:
    if status is PutStatus.SERVICE_NOT_AVAILABLE:
        return f"service not available now: {reason or TOO_MUCH_WAITS}"
    if status is PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH:
        return f"in-sync replicas not enough: {reason or 'a member came back meanwhile, send again'}"
    if status is PutStatus.UNKNOWN_ERROR and reason is not None:
        return f"{status.name}: {reason}"
    return STATUS_REMARKS.get(status, status.name)
