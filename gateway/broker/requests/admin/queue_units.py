"""The units of a consume queue as they are on disk, and whether a group's tags let their messages through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.delivery.filters.tags import EXPRESSION_TYPE_TAG, tag_filter
from gateway.errors import RequestRefused
from gateway.remoting.dispatch import Answer
from wire.bodies.queue_units import QueueUnit, QueueUnits
from wire.codes import RequestCode, ResponseCode
from wire.disk.consume_queue import parse_units
from wire.disk.queue_extension import is_address
from wire.headers.query import QueryConsumeQueueRequest

if TYPE_CHECKING:
    from gateway.broker.cold_reads import ColdReads
    from gateway.membership.consumers import Consumers
    from gateway.metadata.topics import Topics
    from gateway.remoting.dispatch import Dispatch, Request
    from gateway.store.message_store import MessageStore
    from wire.bodies.subscriptions import SubscriptionData

MAX_UNITS = 10_000
"""In one answer."""


class QueueUnitRequests:
    """Answers QUERY_CONSUME_QUEUE (321). Without an online group nothing is said to be accepted, as upstream."""

    def __init__(self, *, store: MessageStore, topics: Topics, consumers: Consumers, cold_reads: ColdReads) -> None:
        self._store = store
        self._topics = topics
        self._consumers = consumers
        self._cold_reads = cold_reads

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.QUERY_CONSUME_QUEUE, QueryConsumeQueueRequest, self.units)

    async def units(self, _request: Request, header: QueryConsumeQueueRequest) -> Answer:
        """``count`` units from an offset on, as far as there are any."""
        topic, queue_id = header.topic or "", header.queue_id
        config = self._topics.get(topic)
        if config is None or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        count = max(0, min(header.count, MAX_UNITS))
        offset = max(header.index, 0)
        raw, read = await self._cold_reads.result(lambda: self._read(topic, queue_id, offset, count))
        group = header.consumer_group
        wanted = self._consumers.subscription(group or "", topic)
        body = QueueUnits(
            units=[
                _unit(unit, code, wanted)
                for unit, (_, _, code) in zip(parse_units(raw), parse_units(read), strict=True)
            ],
            min_queue_index=max(self._store.min_offset(topic, queue_id), 0),
            max_queue_index=self._store.max_offset(topic, queue_id),
            subscription=wanted,
            filter_data=f"{group}@{topic} is not online!" if group and wanted is None else None,
        )
        return Answer(body=body.build())

    def _read(self, topic: str, queue_id: int, offset: int, count: int) -> tuple[bytes, bytes]:
        """The units as they are, and with the tags codes that the queue's extension has."""
        raw = self._store.queue_units(topic, queue_id, offset, count)
        return raw, self._store.with_tags_codes(topic, queue_id, raw)


def _unit(unit: tuple[int, int, int], code: int, wanted: SubscriptionData | None) -> QueueUnit:
    """The answer about one unit, whose message has a tags code; an address, when nobody knows that."""
    if wanted is None:
        return QueueUnit(*unit)
    if wanted.expression_type not in (None, "", EXPRESSION_TYPE_TAG):
        return QueueUnit(*unit, text=f"{wanted.expression_type} is decided by the message itself")
    accepts = tag_filter(wanted.sub_string, wanted.code_set, class_filter_mode=wanted.class_filter_mode)
    return QueueUnit(*unit, is_accepted=accepts is None or is_address(code) or accepts(code))
