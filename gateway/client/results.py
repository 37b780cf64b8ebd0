"""What a send answers."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from gateway.client.message_queue import MessageQueue


class SendStatus(IntEnum):
    """How safe a stored message is. Values are response codes."""

    SEND_OK = 0
    """As safe as the broker is set up to make it."""
    FLUSH_DISK_TIMEOUT = 10
    """Stored, but not flushed to disk in time (flushDiskType=SYNC_FLUSH)."""
    FLUSH_SLAVE_TIMEOUT = 12
    """Stored, but not replicated in time (brokerRole=SYNC_MASTER)."""
    SLAVE_NOT_AVAILABLE = 11
    """Stored, but there is no slave to replicate it to (brokerRole=SYNC_MASTER)."""


SEND_STATUS_BY_CODE: Final = {int(status): status for status in SendStatus}
"""The response codes with which a send is stored."""


# A msgspec struct: one is made for every message, and a frozen dataclass takes five times as long.
class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message went.

    :param status: ``SEND_OK``, or what was accepted instead.
    :param msg_id: the id the client gave it, which consumers and tools see; of a batch, joined by commas.
    :param offset_msg_id: the id made by the broker from the place in its log; of a batch, joined by commas.
    :param queue: topic, broker and queue.
    :param queue_offset: its place in the queue; of a batch, that of its first message.
    :param transaction_id: of a message sent within a transaction.
    :param recall_handle: takes a timer message back, from servers that can do it.
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    recall_handle: str | None = None

    @property
    def durable(self) -> bool | None:
        """Whether the message is as safe as the broker is set up to make it.

        False when the broker says that it is not yet flushed or replicated; None when it says that all is well:
        brokers with ASYNC_FLUSH and with SYNC_FLUSH answer alike, so nobody can tell whether it is on disk.
        """
        return None if self.status is SendStatus.SEND_OK else False


def single_results(joined: SendResult) -> list[SendResult]:
    """The results of the messages of a batch: ids one by one, offsets counted up.

    Topics with batch queues answer with one id for all; it stands for each message then.
    """
    msg_ids = joined.msg_id.split(",")
    offset_ids = joined.offset_msg_id.split(",")
    if len(offset_ids) != len(msg_ids):
        offset_ids = [joined.offset_msg_id] * len(msg_ids)
    return [
        SendResult(joined.status, msg_id, offset_id, joined.queue, joined.queue_offset + index, joined.transaction_id)
        for index, (msg_id, offset_id) in enumerate(zip(msg_ids, offset_ids, strict=True))
    ]
