"""The units of a consume queue as they are on disk, and whether a group's tags accept their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gateway.broker.desk import DeskRequests
from gateway.delivery.filters.message_filter import EXPRESSION_TYPE_TAG, tag_filter
from gateway.errors import RequestRefused
from gateway.remoting.declared import GET, SERVED, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import list_text
from gateway.remoting.requests import answers
from wire.bodies.declare import Body
from wire.bodies.subscriptions import SubscriptionData
from wire.bodies.tools.statistics import QueueUnit, QueueUnits
from wire.codes import RequestCode, ResponseCode
from wire.disk.consume_queue import parse_units
from wire.disk.queue_extension import ExtensionUnit, bits_text, is_address
from wire.headers.pull import QueryConsumeQueueRequest

MAX_UNITS = 10_000
"""The largest number of units in one answer."""


Unit = tuple[int, int, int]


class _Extension(Body):
    """The entry for a message in a queue's extension; the bytes of the bit map are signed."""

    filter_bit_map: Sequence[int] | None
    msg_store_time: int
    size: int
    tags_code: int


class QueueUnitRequests(DeskRequests):
    """Answers QUERY_CONSUME_QUEUE (321). Without an online group no message is shown as accepted, as upstream."""

    @answers(
        RequestCode.QUERY_CONSUME_QUEUE,
        QueryConsumeQueueRequest,
        needs(on_topic(GET), on_group(GET, optional=True)),
        Size.LIST,
        slave=SERVED,
    )
    async def units(self, request: Request, header: QueryConsumeQueueRequest) -> Answer:
        """Answer with ``count`` units from an offset on, or with fewer if the queue ends before."""
        topic, queue_id = header.topic or "", header.queue_id
        config = self._desk.topics.get(topic)
        if config is None or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        count = max(0, min(header.count, MAX_UNITS))
        offset = max(header.index, 0)
        found = await self._desk.cold_reads.tool_result(lambda: self._read(topic, queue_id, offset, count))
        group = header.consumer_group
        wanted = self._desk.consumers.subscription(group or "", topic)
        units: Any = await self._desk.turns.run(
            list_text(
                f"units of queue {queue_id} of {topic}", (_unit(unit, kept, wanted).to_json() for unit, kept in found)
            ),
            request.channel,
        )
        body = QueueUnits(
            units=units,
            min_queue_index=max(self._desk.store.min_offset(topic, queue_id), 0),
            max_queue_index=self._desk.store.max_offset(topic, queue_id),
            subscription=wanted,
            filter_data=f"{group}@{topic} is not online!" if group and wanted is None else None,
        )
        return Answer(body=body.build())

    def _read(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[Unit, ExtensionUnit | None]]:
        """Return the units, each with its entry in the queue's extension."""
        units = parse_units(self._desk.store.queue_units(topic, queue_id, offset, count))
        return [
            (unit, self._desk.store.extension_unit(topic, queue_id, unit[2]) if is_address(unit[2]) else None)
            for unit in units
        ]


def _unit(unit: Unit, kept: ExtensionUnit | None, wanted: SubscriptionData | None) -> QueueUnit:
    position, size, code = unit
    if kept is not None:
        code = kept.tags_code
    shown = QueueUnit(position, size, code)
    if kept is not None:
        more = _Extension(list(memoryview(kept.bitmap).cast("b")) or None, kept.stored_at_ms, kept.size, code)
        bits = bits_text(kept.bitmap) if kept.bitmap else None
        shown = replace(shown, extend_data_json=more.build().decode(), bit_map=bits)
    if wanted is None:
        return shown
    if wanted.expression_type not in (None, "", EXPRESSION_TYPE_TAG):
        return replace(shown, text=f"{wanted.expression_type} is decided by the message itself")
    accepts = tag_filter(wanted.sub_string, wanted.code_set, class_filter_mode=wanted.class_filter_mode)
    return replace(shown, is_accepted=accepts is None or is_address(code) or accepts(code))
