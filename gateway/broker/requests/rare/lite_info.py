"""Figures of lite topics for tools, and the request that offers lite topics to clients once more (5.5).

Upstream: ``LiteManagerProcessor``; `mqadmin` has ``getBrokerLiteInfo``, ``getParentTopicInfo``, ``getLiteTopicInfo``,
``getLiteClientInfo``, ``getLiteGroupInfo`` and ``triggerLiteDispatch``.
"""

from __future__ import annotations

import heapq
from typing import Final, TypeAlias

from gateway.broker.desk import Desk, DeskRequests
from gateway.errors import RequestRefused
from gateway.metadata.lite_attributes import bound_topic, minutes_to_live
from gateway.remoting.declared import CLUSTER_GET, GET, UPDATE, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from wire.bodies.lite import (
    BrokerLiteInfo,
    ClientGroup,
    LiteClientInfo,
    LiteGroupInfo,
    LiteLag,
    LiteTopicInfo,
    ParentTopicInfo,
)
from wire.bodies.tools.statistics import OffsetWrapper, TopicOffset
from wire.codes import RequestCode, ResponseCode
from wire.headers.lite import (
    GetLiteClientInfoRequest,
    GetLiteGroupInfoRequest,
    GetLiteTopicInfoRequest,
    GetParentTopicInfoRequest,
    TriggerLiteDispatchRequest,
)
from wire.message.light_queues import LIGHT_QUEUE_ID, LIGHT_QUEUE_PREFIX, lite_names, lite_queue

MAX_RETURNED: Final = 10_000
"""The largest number of lite topics in one answer, as upstream (``MAX_RETURN_COUNT``)."""
STORE_TYPE: Final = "default"
"""Upstream's name of the store with files."""

Lag: TypeAlias = tuple[int, str, int]
"""The number of messages that a group is behind, the queue, and the offset of the first of these messages."""


class LiteInfo(DeskRequests):
    """Requests of tools about lite topics."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._most_light_queues = desk.settings.max_lmq_consume_queue_num

    @answers_in_turns(RequestCode.GET_BROKER_LITE_INFO, None, CLUSTER_GET, Size.LIST)
    def broker(self, _request: Request, _header: None) -> Work[Answer]:
        """Answer with the figures of all lite topics of the broker."""
        parents = yield from self._desk.lite.parents()
        bound: dict[str, list[str]] = {}
        for number, (name, config) in enumerate(list(self._desk.groups.table().items()), 1):
            topic = bound_topic(config.attributes)
            if topic is not None:
                bound.setdefault(topic, []).append(name)
            if number % ENTRIES_PER_TURN == 0:
                yield
        topics = set((yield from self._desk.lite.queues_with("")))
        info = BrokerLiteInfo(
            store_type=STORE_TYPE,
            max_lmq_num=self._most_light_queues,
            current_lmq_num=len((yield from self._desk.lite.queues_with(LIGHT_QUEUE_PREFIX))),
            lite_subscription_count=self._desk.lite.subscriptions.count,
            order_info_count=len(self._desk.pops.orders),
            cq_table_size=len(topics),
            offset_table_size=len(self._desk.offsets.all()),
            event_map_size=sum(bool(client.ready) for client in self._desk.lite.subscriptions),
            topic_meta=parents,
            group_meta=bound,
        )
        return Answer(body=info.build())
        return Answer(body=info.build())

    @answers(RequestCode.GET_PARENT_TOPIC_INFO, GetParentTopicInfoRequest, needs(on_topic(GET)), Size.LIST)
    async def parent(self, request: Request, header: GetParentTopicInfoRequest) -> Answer:
        """Answer with the figures of one parent topic."""
        minutes = self._minutes(header.topic)
        topic = header.topic or ""
        queues: list[str] = await self._desk.turns.run(self._desk.lite.queues_of(topic), request.channel)
        light_queues: list[str] = await self._desk.turns.run(
            self._desk.lite.queues_with(LIGHT_QUEUE_PREFIX), request.channel
        )
        info = ParentTopicInfo(
            topic=topic,
            ttl=minutes,
            groups=self._desk.lite.groups_of(topic),
            lmq_num=len(light_queues),
            lite_topic_count=len(queues),
        )
        return Answer(body=info.build())

    @answers(RequestCode.GET_LITE_TOPIC_INFO, GetLiteTopicInfoRequest, needs(on_topic(GET, "parentTopic")), Size.LIST)
    async def topic(self, _request: Request, header: GetLiteTopicInfoRequest) -> Answer:
        """Answer with the figures of one lite topic; a lite topic that does not exist has no messages."""
        self._minutes(header.parent_topic)
        parent, lite_topic = header.parent_topic or "", header.lite_topic or ""
        queue = lite_queue(parent, lite_topic)
        clients = self._desk.lite.subscriptions.subscribers(queue, parent)
        end = self._desk.store.max_offset(queue, LIGHT_QUEUE_ID)
        info = LiteTopicInfo(
            parent_topic=parent,
            lite_topic=lite_topic,
            subscriber=[ClientGroup(client.client_id, client.group) for client in clients[:MAX_RETURNED]],
            topic_offset=TopicOffset(self._desk.lite.min_offset(queue), end, await self._stored_at_ms(queue, end - 1)),
        )
        return Answer(body=info.build())

    @answers(
        RequestCode.GET_LITE_CLIENT_INFO,
        GetLiteClientInfoRequest,
        needs(on_topic(GET, "parentTopic"), on_group(GET, "group")),
        Size.LIST,
    )
    async def client(self, request: Request, header: GetLiteClientInfoRequest) -> Answer:
        """Answer with a client's subscriptions; the number of lite topics is −1 if the client reports none."""
        parent, group, client_id = header.parent_topic or "", header.group or "", header.client_id or ""
        config = self._desk.groups.get(group)
        if config is None or bound_topic(config.attributes) != parent:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"Subscription [{group}]-[{parent}] not match.")
        if header.max_count < 1:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"maxCount is {header.max_count}, 1 is the least")
        client = self._desk.lite.subscriptions.find(group, client_id)
        if client is None:
            unknown = LiteClientInfo(
                parent, group, client_id, last_access_time=-1, last_consume_time=0, lite_topic_count=-1
            )
            return Answer(body=unknown.build())
        queues = list(client.queues)
        if client.has_all:
            queues = await self._desk.turns.run(self._desk.lite.queues_of(parent), request.channel)
        info = LiteClientInfo(
            parent,
            group,
            client_id,
            last_access_time=client.popped_ms,
            last_consume_time=client.given_ms,
            lite_topic_count=len(queues),
            lite_topic_set=queues[: min(header.max_count, MAX_RETURNED)],
        )
        return Answer(body=info.build())

    @answers(RequestCode.GET_LITE_GROUP_INFO, GetLiteGroupInfoRequest, needs(on_group(GET, "group")), Size.LIST)
    async def group(self, request: Request, header: GetLiteGroupInfoRequest) -> Answer:
        """Answer how far a group is behind: in one lite topic, or in all of its lite topics.

        For all lite topics, the answer names those in which the group is furthest behind.
        """
        group = header.group or ""
        parent = self._parent_of(group)
        if header.lite_topic:
            return await self._group_in(group, parent, header.lite_topic)
        if header.top_k < 1:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"topK is {header.top_k}, 1 is the least")
        top = min(header.top_k, MAX_RETURNED)
        lags = await self._desk.turns.run(self._lags(parent, group), request.channel)
        info = await self._desk.cold_reads.tool_result(lambda: self._lag_info(group, parent, lags, top))
        return Answer(body=info.build())

    def _lags(self, parent: str, group: str) -> Work[list[Lag]]:
        """Return how far a group is behind in each of its lite topics; those in which it is not behind are left out."""
        queues = yield from self._wanted(parent, group)
        lags: list[Lag] = []
        for number, queue in enumerate(queues, 1):
            position = self._position(queue, group)
            lag = self._desk.store.max_offset(queue, LIGHT_QUEUE_ID) - position
            if lag > 0:
                lags.append((lag, queue, position))
            if number % ENTRIES_PER_TURN == 0:
                yield
        return lags

    def _lag_info(self, group: str, parent: str, lags: list[Lag], top: int) -> LiteGroupInfo:
        """Return the answer about a group; runs in a thread, because the times of the messages are in the log."""
        oldest = sorted(map(self._timed, lags), key=lambda lag: lag.earliest_unconsumed_timestamp)
        return LiteGroupInfo(
            group=group,
            parent_topic=parent,
            earliest_unconsumed_timestamp=oldest[0].earliest_unconsumed_timestamp if oldest else -1,
            total_lag_count=sum(lag for lag, _, _ in lags),
            lag_count_top_k=[self._timed(lag) for lag in heapq.nlargest(top, lags)],
            lag_timestamp_top_k=oldest[:top],
        )

    async def _group_in(self, group: str, parent: str, lite_topic: str) -> Answer:
        queue = lite_queue(parent, lite_topic)
        end = self._desk.store.max_offset(queue, LIGHT_QUEUE_ID)
        position = self._position(queue, group)
        lag = end - position
        wrapper = OffsetWrapper(end, position, 0, await self._stored_at_ms(queue, position - 1))
        info = LiteGroupInfo(
            group=group,
            parent_topic=parent,
            lite_topic=lite_topic,
            earliest_unconsumed_timestamp=await self._stored_at_ms(queue, position) if lag else -1,
            total_lag_count=lag if end else -1,
            lite_topic_offset_wrapper=wrapper if end else None,
        )
        return Answer(body=info.build())

    @answers(RequestCode.TRIGGER_LITE_DISPATCH, TriggerLiteDispatchRequest, needs(on_group(UPDATE, "group")))
    async def trigger(self, request: Request, header: TriggerLiteDispatchRequest) -> Answer:
        """Offer all lite topics with messages to the clients of a group, or to one client."""
        group = header.group or ""
        self._parent_of(group)
        clients = self._desk.lite.subscriptions.of_group(group)
        if header.client_id:
            client = self._desk.lite.subscriptions.find(group, header.client_id)
            clients = [] if client is None else [client]
        await self._desk.turns.run(self._desk.lite.offering_all(clients), request.channel)
        return Answer()

    # -- inside ---------------------------------------------------------------------------------------------

    def _minutes(self, parent: str | None) -> int:
        """Return for how many minutes the lite topics of a parent live."""
        config = self._desk.topics.get(parent or "")
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic [{parent}] not exist.")
        if not self._desk.topics.is_lite_parent(config.topic_name):
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"Topic [{parent}] type not match.")
        return minutes_to_live(config.attributes)

    def _parent_of(self, group: str) -> str:
        config = self._desk.groups.get(group)
        parent = None if config is None else bound_topic(config.attributes)
        if parent is None:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"Group [{group}] is not a LITE group.")
        return parent

    def _wanted(self, parent: str, group: str) -> Work[list[str]]:
        """Return the lite topics of a parent from which a group has consumed, or to which it subscribes."""
        queues = yield from self._desk.lite.queues_of(parent)
        subscribed: set[str] = set()
        for number, client in enumerate(self._desk.lite.subscriptions.of_group(group), 1):
            if client.parent == parent:
                if client.has_all:
                    return queues
                subscribed.update(client.queues)
            if number % ENTRIES_PER_TURN == 0:
                yield
        wanted: list[str] = []
        for number, queue in enumerate(queues, 1):
            if queue in subscribed or self._desk.offsets.query(group, queue, LIGHT_QUEUE_ID) >= 0:
                wanted.append(queue)
            if number % ENTRIES_PER_TURN == 0:
                yield
        return wanted

    def _position(self, queue: str, group: str) -> int:
        return max(self._desk.offsets.query(group, queue, LIGHT_QUEUE_ID), self._desk.lite.min_offset(queue))

    async def _stored_at_ms(self, queue: str, offset: int) -> int:
        """Return when a message was stored, in epoch milliseconds; 0 if there is no such message."""
        if offset < 0:
            return 0
        store = self._desk.store
        stored_at_ms = await self._desk.cold_reads.tool_result(
            lambda: store.stored_at_ms(queue, LIGHT_QUEUE_ID, offset)
        )
        return max(0, stored_at_ms)

    def _timed(self, lag: Lag) -> LiteLag:
        count, queue, position = lag
        at_ms = self._desk.store.stored_at_ms(queue, LIGHT_QUEUE_ID, position)
        return LiteLag((lite_names(queue) or ("", queue))[1], count, at_ms)
