"""The offsets of groups as a whole: copied to another group, compared between groups, or all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.requests.awaiting import saved
from gateway.errors import RequestRefused
from gateway.metadata.names import check_group_name, check_movable
from gateway.metadata.offsets import SEPARATOR
from gateway.remoting.dispatch import Answer
from wire.bodies.statistics import ConsumerOffsetTable, CorrectionOffsets
from wire.codes import RequestCode, ResponseCode
from wire.disk.config_json import DelayOffsetsFile
from wire.headers.offsets import CloneGroupOffsetRequest, QueryCorrectionOffsetRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.membership.consumers import Consumers
    from gateway.metadata.offsets import ConsumerOffsets
    from gateway.remoting.dispatch import Dispatch, Request
    from gateway.store.message_store import MessageStore

NO_CORRECTION = 2**63 - 1
"""Java's largest long: the compared group is behind all the others. Never change: tools compare with it."""


class GroupOffsets:
    """Answers GET_ALL_CONSUMER_OFFSET (43), GET_ALL_DELAY_OFFSET (45), QUERY_CORRECTION_OFFSET (308) and
    CLONE_GROUP_OFFSET (314).

    :param delay_offsets: delay level to the next offset in its queue.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        offsets: ConsumerOffsets,
        consumers: Consumers,
        delay_offsets: Callable[[], Mapping[int, int]],
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._consumers = consumers
        self._delay_offsets = delay_offsets

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.GET_ALL_CONSUMER_OFFSET, None, self.all_offsets)
        dispatch.answers(RequestCode.GET_ALL_DELAY_OFFSET, None, self.all_delay_offsets)
        dispatch.answers(RequestCode.QUERY_CORRECTION_OFFSET, QueryCorrectionOffsetRequest, self.correction)
        dispatch.answers(RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffsetRequest, self.clone)

    def all_offsets(self, _request: Request, _header: None) -> Answer:
        """Every offset of every group."""
        return Answer(body=ConsumerOffsetTable(self._offsets.all(), self._offsets.data_version).build())

    def all_delay_offsets(self, _request: Request, _header: None) -> Answer:
        """How far each delay level has come, as its file says it."""
        return Answer(body=DelayOffsetsFile(dict(self._delay_offsets())).build())

    def correction(self, _request: Request, header: QueryCorrectionOffsetRequest) -> Answer:
        """The lowest offset of any group in each queue of a topic, for a group that shall not be behind it.

        Groups of ``filter_groups`` (separated by commas) do not count, nor do offsets whose messages are gone.
        """
        left_out = frozenset((header.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            if group in left_out:
                continue
            for queue_id, offset in self._offsets.of_topic(group, header.topic).items():
                if offset >= self._store.min_offset(header.topic, queue_id):
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        for queue_id, offset in self._offsets.of_topic(header.compare_group, header.topic).items():
            if queue_id in lowest and lowest[queue_id] > offset:
                lowest[queue_id] = NO_CORRECTION
        return Answer(body=CorrectionOffsets(lowest).build())

    async def clone(self, _request: Request, header: CloneGroupOffsetRequest) -> Answer:
        """Copy a group's offsets in a topic, or in all its topics, to another group; queues it has not stay."""
        check_group_name(header.dest_group)
        check_movable(header.dest_group)
        if SEPARATOR in header.dest_group:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"a group's name holds no {SEPARATOR}")
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.src_group)
        online = self._consumers.group(header.src_group)
        for topic in topics:
            if not header.offline and online is not None and online.subscription(topic) is None:
                continue
            for queue_id, offset in self._offsets.of_topic(header.src_group, topic).items():
                self._offsets.commit(header.dest_group, topic, queue_id, offset)
        await saved(self._offsets.persist, f"copy of the offsets of group {header.src_group}")
        return Answer()
