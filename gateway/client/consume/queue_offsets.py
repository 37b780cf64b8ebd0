"""Asks brokers for the first and end offsets of a queue, and for the offset that belongs to a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.client.connect.answers import header_of
from gateway.client.consume.settings.consumer_settings import ConsumeFrom
from wire.codes import RequestCode
from wire.headers.declare import Header
from wire.headers.offsets import GetMaxOffsetRequest, GetMaxOffsetResponse, GetMinOffsetRequest, SearchOffsetRequest

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.message_queue import MessageQueue


class QueueOffsets:
    """Asks for offsets; methods raise ``BrokerError``, ``ConnectError``, ``ProtocolError`` or ``RequestTimeout``."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

    async def first(self, queue: MessageQueue) -> int:
        """Return the first offset that is still stored (31)."""
        header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        return await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)

    async def end(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get (30)."""
        # Not the end of what is on disk: what can be read already counts, also with ASYNC_FLUSH.
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, committed=False)
        return await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)

    async def at_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at this time or later (29); the end if there is none."""
        header = SearchOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
        return await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def start(self, queue: MessageQueue, start: ConsumeFrom, timestamp_ms: int) -> int:
        """Return the offset that a start means now."""
        if start is ConsumeFrom.FIRST_OFFSET:
            return 0
        return await (self.end(queue) if start is ConsumeFrom.LAST_OFFSET else self.at_time(queue, timestamp_ms))

    async def _ask(self, queue: MessageQueue, code: int, header: Header) -> int:
        answer = await self._instance.ask(queue.broker_name, code, header)
        # All of them answer with one field of this name.
        return header_of(GetMaxOffsetResponse, answer, f"broker {queue.broker_name}").offset
