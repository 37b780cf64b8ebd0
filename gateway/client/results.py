"""The results of sends."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from gateway.client.message_queue import MessageQueue


class SendStatus(IntEnum):
    """The safety of a stored message. Values are response codes."""

    SEND_OK = 0
    """Stored as safely as the broker's settings demand."""
    FLUSH_DISK_TIMEOUT = 10
    """Stored, but not flushed to disk in time (flushDiskType=SYNC_FLUSH)."""
    FLUSH_SLAVE_TIMEOUT = 12
    """Stored, but not replicated in time (brokerRole=SYNC_MASTER)."""
    SLAVE_NOT_AVAILABLE = 11
    """Stored, but there is no slave to replicate it to (brokerRole=SYNC_MASTER)."""


SEND_STATUS_BY_CODE: Final = {int(status): status for status in SendStatus}
"""The statuses by response code. A send with one of these codes is stored."""


# A msgspec struct: one is made for every message, and a frozen dataclass takes five times as long.
class SendResult(msgspec.Struct, frozen=True, gc=False):
    """The place of a sent message.

    :param status: ``SEND_OK``, or another status that was accepted instead.
    :param msg_id: the id that the client gave, which consumers and tools see; for a batch all ids, joined by commas.
    :param offset_msg_id: the id that the broker made from the place in its log; for a batch all ids, joined by commas.
    :param queue: the topic, broker and queue.
    :param queue_offset: the offset in the queue; for a batch the offset of its first message.
    :param transaction_id: the id of the transaction, for a message sent within a transaction.
    :param recall_handle: a text that takes a timer message back, from servers that support recall.
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
        """False if the message is less safe than the broker's settings demand; otherwise None.

        False: the broker says that the message is not yet flushed or replicated. None: the broker says that all is
        well. Brokers with ASYNC_FLUSH and with SYNC_FLUSH answer alike then, so nobody can tell whether the message is
        on disk.
        """
        return None if self.status is SendStatus.SEND_OK else False


def single_results(joined: SendResult) -> list[SendResult]:
    """Return the results of the single messages of a batch: ids one by one, offsets counted up.

    Topics with batch queues answer with one id for the whole batch; each result has this id then.
    """
    msg_ids = joined.msg_id.split(",")
    offset_ids = joined.offset_msg_id.split(",")
    if len(offset_ids) != len(msg_ids):
        offset_ids = [joined.offset_msg_id] * len(msg_ids)
    return [
        SendResult(joined.status, msg_id, offset_id, joined.queue, joined.queue_offset + index, joined.transaction_id)
        for index, (msg_id, offset_id) in enumerate(zip(msg_ids, offset_ids, strict=True))
    ]
