"""PULL_MESSAGE and LITE_PULL_MESSAGE: reading a queue, with long polling.

Checks, codes and the correction of offsets follow upstream's ``PullMessageProcessor``. A pull that finds nothing is
held if it asks for that. Messages in memory are read at once. All others are read in a thread, with smaller limits.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from gateway.access.needs import judge_again
from gateway.broker.desk import Desk
from gateway.broker.requests.shared_retries import readable
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter, is_tag_type, tag_filter
from gateway.delivery.filters.posted import posted_filter
from gateway.delivery.filters.record_filter import Work
from gateway.delivery.filters.subscribed import check_expression_type
from gateway.delivery.filters.turns import READ_STEPS
from gateway.delivery.long_poll import LONGEST_HOLD_MS, HeldPull
from gateway.delivery.suggestion import memory_bytes, near_bytes, suggested_broker
from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.metadata.names import TRANSACTION_GROUP
from gateway.remoting.declared import SUB, OnSlave, needs, on_group, on_topic
from gateway.remoting.dispatch import Dispatch, Request, answer_failures, wait_for_room
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.telemetry.logs import EventLog
from wire.bodies.consume_kinds import ConsumeType
from wire.bodies.subscriptions import SubscriptionData, SubscriptionGroupConfig
from wire.codes import RequestCode, ResponseCode
from wire.frame import build_frame_head
from wire.headers.declare import build_header, read_header
from wire.headers.pull import BULK_READER, PullMessageRequest, PullMessageResponse
from wire.message.flags import Permission, PullFlag
from wire.message.light_queues import LIGHT_QUEUE_ID, lite_queue
from wire.message.record_fields import commit_log_offset_at

log = EventLog("pull")

CODE_OF: Mapping[GetStatus, ResponseCode] = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.MESSAGE_DAMAGED: ResponseCode.SYSTEM_ERROR,
}
"""The response code for each status.

The two statuses of an empty or missing queue are left out: their code depends on the offset (``_code``).
"""


class PullMessage:
    """Answers PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361)."""

    def __init__(self, desk: Desk) -> None:
        self._store = desk.store
        self._topics = desk.topics
        self._groups = desk.groups
        self._consumers = desk.consumers
        self._offsets = desk.offsets
        self._held = desk.held
        self._settings = desk.settings
        self._clock = desk.clock
        self._cold_reads = desk.cold_reads
        self._traffic = desk.traffic
        self._flows = desk.flows
        self._filters = desk.filters
        self._turns = desk.filter_turns
        self._near_bytes = near_bytes(desk.settings, memory_bytes())

    def register(self, dispatch: Dispatch) -> None:
        """Register the request codes that this class answers."""
        dispatch.answers_directly(
            RequestCode.PULL_MESSAGE, self.pull, needs(on_group(SUB), on_topic(SUB)), slave=OnSlave.READ
        )
        dispatch.answers_directly(
            RequestCode.LITE_PULL_MESSAGE, self.pull, needs(on_group(SUB), on_topic(SUB)), slave=OnSlave.READ
        )

    def pull(self, request: Request) -> None:
        """Check a pull, read, and answer or hold; in a later turn if filters have used up the current turn."""
        header = read_header(PullMessageRequest, request.command)
        if header.lite_topic:
            header = replace(header, topic=lite_queue(header.topic, header.lite_topic), queue_id=LIGHT_QUEUE_ID)
        if self._turns.is_busy and (expression := self._expression(header)) is not None:
            self._check_allowed(request, header)
            begins = self._commit(header)  # not later: offsets that arrive meanwhile are newer
            go_on = partial(self._check_and_read, request, header)
            if begins:
                go_on = partial(self._when_saved, request, go_on)
            self._turns.later(request.channel, partial(self._in_turn, request, go_on), len(expression))
        else:
            accepts = self._checked(request, header)
            begins = self._commit(header)
            go_on = partial(self._read_with_room, request, header, accepts, bool(header.sys_flag & PullFlag.SUSPEND))
            if begins:
                self._when_saved(request, go_on)
            else:
                go_on()

    def _expression(self, header: PullMessageRequest) -> str | None:
        """Return the SQL92 expression of the filter; None if the filter looks at tags."""
        if header.sys_flag & PullFlag.SUBSCRIPTION:
            return None if is_tag_type(header.expression_type) else header.subscription or ""
        subscription = self._consumers.subscription(header.consumer_group, header.topic)
        if subscription is None or is_tag_type(subscription.expression_type):
            return None
        return subscription.sub_string

    def _in_turn(self, request: Request, go_on: Callable[[], None]) -> None:
        """Go on with a pull that waited.

        An error becomes the answer, and so does not reach the code that goes on with other pulls.
        """
        if not request.channel.closed:
            answer_failures(request, go_on)

    def _when_saved(self, request: Request, go_on: Callable[[], None]) -> None:
        """Go on with the first pull of a group once the group's offset is on disk.

        Without the offset on disk the group would be new again after a kill, and would miss the messages stored since.
        If the disk takes no writes, the pull goes on nevertheless, and the offset stays in memory as other offsets do.
        """
        resumed = partial(self._in_turn, request, go_on)  # many may wait for one write: they take turns
        self._offsets.persist(lambda _failure: self._turns.resume(request.channel, resumed))

    def _commit(self, header: PullMessageRequest) -> bool:
        """Store a group's offset, or the offset at which a new group starts.

        Another member that gets the queue next starts at the same message.

        :return: whether this is the first pull of a group.
        """
        if self._settings.is_slave:  # the offsets are the master's
            return False
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        if header.sys_flag & PullFlag.COMMIT_OFFSET:
            if group != TRANSACTION_GROUP:
                self._offsets.commit(group, topic, queue_id, header.commit_offset)
        elif self._begins(header):
            with suppress(RequestRefused):  # no room for one offset more: the group may read all the same
                return self._offsets.commit(group, topic, queue_id, header.queue_offset)
        return False

    def _begins(self, header: PullMessageRequest) -> bool:
        """Return whether this is a group's first pull of a queue, for groups that share queues and commit offsets here.

        A start at offset 0 is noted, too: the group's second pull, of messages that no member has consumed yet, is no
        start.
        """
        group = self._consumers.group(header.consumer_group)
        if group is None or group.is_broadcasting or group.consume_type != ConsumeType.CONSUME_PASSIVELY:
            return False
        if self._offsets.query(header.consumer_group, header.topic, header.queue_id) >= 0:
            return False
        return 0 <= header.queue_offset <= self._store.max_offset(header.topic, header.queue_id)

    def _check_and_read(self, request: Request, header: PullMessageRequest) -> None:
        accepts = self._checked(request, header)
        self._read_with_room(request, header, accepts, bool(header.sys_flag & PullFlag.SUSPEND))

    # -- reading --------------------------------------------------------------------------------------------

    def _read_with_room(
        self, request: Request, header: PullMessageRequest, accepts: MessageFilter, may_hold: bool
    ) -> None:
        """Read as soon as there is room for the answer."""
        if request.channel.must_wait:
            wait_for_room(request, partial(self.resume, request, header, accepts, may_hold))
        else:
            self._read(request, header, accepts, may_hold)

    def _read(self, request: Request, header: PullMessageRequest, accepts: MessageFilter, may_hold: bool) -> None:
        settings = self._settings
        topic, queue_id, offset = header.topic, header.queue_id, header.queue_offset
        offsets = self._offsets
        if (offsets.resets or offsets.member_resets.waiting) and self._is_reset(request, header):
            return
        most = min(settings.max_transfer_count_on_message_in_memory, settings.pull_batch_max_message_count)
        count, size = self._most(header, most, settings.max_transfer_bytes_on_message_in_memory)
        allowed = readable(request, topic, header.consumer_group, accepts)  # rights may change while a pull waits
        work = None if allowed.by_properties is None else Work(READ_STEPS)
        result = self._store.get_messages_now(topic, queue_id, offset, count, size, allowed.wanted_within(work))
        if work is not None:
            self._turns.spend_read(work)
        if result is None:
            self._cold_read(request, header, accepts, may_hold)
        else:
            self._answer_or_hold(request, header, accepts, may_hold, result)

    def _most(self, header: PullMessageRequest, count: int, size: int) -> tuple[int, int]:
        """Return the most messages and bytes of an answer: ``count`` and ``size``, or bulk limits for a bulk reader."""
        if header.request_source == BULK_READER:
            count, size = self._settings.bulk_read_count, self._settings.bulk_read_bytes
        return max(1, min(header.max_msg_nums, count)), min(header.max_msg_bytes or size, size)

    def _is_reset(self, request: Request, header: PullMessageRequest) -> bool:
        """Return whether the queue was set to another offset than the pull's; if so, answer with the new offset."""
        topic, queue_id = header.topic, header.queue_id
        offset = self._reset_of(request, header)
        if offset is None or offset == header.queue_offset:
            return False
        log.info(
            "consumer sent to another offset: its group was reset, or the topic was deleted and made again",
            group=header.consumer_group,
            topic=topic,
            queue=queue_id,
            pulled=header.queue_offset,
            now=offset,
        )
        store = self._store
        bounds = max(store.min_offset(topic, queue_id), 0), store.max_offset(topic, queue_id)
        self._answer(request, header, ResponseCode.PULL_OFFSET_MOVED, GetResult(GetStatus.OFFSET_RESET, offset, bounds))
        return True

    def _reset_of(self, request: Request, header: PullMessageRequest) -> int | None:
        """Return the offset that a queue was set to; None if the reader need not learn of a reset.

        The reader is the group or, in a broadcasting group, this member. If a topic is deleted while a pull is held,
        that pull is answered at once. The first pull after the topic was made again is answered once more.
        """
        offsets, queue = self._offsets, (header.consumer_group, header.topic, header.queue_id)
        exists = self._topics.get(header.topic) is not None
        group = self._consumers.group(header.consumer_group)
        member = group.members.get(request.channel) if group is not None and group.is_broadcasting else None
        if member is not None:
            told = offsets.member_resets
            offset = (
                told.told(queue, member.client_id, member, header.queue_offset)
                if exists
                else told.peek(queue, member.client_id)
            )
            if offset is not None:
                return offset
        return offsets.follow_reset(*queue) if exists else offsets.resets.get(queue)

    def _cold_read(self, request: Request, header: PullMessageRequest, accepts: MessageFilter, may_hold: bool) -> None:
        work = Work(READ_STEPS)
        done = partial(self._cold_answer, request, header, accepts, work, may_hold)
        allowed = readable(request, header.topic, header.consumer_group, accepts)
        self._cold_reads.read(
            partial(self._read_cold, request, header, allowed, work),
            partial(self._timed, header, self._clock(), done),
            request.channel,
        )

    def _timed(
        self,
        header: PullMessageRequest,
        begun_ms: int,
        done: Callable[[GetResult | Failed | None], None],
        result: GetResult | Failed | None,
    ) -> None:
        """Go on after a read of the disk, and note how many milliseconds the read took."""
        done(result)
        if isinstance(result, GetResult) and result.status is GetStatus.FOUND:
            waited_ms = max(self._clock() - begun_ms, 0)
            self._traffic.read(waited_ms)
            self._flows.waited(header.topic, header.consumer_group, waited_ms)

    def _read_cold(
        self, request: Request, header: PullMessageRequest, accepts: MessageFilter, work: Work
    ) -> GetResult | None:
        """Read from the disk, in a thread; None if the connection closed or has no room meanwhile."""
        if request.channel.closed or request.channel.must_wait:  # it may have waited for a thread for a while
            return None
        topic, queue_id, offset = header.topic, header.queue_id, header.queue_offset
        settings = self._settings
        count, size = self._most(
            header, settings.max_transfer_count_on_message_in_disk, settings.max_transfer_bytes_on_message_in_disk
        )
        result = self._store.get_messages(topic, queue_id, offset, count, size, accepts.wanted_within(work))
        if result.status is GetStatus.FOUND:
            self._store.read_ahead(topic, queue_id, result.next_begin_offset)
        return result

    def _cold_answer(
        self,
        request: Request,
        header: PullMessageRequest,
        accepts: MessageFilter,
        work: Work,
        may_hold: bool,
        result: GetResult | Failed | None,
    ) -> None:
        if accepts.by_properties is not None:
            self._turns.spend_read(work)  # threads take the processor from everyone too
        if isinstance(result, Failed):
            self._failed(request, header, result.error)
        elif result is not None:
            self._answer_or_hold(request, header, accepts, may_hold, result)
        elif not request.channel.closed:  # others have begun large answers meanwhile
            self.resume(request, header, accepts, may_hold)

    def _failed(self, request: Request, header: PullMessageRequest, error: BaseException) -> None:
        log.error("read failed", topic=header.topic, queue=header.queue_id, error=repr(error))
        request.answer(ResponseCode.SYSTEM_ERROR, remark=f"reading the store failed: {error}")

    def _answer_or_hold(
        self,
        request: Request,
        header: PullMessageRequest,
        accepts: MessageFilter,
        may_hold: bool,
        result: GetResult,
    ) -> None:
        code = _code(result, header.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and may_hold and self._hold(request, header, accepts):
            return
        self._answer(request, header, code, result)

    def _hold(self, request: Request, header: PullMessageRequest, accepts: MessageFilter) -> bool:
        settings = self._settings
        hold_ms = header.suspend_timeout_millis if settings.long_polling_enable else settings.short_polling_time_ms
        hold_ms = min(hold_ms, LONGEST_HOLD_MS)
        if hold_ms <= 0:
            return False

        resume = _Resume(self, request, self._short(header), accepts)
        deadline_ms = self._clock() + hold_ms
        characters = request.command.header_characters
        request.command.let_go()
        wakes = readable(request, header.topic, header.consumer_group, accepts)
        held = HeldPull(header.queue_offset, wakes, deadline_ms, resume, request.channel, characters)
        return self._held.hold(header.topic, header.queue_id, held)

    def _short(self, header: PullMessageRequest) -> PullMessageRequest:
        """Return a header with what a held pull needs: the names that tables have anyway, and no expression."""
        topic, group = self._topics.get(header.topic), self._groups.get(header.consumer_group)
        return replace(
            header,
            topic=header.topic if topic is None else topic.topic_name,
            consumer_group=header.consumer_group if group is None else group.group_name,
            subscription=None,
            expression_type=None,
        )

    def resume(self, request: Request, header: PullMessageRequest, accepts: MessageFilter, may_hold: bool) -> None:
        """Go on with a pull that waited, when there is time for its filter and room for its answer."""
        go_on = partial(self._in_turn, request, partial(self._read_again, request, header, accepts, may_hold))
        if self._turns.is_busy and accepts.by_properties is not None and not request.channel.must_wait:
            self._in_turn(request, partial(self._turns.later, request.channel, go_on))
        else:
            go_on()

    def _read_again(self, request: Request, header: PullMessageRequest, accepts: MessageFilter, may_hold: bool) -> None:
        judge_again(request, header.consumer_group, header.topic)
        self._read_with_room(request, header, accepts, may_hold)

    def _answer(self, request: Request, asked: PullMessageRequest, code: ResponseCode, result: GetResult) -> None:
        topic, group = self._topics.get(asked.topic), self._groups.get(asked.consumer_group)
        header = PullMessageResponse(
            suggest_which_broker_id=0 if self._near_bytes is None or group is None else self._suggested(group, result),
            next_begin_offset=result.next_begin_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            offset_delta=0,
            topic_sys_flag=0 if topic is None else topic.topic_sys_flag,
            group_sys_flag=0 if group is None else group.group_sys_flag,
        )
        response = request.command.response(code, result.remark or result.status.name, build_header(header))
        if code == ResponseCode.SUCCESS:
            self._traffic.found_pulls += 1
            self._traffic.given_messages += result.count
            self._flows.given(asked.topic, asked.consumer_group, result.count, result.total_bytes)
            request.send_parts([build_frame_head(response, result.total_bytes), *result.parts])
        else:
            self._traffic.missed_pulls += 1
            request.send(response)

    def _suggested(self, group: SubscriptionGroupConfig, result: GetResult) -> int:
        """Return the broker from which a group should pull next."""
        assert self._near_bytes is not None, "slaves may be suggested"
        if not result.parts:
            return group.broker_id
        behind_bytes = self._store.max_commit_log_offset - commit_log_offset_at(result.parts[0])
        return suggested_broker(group, behind_bytes, self._near_bytes)

    # -- checks ---------------------------------------------------------------------------------------------

    def _checked(self, request: Request, header: PullMessageRequest) -> MessageFilter:
        """Return the filter of a pull that is allowed.

        :raises RequestRefused: with upstream's code for the first check that fails.
        """
        group = self._check_allowed(request, header)
        if header.sys_flag & PullFlag.SUBSCRIPTION:
            expression_type: str | None = header.expression_type
            accepts = posted_filter(header.subscription or "", expression_type, self._turns)
        else:
            subscription = self._subscription(header, group.consume_broadcast_enable)
            expression_type = subscription.expression_type
            accepts = self._subscribed_filter(header, subscription)
        if not self._settings.enable_property_filter:
            check_expression_type(expression_type)
        return accepts

    def _check_allowed(self, request: Request, header: PullMessageRequest) -> SubscriptionGroupConfig:
        """Refuse a pull unless its group may read the queue.

        :return: the group.
        """
        if not self._settings.broker_permission & Permission.READ:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "the broker gives out no messages (brokerPermission)")
        if request.command.code == RequestCode.LITE_PULL_MESSAGE and not self._settings.lite_pull_message_enable:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "lite pull is switched off (litePullMessageEnable)")
        group = self._groups.get(header.consumer_group)
        if group is None:
            group = self._groups.find(header.consumer_group, request.channel.remote[0])
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{header.consumer_group}] does not exist",
            )
        if not group.consume_enable:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}"
            )
        self._check_queue(header)
        if not self._groups.may_read(header.consumer_group, header.topic):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{header.consumer_group}] is forbidden to read topic[{header.topic}]",
            )
        return group

    def _check_queue(self, header: PullMessageRequest) -> None:
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!")
        if not topic.perm & Permission.READ:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic[{header.topic}] has "
                f"readQueueNums[{topic.read_queue_nums}]",
            )

    def _subscription(self, header: PullMessageRequest, broadcast_enabled: bool) -> SubscriptionData:
        """Return the subscription that the group's heartbeats reported."""
        member = self._consumers.group(header.consumer_group)
        if member is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: {header.consumer_group} has sent no heartbeat yet",
            )
        if member.is_broadcasting and not broadcast_enabled:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{header.consumer_group}] can not consume by broadcast way",
            )
        subscription = member.subscription(header.topic)
        if subscription is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: {header.consumer_group} to {header.topic}",
            )
        return subscription

    def _subscribed_filter(self, header: PullMessageRequest, subscription: SubscriptionData) -> MessageFilter:
        """Return the filter of the subscription that the group's heartbeats reported.

        A client may know a newer subscription, which its next heartbeat brings. Until then a pull by tags gets every
        message, because the client compares the tags again. No client evaluates SQL92.

        :raises RequestRefused: SUBSCRIPTION_NOT_LATEST: the newer subscription is SQL92, or replaces SQL92.
        """
        by_tags = is_tag_type(subscription.expression_type)
        if subscription.sub_version < header.sub_version:
            if by_tags and is_tag_type(header.expression_type):
                return EVERYTHING
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                "the consumer's subscription not latest: the client's next heartbeat brings the newer one",
            )
        if not by_tags:
            accepts = self._filters.find(header.consumer_group, subscription, header.sub_version)
            if subscription.class_filter_mode:
                return EVERYTHING
            return MessageFilter(None, accepts, self._filters.by_bit_map(header.consumer_group, header.topic))
        accepts_code = tag_filter(
            subscription.sub_string,
            subscription.code_set,
            class_filter_mode=subscription.class_filter_mode,
        )
        return EVERYTHING if accepts_code is None else MessageFilter(accepts_code)


class _Resume:
    """A call of ``PullMessage.resume`` for a held pull; a partial function would take three times the memory."""

    __slots__ = ("_accepts", "_header", "_pulls", "request")

    def __init__(
        self, pulls: PullMessage, request: Request, header: PullMessageRequest, accepts: MessageFilter
    ) -> None:
        self._pulls = pulls
        self.request = request
        self._header = header
        self._accepts = accepts

    def __call__(self) -> None:
        self._pulls.resume(self.request, self._header, self._accepts, may_hold=False)


def _code(result: GetResult, asked_offset: int) -> ResponseCode:
    code = CODE_OF.get(result.status)
    if code is not None:
        return code
    # An empty or missing queue: offset 0 waits for its first message, any other offset is moved to 0.
    return ResponseCode.PULL_NOT_FOUND if asked_offset == 0 else ResponseCode.PULL_OFFSET_MOVED
