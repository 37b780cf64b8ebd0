"""Resetting a group's offsets, back or forward: to a time, to an offset, or to the end of the queues.

By default the broker sets the offsets itself, as upstream does since 5.x, whether the group is online or not. The next
pull of a running consumer is then answered that its offset moved (``ConsumerOffsets.resets``). In the older way
(useServerSideResetOffset=false) the broker sends running clients their new offsets, and the clients commit them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.broker.awaiting import saved
from gateway.broker.client_calls import check_version, members_of
from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.requests.queue_rows import queue_table, read_rows
from gateway.errors import RequestRefused
from gateway.metadata.names import check_movable
from gateway.remoting.declared import UPDATE, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import list_text
from gateway.remoting.requests import answers
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from gateway.telemetry.logs import EventLog
from wire.bodies.message_queue import MessageQueue
from wire.bodies.tools.statistics import QueueOffset, ResetOffsetBody, ResetOffsetBodyForC
from wire.bodies.topics import TopicConfig
from wire.codes import LanguageCode, RequestCode, ResponseCode
from wire.headers.offsets import ResetOffsetRequest

ALL_QUEUES = -1
MAX_TOLD_BYTES = 67_108_864
"""Bytes of new offsets that are sent to all clients of a group: 64 MiB do for 1,000 clients and 1,000 queues."""
TOLD_SINCE_VERSION = 28
"""V3_0_7_SNAPSHOT: older clients do not know RESET_CONSUMER_CLIENT_OFFSET."""

log = EventLog("offsets")


class ResetOffsets(DeskRequests):
    """Answers INVOKE_BROKER_TO_RESET_OFFSET (222)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._broker_name = desk.settings.broker_name
        self._by_server = desk.settings.use_server_side_reset_offset

    @answers(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        ResetOffsetRequest,
        needs(on_group(UPDATE, "group"), on_topic(UPDATE)),
        Size.CHANGING_LIST,
    )
    async def reset(self, request: Request, header: ResetOffsetRequest) -> Answer:
        """Set the queues of a topic, or one of them, and answer with the new offsets."""
        check_movable(header.group)
        topic = self._desk.topics.get(header.topic)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
        if self._by_server:
            table = await self._set(request, header, topic)
        else:
            table = await self._tell(request, header, topic)
        log.info(
            "consumer offsets reset",
            group=header.group,
            topic=header.topic,
            queues=len(table),
            by=request.channel.remote_text,
        )
        return Answer(body=await self._java_body(request, header.topic, table))

    # -- by the broker --------------------------------------------------------------------------------------

    async def _set(self, request: Request, header: ResetOffsetRequest, topic: TopicConfig) -> Mapping[int, int]:
        group = header.group
        if self._desk.groups.get(group) is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
        table = await self._targets(header, topic)
        if not table:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
        await self._desk.turns.run(self._applied(group, header.topic, table), request.channel, goes_on=True)
        await saved(self._desk.offsets.persist, f"reset of the offsets of group {group}")
        return table

    def _applied(self, group: str, topic: str, table: Mapping[int, int]) -> Work[None]:
        rows = list(table.items())
        members = self._desk.consumers.broadcasting_members(group)
        at_once = max(ENTRIES_PER_TURN // max(len(members), 1), 1)
        for first in range(0, len(rows), at_once):
            if first:
                yield
            some = rows[first : first + at_once]
            for queue_id, offset in some:
                self._desk.offsets.reset(group, topic, queue_id, offset, members)
            self._desk.pops.reset(group, topic, some)
            for queue_id, _ in some:
                self._desk.held.wake(topic, queue_id)

    async def _targets(self, header: ResetOffsetRequest, topic: TopicConfig) -> dict[int, int]:
        """Return the new offset of each queue."""
        if header.queue_id == ALL_QUEUES:
            return await self._at_time(header, range(topic.read_queue_nums))
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic[{header.topic}] has {topic.read_queue_nums} queues",
            )
        if header.offset is None:
            return await self._at_time(header, range(header.queue_id, header.queue_id + 1))
        first = max(0, self._desk.store.min_offset(header.topic, header.queue_id))
        end = self._desk.store.max_offset(header.topic, header.queue_id)
        if not first <= header.offset <= end + 1:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"Target offset {header.offset} not in consume queue range [{first}-{end}]"
            )
        # Upstream takes one more than the end, and keeps it: the group would miss the message that comes next.
        return {header.queue_id: min(header.offset, end)}

    async def _at_time(self, header: ResetOffsetRequest, queue_ids: range) -> dict[int, int]:
        """Return the offsets for the header's time, or the ends of the queues if the time is negative."""
        store, topic, timestamp = self._desk.store, header.topic, header.timestamp
        if timestamp < 0:
            offsets = await read_rows(
                self._desk.cold_reads, queue_ids, lambda queue_id: store.max_offset(topic, queue_id)
            )
        else:
            offsets = await read_rows(
                self._desk.cold_reads, queue_ids, lambda queue_id: store.offset_at_time(topic, queue_id, timestamp)
            )
        return dict(zip(queue_ids, offsets, strict=True))

    # -- by the clients -------------------------------------------------------------------------------------

    async def _tell(self, request: Request, header: ResetOffsetRequest, topic: TopicConfig) -> Mapping[int, int]:
        group = header.group
        committed = self._desk.offsets.of_topic(group, header.topic)
        for queue_id in range(topic.write_queue_nums):
            if queue_id not in committed:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{group}> not exist")
        targets = await self._at_time(header, range(topic.write_queue_nums))
        # Without force a group is only ever set back: what it has not consumed yet is not lost to it.
        table = {
            queue_id: target if header.is_force or target < committed[queue_id] else committed[queue_id]
            for queue_id, target in targets.items()
        }
        members = members_of(self._desk.consumers, group)
        if not members:
            raise RequestRefused(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {group} Topic: {header.topic} "
                f"Timestamp: {header.timestamp}",
            )
        for client in members:
            check_version(client, TOLD_SINCE_VERSION)
        bodies: dict[bool, bytes] = {}
        for client in members:
            is_c = client.language == LanguageCode.CPP
            if is_c not in bodies:
                make = self._c_body if is_c else self._java_body
                bodies[is_c] = await make(request, header.topic, table)
                _check_told_bytes(group, len(members), bodies[is_c])
        for client in members:
            body = bodies[client.language == LanguageCode.CPP]
            client.channel.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body)
        return table

    async def _java_body(self, request: Request, topic: str, table: Mapping[int, int]) -> bytes:
        rows = ((MessageQueue(topic, self._broker_name, queue_id), offset) for queue_id, offset in table.items())
        text: Any = await self._desk.turns.run(queue_table(f"new offsets in topic {topic}", rows), request.channel)
        return ResetOffsetBody(text).build()

    async def _c_body(self, request: Request, topic: str, table: Mapping[int, int]) -> bytes:
        rows = (QueueOffset(topic, self._broker_name, queue_id, offset).to_json() for queue_id, offset in table.items())
        text: Any = await self._desk.turns.run(list_text(f"new offsets in topic {topic}", rows), request.channel)
        return ResetOffsetBodyForC(text).build()


def _check_told_bytes(group: str, members: int, body: bytes) -> None:
    """Refuse a reset whose notices would not fit into memory while they wait to be sent."""
    if members * len(body) > MAX_TOLD_BYTES:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"{members} clients of group {group} would be sent {len(body)} bytes each, the limit is {MAX_TOLD_BYTES} "
            "bytes in all; set useServerSideResetOffset=true, then the broker resets by itself",
        )
