"""Offsets: the first and last of queues, the progress of groups, and moving groups back or forth."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar

from gateway.client.admin.admin_calls import AdminCalls, json_of
from gateway.client.admin.admin_results import ConsumeTimeSpan, GroupProgress, NothingConsumed, QueueProgress
from gateway.client.admin.offset_reset import OffsetChange, OffsetReset
from gateway.client.connect.answers import body_of, header_of
from gateway.client.errors import ConfigurationError, ProtocolError
from gateway.client.message_queue import MessageQueue
from wire.bodies.consumers import ConsumerConnection
from wire.bodies.tools.statistics import ConsumerOffsetTable, ConsumeStats
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import Header
from wire.headers.groups import GetConsumerConnectionListRequest
from wire.headers.offsets import (
    CloneGroupOffsetRequest,
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    ResetOffsetRequest,
    SearchOffsetRequest,
    SearchOffsetResponse,
    UpdateConsumerOffsetRequest,
)
from wire.headers.topics import GetConsumeStatsRequest, QueryConsumeTimeSpanRequest

H = TypeVar("H", bound=Header)

ResetTo: TypeAlias = Literal["earliest", "latest"] | datetime | Mapping[MessageQueue, int]
"""The target of a reset: the first message, the end, a time of storage, or an offset for each queue.

A time stands for the first message that was stored at this time or later.
"""

_OLDEST_MS: Final = 0


class AdminOffsets:
    """Requests about offsets."""

    def __init__(self, calls: AdminCalls) -> None:
        self._calls = calls

    async def min(self, queue: MessageQueue) -> int:
        """Return the offset of the first message of a queue that is still stored."""
        header = GetMinOffsetRequest(topic=self._calls.wire(queue.topic), queue_id=queue.queue_id)
        return max((await self._of_queue(queue, RequestCode.GET_MIN_OFFSET, header, GetMinOffsetResponse)).offset, 0)

    async def max(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of a queue will get."""
        header = GetMaxOffsetRequest(topic=self._calls.wire(queue.topic), queue_id=queue.queue_id, committed=False)
        return (await self._of_queue(queue, RequestCode.GET_MAX_OFFSET, header, GetMaxOffsetResponse)).offset

    async def at(self, queue: MessageQueue, moment: datetime) -> int:
        """Return the offset of the first message of a queue that was stored at a time or later; otherwise ``max``.

        :param moment: with a time zone.
        """
        topic = self._calls.wire(queue.topic)
        header = SearchOffsetRequest(topic=topic, queue_id=queue.queue_id, timestamp=_ms(moment))
        return (
            await self._of_queue(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, SearchOffsetResponse)
        ).offset

    async def earliest_stored_at_ms(self, queue: MessageQueue) -> int | None:
        """Return the time at which the first message of a queue was stored; None if the queue is empty."""
        header = GetEarliestMsgStoretimeRequest(topic=self._calls.wire(queue.topic), queue_id=queue.queue_id)
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        found = (await self._of_queue(queue, code, header, GetEarliestMsgStoretimeResponse)).timestamp
        return found if found >= 0 else None

    async def of_group(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset that a group will read next in a queue; None if the group has no offset there."""
        return await self._of_group(group, queue, await self._address(queue))

    async def set(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Write the offset that a group will read next in a queue.

        A connected client of the group overwrites the offset with its own.

        :raises ConfigurationError: a negative offset.
        """
        if offset < 0:
            raise ConfigurationError("offset", offset, "0 or more")
        await self._set(group, queue, offset, await self._address(queue))

    async def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Return the progress of a group in each queue that it consumes, or in the queues of one topic.

        :raises NothingConsumed: the group has no offsets there.
        """
        wire_topic = topic and self._calls.wire(topic)
        header = GetConsumeStatsRequest(consumer_group=self._calls.wire(group), topic=wire_topic)
        masters = await (self._calls.masters() if wire_topic is None else self._calls.masters_of(wire_topic))
        tables = (await self._calls.bodies(ConsumeStats, masters, RequestCode.GET_CONSUME_STATS, header)).values()
        queues = {
            MessageQueue(self._calls.plain(queue.topic), queue.broker_name, queue.queue_id): QueueProgress(
                found.broker_offset, found.consumer_offset, found.last_timestamp
            )
            for table in tables
            for queue, found in table.offset_table.items()
        }
        if not queues:
            raise NothingConsumed(group, topic)
        return GroupProgress(group, dict(sorted(queues.items())), sum(table.consume_tps for table in tables))

    async def lag(self, group: str, topic: str | None = None) -> int:
        """Return how many messages a group has not consumed yet, in all its topics or in one topic.

        The messages of the retry topic are counted unless a topic is given.

        :raises NothingConsumed: the group has no offsets there.
        """
        return (await self.progress(group, topic)).lag

    async def preview_reset(self, group: str, topic: str, to: ResetTo) -> OffsetReset:
        """Return the changes that ``reset`` would make, without making them.

        :raises RouteNotFound: no broker has the topic.
        :raises ConfigurationError: an offset for a queue that the topic does not have, or a time without time zone.
        """
        masters = await self._calls.masters_of(self._calls.wire(topic))
        stats = await self._ranges(topic, masters)
        if isinstance(to, Mapping):
            for queue in to:
                if queue not in stats:
                    raise ConfigurationError("to", queue, f"a queue of topic {topic}")
        changes = []
        for queue, (least, most) in sorted(stats.items()):
            if isinstance(to, Mapping) and queue not in to:
                continue
            wanted = await self._wanted(queue, to, least, most)
            current = await self._of_group(group, queue, masters[queue.broker_name])
            changes.append(OffsetChange(queue, current, min(max(wanted, least), most)))
        return OffsetReset(group, topic, tuple(changes), await self._online(group, masters))

    async def reset(self, group: str, topic: str, to: ResetTo) -> OffsetReset:
        """Move a group back or forth in a topic, and return the changes.

        If the group has no connected clients, the offsets are written. If the group has connected clients, the broker
        must notify them: Apache RocketMQ and this gateway do. With other brokers, stop the clients first.

        :raises BrokerError: a broker refuses; REQUEST_CODE_NOT_SUPPORTED: the broker cannot notify connected clients.
        """
        planned = await self.preview_reset(group, topic, to)
        masters = await self._calls.masters_of(self._calls.wire(topic))
        for change in planned.changes:
            address = masters[change.queue.broker_name]
            if planned.online or not await self._set(group, change.queue, change.new, address):
                await self._let_tell(group, change.queue, change.new, address)
        return planned

    async def clone(self, source: str, target: str, topic: str) -> None:
        """Let group ``target`` start in a topic at the offsets of group ``source``; ``target`` must have no clients.

        :raises BrokerError: the broker does not support this request, or does not know a group.
        """
        wire = self._calls.wire
        header = CloneGroupOffsetRequest(src_group=wire(source), dest_group=wire(target), topic=wire(topic))
        await self._calls.ask_each(await self._calls.masters_of(wire(topic)), RequestCode.CLONE_GROUP_OFFSET, header)

    async def time_spans(self, group: str, topic: str) -> list[ConsumeTimeSpan]:
        """Return the storage times of the messages of each queue, and the time up to which the group has consumed.

        :raises BrokerError: the broker does not answer this request.
        """
        topic = self._calls.wire(topic)
        header = QueryConsumeTimeSpanRequest(topic=topic, group=self._calls.wire(group))
        found = []
        for address in (await self._calls.masters_of(topic)).values():
            answer = await self._calls.ask(address, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
            found += [self._span(entry, address) for entry in json_of(answer, address).get("consumeTimeSpanSet") or ()]
        return sorted(found, key=lambda span: span.queue)

    async def table(self, broker_name: str) -> ConsumerOffsetTable:
        """Return all offsets of a broker, as a slave gets them.

        :raises BrokerError: the broker does not answer this request.
        """
        address = await self._calls.master(broker_name)
        answer = await self._calls.ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        return body_of(ConsumerOffsetTable, answer, address)

    # --- inside ---------------------------------------------------------------------------------------------

    async def _of_queue(self, queue: MessageQueue, code: RequestCode, header: Header, response: type[H]) -> H:
        address = await self._address(queue)
        return header_of(response, await self._calls.ask(address, code, header), address)

    async def _address(self, queue: MessageQueue) -> str:
        return await self._calls.address_of(self._calls.wire(queue.topic), queue.broker_name)

    async def _of_group(self, group: str, queue: MessageQueue, address: str) -> int | None:
        header = QueryConsumerOffsetRequest(
            consumer_group=self._calls.wire(group),
            topic=self._calls.wire(queue.topic),
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
        )
        expect = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        answer = await self._calls.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header, expect=expect)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return header_of(QueryConsumerOffsetResponse, answer, address).offset

    async def _let_tell(self, group: str, queue: MessageQueue, offset: int, address: str) -> None:
        """Let the broker set the offset of a queue, and send the next pull there."""
        header = ResetOffsetRequest(
            group=self._calls.wire(group),
            topic=self._calls.wire(queue.topic),
            queue_id=queue.queue_id,
            offset=offset,
            is_force=True,
        )
        await self._calls.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)

    async def _set(self, group: str, queue: MessageQueue, offset: int, address: str) -> bool:
        """Write an offset, and return whether the broker keeps it.

        The broker does not keep the offset if it sends the next pull to another offset.
        """
        header = UpdateConsumerOffsetRequest(
            consumer_group=self._calls.wire(group),
            topic=self._calls.wire(queue.topic),
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        expect = (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED)
        answer = await self._calls.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, expect=expect)
        return answer.code == ResponseCode.SUCCESS

    async def _ranges(self, topic: str, masters: Mapping[str, str]) -> dict[MessageQueue, tuple[int, int]]:
        """Return the first and the next offset of every queue that consumers read."""
        route = await self._calls.route(self._calls.wire(topic))
        found = {}
        for entry in route.queue_datas:
            if entry.broker_name in masters:
                for queue_id in range(entry.read_queue_nums):
                    queue = MessageQueue(topic, entry.broker_name, queue_id)
                    found[queue] = (await self.min(queue), await self.max(queue))
        return found

    async def _wanted(self, queue: MessageQueue, to: ResetTo, least: int, most: int) -> int:
        if isinstance(to, Mapping):
            return to[queue]
        if isinstance(to, datetime):
            return await self.at(queue, to)
        if to not in ("earliest", "latest"):
            raise ConfigurationError("to", to, '"earliest", "latest", a datetime, or offsets by queue')
        return least if to == "earliest" else most

    async def _online(self, group: str, masters: Mapping[str, str]) -> int:
        """Return how many clients of a group are connected."""
        header = GetConsumerConnectionListRequest(consumer_group=self._calls.wire(group))
        code, offline = RequestCode.GET_CONSUMER_CONNECTION_LIST, ResponseCode.CONSUMER_NOT_ONLINE
        found = await self._calls.bodies(ConsumerConnection, masters, code, header, or_code=offline)
        return len({client.client_id for connected in found.values() for client in connected.connections})

    def _span(self, entry: Any, address: str) -> ConsumeTimeSpan:
        try:
            queue = entry["messageQueue"]
            return ConsumeTimeSpan(
                queue=MessageQueue(self._calls.plain(queue["topic"]), queue["brokerName"], queue["queueId"]),
                min_stored_at_ms=entry.get("minTimeStamp", 0),
                max_stored_at_ms=entry.get("maxTimeStamp", 0),
                consumed_at_ms=entry.get("consumeTimeStamp", 0),
                delay_ms=entry.get("delayTime", 0),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(address, f"a consume time span cannot be read: {entry!r:.100}") from error


def _ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ConfigurationError("moment", moment, "a datetime with a time zone, e.g. datetime.now(timezone.utc)")
    return max(_OLDEST_MS, round(moment.timestamp() * 1000))
