"""How far groups are behind, in messages and in time; what they subscribe to and what they may read."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gateway.broker.requests.awaiting import saved
from gateway.errors import RequestRefused
from gateway.remoting.dispatch import Answer
from wire.bodies.message_queue import MessageQueue
from wire.bodies.statistics import ConsumeStats, ConsumeStatsList, OffsetWrapper
from wire.bodies.subscriptions import GroupForbidden, QuerySubscriptionAnswer
from wire.bodies.time_spans import ConsumeTimeSpans, QueueTimeSpan
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import GetConsumeStatsInBrokerRequest
from wire.headers.subscriptions import UpdateGroupForbiddenRequest
from wire.headers.topics import QueryConsumeTimeSpanRequest, QuerySubscriptionByConsumerRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.broker.cold_reads import ColdReads
    from gateway.broker.flows import Flows
    from gateway.clock import Milliseconds
    from gateway.membership.consumers import Consumers
    from gateway.metadata.groups import Groups
    from gateway.metadata.offsets import ConsumerOffsets
    from gateway.metadata.topics import Topics
    from gateway.remoting.dispatch import Dispatch, Request
    from gateway.store.message_store import MessageStore
    from wire.bodies.topics import TopicConfig


class Consumption:
    """Answers QUERY_CONSUME_TIME_SPAN (303), GET_BROKER_CONSUME_STATS (317), QUERY_SUBSCRIPTION_BY_CONSUMER (345) and
    UPDATE_AND_GET_GROUP_FORBIDDEN (353).

    :param address: of the broker as tools shall see it, ``host:port``, for those who reached it on a channel.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        consumers: Consumers,
        flows: Flows,
        cold_reads: ColdReads,
        clock_ms: Milliseconds,
        broker_name: str,
        address: Callable[[Request], str],
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._consumers = consumers
        self._flows = flows
        self._cold_reads = cold_reads
        self._clock_ms = clock_ms
        self._broker_name = broker_name
        self._address = address

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanRequest, self.time_span)
        dispatch.answers(RequestCode.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerRequest, self.all_groups)
        dispatch.answers(
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, QuerySubscriptionByConsumerRequest, self.subscription
        )
        dispatch.answers(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, UpdateGroupForbiddenRequest, self.forbidden)

    async def time_span(self, _request: Request, header: QueryConsumeTimeSpanRequest) -> Answer:
        """When the first, the last and the last consumed message of each queue were stored."""
        config = self._existing(header.topic)
        offsets = self._offsets.of_topic(header.group, header.topic)
        spans = await self._cold_reads.result(
            lambda: [
                self._span(header.topic, queue_id, offsets.get(queue_id, -1))
                for queue_id in range(config.write_queue_nums)
            ]
        )
        return Answer(body=ConsumeTimeSpans(spans).build())

    async def all_groups(self, request: Request, header: GetConsumeStatsInBrokerRequest) -> Answer:
        """Every group with what it has consumed of each topic; with ``is_order`` of ordered topics only."""
        groups = {name: self._topics_of(name, header.is_order) for name in sorted(self._groups.table())}
        stats = await self._cold_reads.result(
            lambda: {
                name: [self._progress(name, config) for config in configs]
                for name, configs in groups.items()
                if configs
            }
        )
        lags = [
            wrapper.broker_offset - wrapper.consumer_offset
            for of_group in stats.values()
            for of_topic in of_group
            for wrapper in of_topic.offset_table.values()
        ]
        in_flight = [
            wrapper.pull_offset - wrapper.consumer_offset
            for of_group in stats.values()
            for of_topic in of_group
            for wrapper in of_topic.offset_table.values()
        ]
        body = ConsumeStatsList(
            broker_addr=self._address(request),
            consume_stats_list=[{name: of_group} for name, of_group in stats.items()],
            total_diff=sum(lags),
            total_inflight_diff=sum(in_flight),
        )
        return Answer(body=body.build())

    def subscription(self, _request: Request, header: QuerySubscriptionByConsumerRequest) -> Answer:
        """What a connected group wants of a topic; without ``subscription`` when it does not subscribe it."""
        topic = header.topic or ""
        found = self._consumers.subscription(header.group, topic)
        return Answer(body=QuerySubscriptionAnswer(header.group, topic, found).build())

    async def forbidden(self, _request: Request, header: UpdateGroupForbiddenRequest) -> Answer:
        """Forbid a group to read a topic, or allow it again (when ``readable`` is given); says what holds."""
        if header.readable is not None:
            if header.readable is False:
                self._existing(header.topic)
            self._groups.set_readable(header.group, header.topic, header.readable)
            await saved(self._groups.persist, f"what group {header.group} may read")
        readable = self._groups.may_read(header.group, header.topic)
        return Answer(body=GroupForbidden(header.group, header.topic, readable).build())

    # -- figures --------------------------------------------------------------------------------------------

    def _topics_of(self, group: str, ordered_only: bool) -> list[TopicConfig]:
        connected = self._consumers.group(group)
        wanted = None if connected is None or not connected.subscriptions else connected.subscriptions
        found = [self._topics.get(topic) for topic in self._offsets.topics_of(group)]
        return [
            config
            for config in found
            if config is not None
            and (config.order or not ordered_only)
            and (wanted is None or config.topic_name in wanted)
        ]

    def _progress(self, group: str, config: TopicConfig) -> ConsumeStats:
        """How far a group is in a topic; reads store times, so it runs in a thread."""
        topic = config.topic_name
        table: dict[MessageQueue, OffsetWrapper] = {}
        for queue_id in range(config.write_queue_nums):
            consumed = max(self._offsets.query(group, topic, queue_id), 0)
            table[MessageQueue(topic, self._broker_name, queue_id)] = OffsetWrapper(
                broker_offset=self._store.max_offset(topic, queue_id),
                consumer_offset=consumed,
                pull_offset=consumed,
                last_timestamp=max(self._store.stored_at_ms(topic, queue_id, consumed - 1), 0) if consumed else 0,
            )
        return ConsumeStats(table, self._flows.given_per_second(topic, group))

    def _existing(self, topic: str) -> TopicConfig:
        config = self._topics.get(topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return config

    def _span(self, topic: str, queue_id: int, consumed: int) -> QueueTimeSpan:
        """One queue; runs in a thread."""
        store = self._store
        end = store.max_offset(topic, queue_id)
        first_ms = store.earliest_stored_at_ms(topic, queue_id)
        last_ms = store.stored_at_ms(topic, queue_id, end - 1) if end > 0 else -1
        consumed_ms = store.stored_at_ms(topic, queue_id, consumed - 1) if consumed > 0 else first_ms
        delay_ms = 0
        if consumed < end:
            next_ms = store.stored_at_ms(topic, queue_id, max(consumed, store.min_offset(topic, queue_id)))
            delay_ms = self._clock_ms() - next_ms if next_ms >= 0 else 0
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._broker_name, queue_id),
            min_time=first_ms,
            max_time=last_ms,
            consume_time=consumed_ms,
            delay_time=delay_ms,
            min_time_text=_text(first_ms),
            max_time_text=_text(last_ms),
            consume_time_text=_text(consumed_ms),
        )


def _text(moment_ms: int) -> str:
    """A time as upstream writes it here, in local time."""
    return datetime.fromtimestamp(moment_ms / 1000).strftime("%Y-%m-%d#%H:%M:%S:") + f"{moment_ms % 1000:03d}"
