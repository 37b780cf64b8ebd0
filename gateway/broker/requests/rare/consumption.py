"""The progress of groups: how far they are behind in messages and in time, what they subscribe to and may read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Any, Final, NamedTuple

from gateway.broker.awaiting import saved
from gateway.broker.cold_reads import TOOLS
from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.requests.queue_rows import check_rows, row_text, rows_text
from gateway.errors import RequestRefused
from gateway.metadata.names import check_group_name
from gateway.remoting.declared import CLUSTER_GET, GET, SERVED, UPDATE, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import MAX_LIST_BYTES, item_text, list_text, too_long
from gateway.remoting.requests import answers
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from wire.bodies.fastjson import PreparedText
from wire.bodies.message_queue import MessageQueue
from wire.bodies.subscriptions import GroupForbidden, QuerySubscriptionAnswer
from wire.bodies.tools.statistics import ConsumeStats, ConsumeStatsList, ConsumeTimeSpans, OffsetWrapper, QueueTimeSpan
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import GetConsumeStatsInBrokerRequest
from wire.headers.groups import UpdateGroupForbiddenRequest
from wire.headers.topics import QueryConsumeTimeSpanRequest, QuerySubscriptionByConsumerRequest
from wire.message.message_id import unpack_host

ALL_PROGRESS: Final = "progress of all groups"


class _Slice(NamedTuple):
    """A part of the queues of a topic that a group consumes; ``pair`` is the number of the group with this topic."""

    pair: int
    group: str
    topic: str
    queues: range


class _Progress:
    """The progress of all groups as text: one table for each group and topic."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.behind = self.in_flight = 0
        self._bytes = 0

    def add(self, told: list[tuple[_Slice, str, int, int]]) -> None:
        """Keep what was read of some slices, which come in order.

        :raises RequestRefused: SYSTEM_ERROR: the text does not fit into a frame.
        """
        for some, text, behind, in_flight in told:
            self._bytes += len(text)
            self.behind += behind
            self.in_flight += in_flight
            if some.pair < len(self.tables):
                self.tables[-1] += f",{text}"
            else:
                self.tables.append(text)
        if self._bytes > MAX_LIST_BYTES:
            raise too_long(ALL_PROGRESS, "ask for single groups")


class Consumption(DeskRequests):
    """Requests about the progress of groups."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._broker_name = desk.settings.broker_name

    @answers(
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        QueryConsumeTimeSpanRequest,
        needs(on_group(GET, "group"), on_topic(GET)),
        Size.LIST,
        slave=SERVED,
    )
    async def time_span(self, _request: Request, header: QueryConsumeTimeSpanRequest) -> Answer:
        """Answer with the store times of each queue's first, last and last consumed message."""
        config = self._existing(header.topic)
        offsets = self._desk.offsets.of_topic(header.group, header.topic)
        topic = header.topic
        check_rows(f"time spans of topic {topic}", config.write_queue_nums)
        text: Any = await rows_text(
            f"time spans of topic {topic}",
            self._desk.cold_reads,
            range(config.write_queue_nums),
            lambda queue_id: item_text(self._span(topic, queue_id, offsets.get(queue_id, -1)).to_json()),
        )
        text = PreparedText(f"[{text}]")  # one name: it may be 16 MiB, and only one of the two is needed
        return Answer(body=ConsumeTimeSpans(text).build())

    @answers(RequestCode.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerRequest, CLUSTER_GET, Size.LIST, slave=SERVED)
    async def all_groups(self, request: Request, header: GetConsumeStatsInBrokerRequest) -> Answer:
        """Answer with every group's progress in each topic; with ``is_order`` only in ordered topics."""
        pairs = await self._desk.turns.run(self._consumed(header.is_order), request.channel)
        progress = _Progress()
        for some in _batches(pairs):
            told = await self._desk.cold_reads.result(
                lambda some=some: [self._slice(one) for one in some],  # type: ignore[misc]
                TOOLS,
                is_long=True,
            )
            progress.add(told)
        groups: Any = await self._desk.turns.run(self._by_group(pairs, progress.tables), request.channel)
        body = ConsumeStatsList(
            broker_addr="{}:{}".format(*unpack_host(self._desk.store_hosts.of(request.channel))),
            consume_stats_list=groups,
            total_diff=progress.behind,
            total_inflight_diff=progress.in_flight,
        )
        return Answer(body=body.build())

    @answers(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        QuerySubscriptionByConsumerRequest,
        needs(on_group(GET, "group"), on_topic(GET, optional=True)),
        slave=SERVED,
    )
    def subscription(self, _request: Request, header: QuerySubscriptionByConsumerRequest) -> Answer:
        """Answer with a connected group's subscription to a topic; without ``subscription`` if the group has none."""
        topic = header.topic or ""
        found = self._desk.consumers.subscription(header.group, topic)
        return Answer(body=QuerySubscriptionAnswer(header.group, topic, found).build())

    @answers(
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
        UpdateGroupForbiddenRequest,
        needs(on_group(UPDATE, "group"), on_topic(UPDATE)),
    )
    async def forbidden(self, request: Request, header: UpdateGroupForbiddenRequest) -> Answer:
        """Forbid or allow a group to read a topic, if ``readable`` is given; answer with the rule in force.

        Group and topic exist: a group is made as by its first pull, and counts as made for the asking host.
        """
        if header.readable is not None:
            if header.readable is False:
                check_group_name(header.group)
                self._existing(header.topic)
                if self._desk.groups.find(header.group, request.channel.remote[0]) is None:
                    raise RequestRefused(
                        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {header.group}"
                    )
            self._desk.groups.set_readable(header.group, header.topic, header.readable)
            await saved(self._desk.groups.persist, f"what group {header.group} may read")
        readable = self._desk.groups.may_read(header.group, header.topic)
        return Answer(body=GroupForbidden(header.group, header.topic, readable).build())

    # -- figures --------------------------------------------------------------------------------------------

    def _consumed(self, ordered_only: bool) -> Work[list[tuple[str, TopicConfig]]]:
        """Return every group with each topic in which it has offsets, sorted by name.

        Topics to which a connected group no longer subscribes are left out.

        :raises RequestRefused: SYSTEM_ERROR: the topics have too many queues for one answer.
        """
        known, of_group = self._desk.groups.table(), dict[str, list[TopicConfig]]()
        for number, (group, topic) in enumerate(self._desk.offsets.pairs(), 1):
            config = self._desk.topics.get(topic)
            if group in known and config is not None and (config.order or not ordered_only):
                of_group.setdefault(group, []).append(config)
            if number % ENTRIES_PER_TURN == 0:
                yield
        pairs: list[tuple[str, TopicConfig]] = []
        looked_at = queues = 0
        for group in sorted(of_group):
            connected = self._desk.consumers.group(group)
            subscribed = connected.subscriptions if connected is not None else {}  # unpacked once for each group
            configs = [one for one in of_group[group] if not subscribed or one.topic_name in subscribed]
            pairs += [(group, config) for config in sorted(configs, key=lambda config: config.topic_name)]
            queues += sum(config.write_queue_nums for config in configs)
            check_rows(ALL_PROGRESS, queues)
            looked_at += 1 + len(of_group[group]) + len(subscribed)
            if looked_at >= ENTRIES_PER_TURN:
                looked_at = 0
                yield
        return pairs

    def _by_group(self, pairs: list[tuple[str, TopicConfig]], tables: list[str]) -> Work[PreparedText]:
        """Make the text of all groups with their topics from one table for each pair."""
        groups: list[Any] = []
        at = 0
        for group, of_group in groupby(pairs, key=lambda pair: pair[0]):
            stats = []
            for _, config in of_group:
                table: Any = PreparedText(f"{{{tables[at]}}}")
                tables[at] = ""
                stats.append(ConsumeStats(table, self._desk.flows.given_per_second(config.topic_name, group)).to_json())
                at += 1
                if at % ENTRIES_PER_TURN == 0:
                    yield
            groups.append({group: stats})
        return (yield from list_text(ALL_PROGRESS, groups, advice="ask for single groups"))

    def _slice(self, some: _Slice) -> tuple[_Slice, str, int, int]:
        """Return the text of some queues of a group's topic, and how far the group is behind; runs in a thread."""
        texts: list[str] = []
        behind = in_flight = 0
        for number in some.queues:
            row = self._progress(some.group, some.topic, number)
            behind += row.broker_offset - row.consumer_offset
            in_flight += row.pull_offset - row.consumer_offset
            texts.append(row_text(MessageQueue(some.topic, self._broker_name, number), row))
        return some, ",".join(texts), behind, in_flight

    def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        """Return a group's progress in a queue; runs in a thread, because it reads a store time."""
        store = self._desk.store
        consumed = max(self._desk.offsets.query(group, topic, queue_id), 0)
        return OffsetWrapper(
            broker_offset=store.max_offset(topic, queue_id),
            consumer_offset=consumed,
            pull_offset=consumed,
            last_timestamp=max(store.stored_at_ms(topic, queue_id, consumed - 1), 0) if consumed else 0,
        )

    def _existing(self, topic: str) -> TopicConfig:
        config = self._desk.topics.get(topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return config

    def _span(self, topic: str, queue_id: int, consumed: int) -> QueueTimeSpan:
        """Return the times of one queue; runs in a thread."""
        store = self._desk.store
        end = store.max_offset(topic, queue_id)
        first_ms = store.earliest_stored_at_ms(topic, queue_id)
        last_ms = store.stored_at_ms(topic, queue_id, end - 1) if end > 0 else -1
        consumed_ms = store.stored_at_ms(topic, queue_id, consumed - 1) if consumed > 0 else first_ms
        delay_ms = 0
        if consumed < end:
            next_ms = store.stored_at_ms(topic, queue_id, max(consumed, store.min_offset(topic, queue_id)))
            delay_ms = self._desk.clock() - next_ms if next_ms >= 0 else 0
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


def _batches(pairs: list[tuple[str, TopicConfig]]) -> Iterator[list[_Slice]]:
    """Divide all queues of these groups and topics into pieces of about ``ENTRIES_PER_TURN`` queues."""
    some: list[_Slice] = []
    rows = 0
    for pair, (group, config) in enumerate(pairs):
        queues = range(config.write_queue_nums)
        for first in range(0, max(len(queues), 1), ENTRIES_PER_TURN):
            some.append(_Slice(pair, group, config.topic_name, queues[first : first + ENTRIES_PER_TURN]))
            rows += 1 + len(some[-1].queues)
            if rows >= ENTRIES_PER_TURN:
                yield some
                some, rows = [], 0
    if some:
        yield some


def _text(moment_ms: int) -> str:
    """Return a time in upstream's form for this answer, in local time."""
    return datetime.fromtimestamp(moment_ms / 1000).strftime("%Y-%m-%d#%H:%M:%S:") + f"{moment_ms % 1000:03d}"
