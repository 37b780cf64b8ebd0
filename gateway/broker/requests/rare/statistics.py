"""Offsets of queues and groups, for tools: topic statistics, a group's progress, which group consumes which topic.

Upstream: ``AdminBrokerProcessor``, version 5.3.3.
"""

from __future__ import annotations

from typing import Any

from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.requests.listed import listed
from gateway.broker.requests.queue_rows import check_rows, row_text, rows_text
from gateway.errors import RequestRefused
from gateway.remoting.declared import GET, SERVED, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import list_text
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from wire.bodies.fastjson import PreparedText
from wire.bodies.message_queue import MessageQueue
from wire.bodies.tools.statistics import ConsumeStats, GroupList, OffsetWrapper, TopicOffset, TopicStatsTable
from wire.bodies.topics import TopicList
from wire.codes import RequestCode, ResponseCode
from wire.headers.topics import (
    GetConsumeStatsRequest,
    GetTopicStatsInfoRequest,
    QueryTopicConsumeByWhoRequest,
    QueryTopicsByConsumerRequest,
)


class StatisticsRequests(DeskRequests):
    """Requests of tools about the offsets of queues and groups."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._broker_name = desk.settings.broker_name

    @answers(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequest, needs(on_topic(GET)), Size.LIST, slave=SERVED)
    async def topic_stats(self, _request: Request, header: GetTopicStatsInfoRequest) -> Answer:
        """Answer with the first and the next offset of every queue, and the store time of its last message."""
        config = self._desk.topics.get(header.topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        topic, queue_ids = header.topic, range(config.write_queue_nums)
        text = await rows_text(
            f"statistics of topic {topic}",
            self._desk.cold_reads,
            queue_ids,
            lambda queue_id: row_text(self._queue(topic, queue_id), self._topic_offset(topic, queue_id)),
        )
        table: Any = PreparedText(f"{{{text}}}")
        return Answer(body=TopicStatsTable(table).build())

    @answers(
        RequestCode.GET_CONSUME_STATS,
        GetConsumeStatsRequest,
        needs(on_group(GET), on_topic(GET, optional=True), on_topic(GET, "topicList", optional=True, separator=";")),
        Size.LIST,
        slave=SERVED,
    )
    async def consume_stats(self, request: Request, header: GetConsumeStatsRequest) -> Answer:
        """Answer with a group's progress in each queue of the requested topics, or of all topics it consumes."""
        group = header.consumer_group
        places, per_second = await self._desk.turns.run(self._places(header), request.channel)
        text = await rows_text(
            f"progress of group {group}",
            self._desk.cold_reads,
            places,
            lambda place: row_text(self._queue(*place), self._progress(group, *place)),
        )
        table: Any = PreparedText(f"{{{text}}}")
        return Answer(body=ConsumeStats(offset_table=table, consume_tps=per_second).build())

    @answers_in_turns(
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        QueryTopicConsumeByWhoRequest,
        needs(on_topic(GET)),
        Size.LIST,
        slave=SERVED,
    )
    def groups_of_topic(self, _request: Request, header: QueryTopicConsumeByWhoRequest) -> Work[Answer]:
        """Answer with the groups that subscribe to a topic now, or have offsets in it."""
        topic = header.topic
        committed = yield from self._desk.offsets.groups_of(topic)
        groups = {*self._desk.consumers.groups_of_topic(topic), *committed}
        text = yield from list_text(f"groups of topic {topic}", sorted(groups))
        return Answer(body=GroupList(text).build())

    @answers_in_turns(
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        QueryTopicsByConsumerRequest,
        needs(on_group(GET, "group")),
        Size.LIST,
        slave=SERVED,
    )
    def topics_of_group(self, _request: Request, header: QueryTopicsByConsumerRequest) -> Work[Answer]:
        """Answer with the topics in which a group has offsets."""
        topics = yield from self._desk.offsets.topics_of(header.group)
        text = yield from list_text(f"topics of group {header.group}", topics)
        return Answer(body=TopicList(text).build())

    def _places(self, header: GetConsumeStatsRequest) -> Work[tuple[list[tuple[str, int]], float]]:
        """Return the queues of the wanted topics that a group consumes, and the messages that it gets in a second."""
        group = header.consumer_group
        topics = yield from self._stats_topics(header)
        connected = self._desk.consumers.group(group)
        subscribed = connected.subscriptions if connected is not None else {}  # unpacked here, not for each topic
        places: list[tuple[str, int]] = []
        per_second = 0.0
        for number, topic in enumerate(topics, 1):
            config = self._desk.topics.get(topic)
            if config is not None and (not subscribed or topic in subscribed):
                check_rows(f"progress of group {group}", len(places) + config.read_queue_nums)
                places.extend((topic, queue_id) for queue_id in range(config.read_queue_nums))
                per_second += self._desk.flows.given_per_second(topic, group)
            if number % ENTRIES_PER_TURN == 0:
                yield
        return places, per_second

    def _stats_topics(self, header: GetConsumeStatsRequest) -> Work[list[str]]:
        topics = listed(header.topic_list, ";", "topicList")
        if topics:
            return list(dict.fromkeys(topics))
        if header.topic:
            return [header.topic]
        return (yield from self._desk.offsets.topics_of(header.consumer_group))

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic=topic, broker_name=self._broker_name, queue_id=queue_id)

    def _topic_offset(self, topic: str, queue_id: int) -> TopicOffset:
        min_offset = max(self._desk.store.min_offset(topic, queue_id), 0)
        max_offset = self._desk.store.max_offset(topic, queue_id)
        return TopicOffset(
            min_offset=min_offset,
            max_offset=max_offset,
            last_update_timestamp=self._stored_at_ms(topic, queue_id, max_offset - 1),
        )

    def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        broker_offset = max(self._desk.store.max_offset(topic, queue_id), 0)
        consumer_offset = max(self._desk.offsets.query(group, topic, queue_id), 0)
        return OffsetWrapper(
            broker_offset=broker_offset,
            consumer_offset=consumer_offset,
            pull_offset=consumer_offset,
            last_timestamp=self._stored_at_ms(topic, queue_id, consumer_offset - 1),
        )

    def _stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """Return when a message was stored, in epoch milliseconds; 0 if there is no such message."""
        return max(self._desk.store.stored_at_ms(topic, queue_id, offset), 0) if offset >= 0 else 0
