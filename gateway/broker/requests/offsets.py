"""Consumer offsets and the bounds of queues: a group's offset in a queue, a queue's start and end.

Upstream: ``ConsumerManageProcessor`` and ``AdminBrokerProcessor``, version 5.3.3.
"""

from __future__ import annotations

from gateway.broker.awaiting import not_on_disk
from gateway.broker.desk import DeskRequests
from gateway.errors import RequestRefused
from gateway.metadata.names import check_movable
from gateway.remoting.declared import GET, SERVED, SUB, UPDATE, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers, answers_directly
from wire.codes import RequestCode, ResponseCode
from wire.errors import FieldError
from wire.headers.declare import read_header
from wire.headers.offsets import (
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
    SearchOffsetRequest,
    SearchOffsetResponse,
    UpdateConsumerOffsetRequest,
)
from wire.message.light_queues import LIGHT_QUEUE_ID, lite_queue

BOUNDARY_UPPER = "UPPER"
COMMITTED = "committed"


class OffsetRequests(DeskRequests):
    """Requests about consumer offsets and the bounds of queues."""

    @answers_directly(RequestCode.UPDATE_CONSUMER_OFFSET, needs(on_group(SUB | UPDATE), on_topic(SUB | UPDATE)))
    def update(self, request: Request) -> None:
        """Commit a group's offset in a queue; requests are mostly one-way and come every few seconds for each queue."""
        try:
            header = read_header(UpdateConsumerOffsetRequest, request.command)
        except FieldError as error:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from error
        group, topic = header.consumer_group, header.topic
        check_movable(group)
        if self._desk.groups.get(group) is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group}] does not exist"
            )
        config = self._desk.topics.get(topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] does not exist")
        if header.queue_id < 0 or header.commit_offset < 0:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId {header.queue_id} and commitOffset {header.commit_offset} must not be negative",
            )
        queues = max(config.read_queue_nums, config.write_queue_nums)
        if header.queue_id >= queues and not self._desk.store.max_offset(topic, header.queue_id):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"queueId {header.queue_id}: topic [{topic}] has {queues} queues"
            )
        if not self._desk.offsets.commit(group, topic, header.queue_id, header.commit_offset):
            raise self._overruled(header)
        reason = self._desk.offsets.unsaved_reason
        if reason is not None:
            raise not_on_disk(f"offset of group {group} in queue {header.queue_id} of topic {topic}", reason)
        request.answer(ResponseCode.SUCCESS)

    def _overruled(self, header: UpdateConsumerOffsetRequest) -> RequestRefused:
        """Return the refusal of a commit that a reset overrules.

        Consumers commit one-way and never see the refusal, but a sender that asks for an answer wants to know.
        """
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        target = self._desk.offsets.resets[group, topic, queue_id]
        return RequestRefused(
            ResponseCode.PULL_OFFSET_MOVED,
            f"offset {header.commit_offset} of group {group} in queue {queue_id} of topic {topic} is not kept: the "
            "queue was reset, or its topic was deleted and made again, and the group's consumer is sent to offset "
            f"{target} first; to send it elsewhere, reset the offset by INVOKE_BROKER_TO_RESET_OFFSET "
            "(mqadmin resetOffsetByTime)",
        )

    @answers(
        RequestCode.QUERY_CONSUMER_OFFSET,
        QueryConsumerOffsetRequest,
        needs(on_group(SUB | GET), on_topic(SUB | GET)),
        slave=SERVED,
    )
    def query(self, _request: Request, header: QueryConsumerOffsetRequest) -> Answer:
        """Answer with a group's offset in a queue.

        A new group gets the offset at which it starts, if every new group would start there.
        """
        offset = self._desk.offsets.begin_of(header.consumer_group, header.topic, header.queue_id)
        if offset < 0 and header.set_zero_if_not_found is not False:
            offset = self._common_beginning(header.topic, header.queue_id)
        if offset >= 0:
            return Answer(header=QueryConsumerOffsetResponse(offset=offset))
        raise RequestRefused(
            ResponseCode.QUERY_NOT_FOUND,
            f"Not found: group [{header.consumer_group}] is new to queue {header.queue_id} of "
            f"{header.topic}; its consumeFromWhere decides where it begins",
        )

    @answers(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, SearchOffsetRequest, needs(on_topic(GET)), slave=SERVED)
    async def search(self, request: Request, header: SearchOffsetRequest) -> Answer:
        """Answer with the offset of the first message stored at or after a time, or (UPPER) of the last one up to it.

        The binary search looks at messages all over the log, so it runs in a thread.
        """
        upper = str(header.boundary_type or "").upper() == BOUNDARY_UPPER
        topic, queue_id = header.topic, header.queue_id
        if header.lite_topic:
            topic, queue_id = lite_queue(topic, header.lite_topic), LIGHT_QUEUE_ID
        offset = await self._desk.cold_reads.result(
            lambda: self._desk.store.offset_at_time(topic, queue_id, header.timestamp, upper), request.channel
        )
        return Answer(header=SearchOffsetResponse(offset=offset))

    @answers(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequest, needs(on_topic(GET)), slave=SERVED)
    def max_offset(self, request: Request, header: GetMaxOffsetRequest) -> Answer:
        """Answer with the end of a queue.

        If ``committed`` is true, the end counts what is on disk; if false, what was accepted. A 4.9 client sends no
        ``committed``, and then the end counts what consumers see. With SYNC_FLUSH the first and the last end are equal.
        """
        store, topic, queue_id = self._desk.store, header.topic, header.queue_id
        if COMMITTED not in request.command.ext_fields:
            offset = store.max_offset(topic, queue_id)
        elif header.committed:
            offset = store.durable_max_offset(topic, queue_id)
        else:
            offset = store.next_offset(topic, queue_id)
        return Answer(header=GetMaxOffsetResponse(offset=offset))

    @answers(RequestCode.GET_MIN_OFFSET, GetMinOffsetRequest, needs(on_topic(GET)), slave=SERVED)
    def min_offset(self, _request: Request, header: GetMinOffsetRequest) -> Answer:
        """Answer with the offset of a queue's first remaining message; 0 if the queue never had a message.

        Clients pull from this offset.
        """
        offset = max(0, self._desk.store.min_offset(header.topic, header.queue_id))
        return Answer(header=GetMinOffsetResponse(offset=offset))

    @answers(RequestCode.GET_EARLIEST_MSG_STORETIME, GetEarliestMsgStoretimeRequest, needs(on_topic(GET)), slave=SERVED)
    async def earliest_store_time(self, request: Request, header: GetEarliestMsgStoretimeRequest) -> Answer:
        """Answer with the store time of a queue's first remaining message, in epoch milliseconds; -1 for none."""
        timestamp = await self._desk.cold_reads.result(
            lambda: self._desk.store.earliest_stored_at_ms(header.topic, header.queue_id), request.channel
        )
        return Answer(header=GetEarliestMsgStoretimeResponse(timestamp=timestamp))

    def _common_beginning(self, topic: str, queue_id: int) -> int:
        """Return the offset at which a new group starts whatever its consumeFromWhere says; -1 if that setting decides.

        A client that gets no offset here asks for the end of the queue next. A message that is stored between the two
        questions is lost to the group. While the queue holds no message, its end is the right start for every group.
        """
        first, end = max(self._desk.store.min_offset(topic, queue_id), 0), self._desk.store.max_offset(topic, queue_id)
        if first >= end:
            return end
        return -1 if first or self._desk.store.is_cold(topic, queue_id, 0) else 0
