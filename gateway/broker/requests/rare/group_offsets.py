"""The offsets of whole groups: copied to another group, compared between groups, or listed for all groups."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from gateway.access.needs import topic_needs
from gateway.broker.awaiting import saved
from gateway.broker.desk import DeskRequests
from gateway.broker.requests.listed import listed
from gateway.errors import RequestRefused
from gateway.metadata.names import check_group_name, check_movable
from gateway.metadata.offsets import SEPARATOR
from gateway.remoting.declared import CLUSTER_GET, GET, SERVED, UPDATE, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import table_text
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from wire.bodies.tools.statistics import ConsumerOffsetTable, CorrectionOffsets
from wire.codes import RequestCode, ResponseCode
from wire.disk.config_json import DelayOffsetsFile
from wire.headers.offsets import CloneGroupOffsetRequest, QueryCorrectionOffsetRequest

NO_CORRECTION = 2**63 - 1
"""Java's largest long, which says that the compared group is behind all the others.

Never change this value, because tools compare with it.
"""


class GroupOffsets(DeskRequests):
    """Requests about the offsets of whole groups."""

    @answers_in_turns(RequestCode.GET_ALL_CONSUMER_OFFSET, None, CLUSTER_GET, Size.LIST, slave=SERVED)
    def all_offsets(self, _request: Request, _header: None) -> Work[Answer]:
        """Answer with every offset of every group."""
        offsets = self._desk.offsets
        table, version, applied_end = offsets.copy(), offsets.data_version, offsets.applied_end
        what, advice = "offsets of all groups", "ask for single groups (GET_CONSUME_STATS)"
        text: Any = yield from table_text(what, ((key, dict(queues)) for key, queues in table.items()), advice=advice)
        return Answer(body=ConsumerOffsetTable(text, version, applied_end).build())

    @answers(RequestCode.GET_ALL_DELAY_OFFSET, None, CLUSTER_GET, Size.LIST, slave=SERVED)
    def all_delay_offsets(self, _request: Request, _header: None) -> Answer:
        """Answer with the offset that each delay level has reached, in the form of the file of delay offsets."""
        return Answer(body=DelayOffsetsFile(dict(self._desk.delays.offsets())).build())

    @answers(
        RequestCode.QUERY_CORRECTION_OFFSET,
        QueryCorrectionOffsetRequest,
        needs(
            on_group(GET, "compareGroup"), on_group(GET, "filterGroups", optional=True, separator=","), on_topic(GET)
        ),
        Size.LIST,
        slave=SERVED,
    )
    async def correction(self, request: Request, header: QueryCorrectionOffsetRequest) -> Answer:
        """Answer with the lowest offset of any group in each queue of a topic, for a group that shall not be behind it.

        Groups in ``filter_groups`` (separated by commas) do not count. Offsets whose messages are deleted do not count
        either.
        """
        left_out = frozenset(listed(header.filter_groups, ",", "filterGroups"))
        lowest = await self._desk.turns.run(self._lowest(header.topic, left_out), request.channel)
        for queue_id, offset in self._desk.offsets.of_topic(header.compare_group, header.topic).items():
            if queue_id in lowest and lowest[queue_id] > offset:
                lowest[queue_id] = NO_CORRECTION
        return Answer(body=CorrectionOffsets(lowest).build())

    def _lowest(self, topic: str, left_out: Container[str]) -> Work[dict[int, int]]:
        """Return the lowest offset of the groups that count in each queue of a topic."""
        groups = yield from self._desk.offsets.groups_of(topic)
        first: dict[int, int] = {}
        lowest: dict[int, int] = {}
        looked_at = 0
        for group in groups:
            if group in left_out:
                continue
            for queue_id, offset in self._desk.offsets.of_topic(group, topic).items():
                if queue_id not in first:
                    first[queue_id] = self._desk.store.min_offset(topic, queue_id)
                if offset >= first[queue_id]:
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
                looked_at += 1
                if looked_at % ENTRIES_PER_TURN == 0:
                    yield
        return lowest

    @answers(
        RequestCode.CLONE_GROUP_OFFSET,
        CloneGroupOffsetRequest,
        needs(
            on_group(GET, "srcGroup"),
            on_group(UPDATE, "destGroup"),
            on_topic(UPDATE),
            in_body="Topic Update of each topic if `topic` is empty",
        ),
        Size.CHANGING_LIST,
    )
    async def clone(self, request: Request, header: CloneGroupOffsetRequest) -> Answer:
        """Copy a group's offsets in a topic, or in all its topics, to another group.

        The other group has to exist, as for a commit. It keeps its offsets in queues in which the first group has none.
        """
        check_group_name(header.dest_group)
        check_movable(header.dest_group)
        if SEPARATOR in header.dest_group:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"a group's name holds no {SEPARATOR}")
        if self._desk.groups.get(header.dest_group) is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{header.dest_group}] does not exist"
            )
        if header.topic:
            topics = [header.topic]
        else:
            topics = await self._desk.turns.run(self._desk.offsets.topics_of(header.src_group), request.channel)
        online = self._desk.consumers.group(header.src_group)
        if not header.offline and online is not None:
            topics = [topic for topic in topics if online.subscription(topic) is not None]
        if not header.topic:
            groups = header.src_group, header.dest_group
            request.require(*(need for topic in topics for need in topic_needs(topic, UPDATE, groups)))
        await self._desk.turns.run(
            self._copied(header.src_group, header.dest_group, topics), request.channel, goes_on=True
        )
        await saved(self._desk.offsets.persist_owed, f"copy of the offsets of group {header.src_group}")
        return Answer()

    def _copied(self, source: str, target: str, topics: list[str]) -> Work[None]:
        copied = 0
        for topic in topics:
            for queue_id, offset in self._desk.offsets.of_topic(source, topic).items():
                self._desk.offsets.decide(target, topic, queue_id, offset)
                copied += 1
                if copied % ENTRIES_PER_TURN == 0:
                    yield
