"""POP_MESSAGE: messages of any queue of a topic, hidden from the rest of the group for a while.

Checks, codes and the order of the sources follow upstream's ``PopMessageProcessor``: now and then the group's retry
topic first, then the topic's queues from a random one on, then the retry topic. What is popped is answered when its
check points are in the log. What is in memory is read at once, anything else in a thread, while other pops pass the
queue by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.requests.pop_ack import check_invisible
from gateway.broker.requests.pop_sources import PopSources, Source, SourceOrder, check_pop_place
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.posted import posted_filter
from gateway.delivery.filters.subscribed import check_expression_type
from gateway.delivery.pop.held_pops import ANY_QUEUE, Held, HeldPop
from gateway.delivery.pop.receipts import (
    NORMAL,
    ORDER_REVIVE_QUEUE,
    Receipt,
    build_receipt,
    msg_offset_info,
    order_count_info,
    start_offset_info,
)
from gateway.delivery.pop.revive_log import state_of
from gateway.errors import RequestRefused
from gateway.store.get_result import GetResult, GetStatus
from gateway.telemetry.logs import EventLog
from wire.codes import RequestCode, ResponseCode
from wire.disk.revive_log import MAX_MESSAGES, CheckPointRecord, ReviveRecord
from wire.frame import build_frame_head
from wire.headers.declare import build_header, read_header
from wire.headers.pop import PopMessageRequest, PopMessageResponse
from wire.message.properties import PropertyName, append_properties
from wire.message.record import build_record, parse_records, restated
from wire.message.record_fields import queue_offset_at, total_size_at

if TYPE_CHECKING:
    from gateway.broker.cold_reads import ColdReads
    from gateway.broker.flows import Flows
    from gateway.broker.traffic import Traffic
    from gateway.clock import Milliseconds
    from gateway.delivery.pop.check_points import CheckPoints
    from gateway.delivery.pop.held_pops import HeldPops
    from gateway.delivery.pop.order import OrderTable
    from gateway.delivery.pop.positions import Key, Positions, Step
    from gateway.delivery.pop.revive_log import ReviveLog
    from gateway.metadata.groups import Groups
    from gateway.metadata.topics import Topics
    from gateway.remoting.dispatch import Dispatch, Request
    from gateway.settings import Settings
    from gateway.store.message_store import MessageStore

log = EventLog("pop")

LATE_MS: Final = 500
"""A pop that arrives this long after its poll time is over is not tried any more, as upstream."""
INIT_FROM_LAST: Final = 1
"""``initMode`` of a group that is new to a queue: 0 from its first message, 1 from its last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopLimits:
    """Settings of the pop path; sizes bytes, times milliseconds.

    ``check_points``: pops that may be open, further ones are told POLLING_FULL.
    """

    broker_permission: int
    max_bytes: int
    max_bytes_cold: int
    property_filter_enabled: bool
    order: SourceOrder
    actual_retry_topic: bool
    check_points: int
    longest_hold_ms: int

    @classmethod
    def from_settings(cls, settings: Settings, longest_hold_ms: int) -> PopLimits:
        """The limits that the settings ask for."""
        return cls(
            broker_permission=settings.broker_permission,
            max_bytes=settings.max_transfer_bytes_on_message_in_memory,
            max_bytes_cold=settings.max_transfer_bytes_on_message_in_disk,
            property_filter_enabled=settings.enable_property_filter,
            order=SourceOrder.from_settings(settings),
            actual_retry_topic=settings.pop_response_return_actual_retry_topic,
            check_points=settings.pop_check_points_limit,
            longest_hold_ms=longest_hold_ms,
        )


class _Taken(NamedTuple):
    """What was taken of one queue."""

    source: Source
    start_offset: int
    next_offset: int
    offsets: list[int]
    parts: list[bytes]


class _Pop:
    """One pop under way. A plain class: one is made for each."""

    __slots__ = (
        "accepts",
        "bytes",
        "count",
        "deadline_ms",
        "header",
        "popped_at_ms",
        "remark",
        "request",
        "rest",
        "scanned",
        "sources",
        "taken",
    )

    def __init__(
        self, request: Request, header: PopMessageRequest, accepts: MessageFilter, deadline_ms: int, now_ms: int
    ) -> None:
        self.request = request
        self.header = header
        self.accepts = accepts
        self.deadline_ms = deadline_ms
        self.popped_at_ms = now_ms
        self.sources: Iterator[Source] = iter(())
        self.taken: list[_Taken] = []
        self.count = 0
        self.bytes = 0
        self.rest = 0
        self.scanned = False
        self.remark: str | None = None


class PopMessage:
    """Answers POP_MESSAGE (200050).

    :param soon: runs a function at the end of the reactor turn; :param random_below: a number below another.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        positions: Positions,
        check_points: CheckPoints,
        orders: OrderTable,
        revive_log: ReviveLog,
        held: HeldPops,
        limits: PopLimits,
        broker_name: str,
        clock_ms: Milliseconds,
        cold_reads: ColdReads,
        traffic: Traffic,
        flows: Flows,
        soon: Callable[[Callable[[], None]], None],
        random_below: Callable[[int], int],
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._positions = positions
        self._points = check_points
        self._orders = orders
        self._log = revive_log
        self._held = held
        self._limits = limits
        self._broker_name = broker_name
        self._clock_ms = clock_ms
        self._cold_reads = cold_reads
        self._traffic = traffic
        self._flows = flows
        self._soon = soon
        self._sources = PopSources(topics, groups, limits.order, random_below)

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers_directly(RequestCode.POP_MESSAGE, self.pop)

    def use(self, settings: Settings) -> None:
        """Go on with changed settings."""
        self._limits = PopLimits.from_settings(settings, self._limits.longest_hold_ms)
        self._sources.order = self._limits.order

    def pop(self, request: Request) -> None:
        """Check, take what is there, and answer or hold."""
        header = read_header(PopMessageRequest, request.command)
        now_ms = self._clock_ms()
        born_ms = header.born_time or now_ms
        if now_ms - born_ms - header.poll_time > LATE_MS:
            self._found_nothing(request, ResponseCode.POLLING_TIMEOUT, "the poll time was over when the pop arrived")
            return
        accepts = self._checked(header)
        poll_ms = min(max(header.poll_time, 0), self._limits.longest_hold_ms)
        # A client whose clock is ahead does not wait longer than it asked for.
        self._start(_Pop(request, header, accepts, min(born_ms, now_ms) + poll_ms, now_ms))

    # -- checks ---------------------------------------------------------------------------------------------

    def _checked(self, header: PopMessageRequest) -> MessageFilter:
        limits, topic, group = self._limits, header.topic, header.consumer_group
        if not 1 <= header.max_msg_nums <= MAX_MESSAGES:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"the broker's maxMsgNums is limited to {MAX_MESSAGES}, {header.max_msg_nums} are asked for",
            )
        check_invisible(header.invisible_time)
        check_pop_place(self._topics, self._groups, limits.broker_permission, topic, header.queue_id, group)
        if not limits.property_filter_enabled:
            check_expression_type(header.exp_type)
        return posted_filter(header.exp, header.exp_type) if header.exp else EVERYTHING

    # -- taking ---------------------------------------------------------------------------------------------

    def _start(self, pop: _Pop) -> None:
        if len(self._points) >= self._limits.check_points and not pop.header.order:
            self._found_nothing(pop.request, ResponseCode.POLLING_FULL, "too many popped messages are open")
            return
        pop.sources = self._sources.of(pop.header)
        self._go_on(pop)

    def _go_on(self, pop: _Pop) -> None:
        """Take from the sources that are left, until one has to be waited for."""
        for source in pop.sources:
            if not self._take(pop, source):
                return
        if pop.request.channel.closed:  # it may have waited for the disk: others shall have the messages
            self._held.wake(pop.header.topic, pop.header.consumer_group)
        elif pop.taken:
            self._keep(pop)
        else:
            self._hold(pop)

    def _take(self, pop: _Pop, source: Source) -> bool:
        """Take what there is in a queue; False when the disk has to be waited for."""
        group, order = pop.header.consumer_group, pop.header.order
        key = (source.topic, group, source.queue_id)
        if self._positions.is_read(key):
            return True
        offset = self._positions.committed(key)
        if offset < 0:
            offset = self._begin_at(key, source, pop.header.init_mode)
        end = self._store.max_offset(source.topic, source.queue_id)
        if offset == end:
            return True
        if pop.count >= pop.header.max_msg_nums or pop.bytes >= self._limits.max_bytes:
            pop.rest += max(0, end - offset)
            return True
        if order and (
            self._orders.is_closed(key, pop.header.attempt_id, pop.popped_at_ms) or self._orders.is_full(key)
        ):
            pop.rest += max(0, end - offset)
            return True
        return self._read(pop, source, key, offset)

    def _begin_at(self, key: Key, source: Source, init_mode: int) -> int:
        """Where a group begins that is new to a queue; remembered at once."""
        store, (topic, _, queue_id) = self._store, key
        least = max(0, store.min_offset(topic, queue_id))
        offset = least
        if source.retry == NORMAL and init_mode == INIT_FROM_LAST and (least or store.is_cold(topic, queue_id, 0)):
            offset = max(store.max_offset(topic, queue_id) - 1, 0)
        self._positions.skip(key, offset)
        return offset

    def _read(self, pop: _Pop, source: Source, key: Key, offset: int) -> bool:
        store, (topic, queue_id, retry) = self._store, source
        accepts = pop.accepts if retry == NORMAL else EVERYTHING
        by_record = None if accepts.accepts_properties is None else accepts.accepts_record
        count, size = pop.header.max_msg_nums - pop.count, self._limits.max_bytes - pop.bytes
        result = store.get_messages_now(topic, queue_id, offset, count, size, accepts.accepts_code, by_record)
        if result is not None:
            self._have_read(pop, source, key, offset, result)
            return True
        if pop.taken:  # it must not wait: until it is kept, another pop would take the same
            pop.rest += max(0, store.max_offset(topic, queue_id) - offset)
            return True

        def read() -> GetResult:
            least = min(size, self._limits.max_bytes_cold)
            return store.get_messages(topic, queue_id, offset, count, least, accepts.accepts_code, by_record)

        def have_read(result: GetResult | BaseException) -> None:
            self._positions.end_read(key)
            if isinstance(result, BaseException):
                log.error("read failed", topic=topic, queue=queue_id, error=repr(result))
                pop.remark = f"reading the store failed: {result}"
            elif self._positions.committed(key) == offset:  # else it was set elsewhere meanwhile
                self._have_read(pop, source, key, offset, result)
            self._go_on(pop)

        self._positions.begin_read(key)
        try:
            self._cold_reads.read(read, have_read)
        except RequestRefused as refusal:
            self._positions.end_read(key)
            pop.remark = refusal.remark
            return True
        return False

    def _have_read(self, pop: _Pop, source: Source, key: Key, offset: int, result: GetResult) -> None:
        next_offset = result.next_begin_offset
        if result.status is GetStatus.FOUND:
            offsets = _queue_offsets(result.parts)
            pop.taken.append(_Taken(source, offset, next_offset, offsets, list(result.parts)))
            pop.count += len(offsets)
            pop.bytes += result.total_bytes
        elif result.status is GetStatus.MESSAGE_DAMAGED:
            log.error("message cannot be popped", topic=source.topic, queue=source.queue_id, reason=result.remark)
            pop.remark = result.remark
            return
        elif next_offset != offset:  # filtered out, expired, or the queue was made anew
            self._positions.skip(key, next_offset)
            pop.scanned = True
        pop.rest += max(0, result.max_offset - next_offset)

    # -- keeping and answering ------------------------------------------------------------------------------

    def _keep(self, pop: _Pop) -> None:
        """Write down what was taken; answered when that is in the log."""
        if pop.header.order:
            self._keep_order(pop)
            return
        queue_id = self._log.next_queue()
        records: list[ReviveRecord] = []
        steps: list[Step] = []
        for taken in pop.taken:
            source, start = taken.source, taken.start_offset
            records.append(
                CheckPointRecord(
                    topic=source.topic,
                    group=pop.header.consumer_group,
                    queue_id=source.queue_id,
                    start_offset=start,
                    popped_at_ms=pop.popped_at_ms,
                    invisible_ms=pop.header.invisible_time,
                    count=len(taken.offsets),
                    diffs=[offset - start for offset in taken.offsets],
                    broker_name=self._broker_name,
                    next_offset=taken.next_offset,
                )
            )
            key = (source.topic, pop.header.consumer_group, source.queue_id)
            steps.append(self._positions.step(key, taken.next_offset))
        self._log.append(records, queue_id, partial(self._kept, pop, steps, queue_id))
        self._wake_next(pop)

    def _kept(self, pop: _Pop, steps: list[Step], queue_id: int, stored: bool) -> None:
        move = self._positions.stored if stored else self._positions.failed
        for step in steps:
            move(step)
        if stored:
            self._answer(pop, queue_id, None)
        else:
            _refuse_unstored(pop.request)

    def _keep_order(self, pop: _Pop) -> None:
        header = pop.header
        infos: list[str] = []
        states: list[ReviveRecord] = []
        for taken in pop.taken:
            key = (taken.source.topic, header.consumer_group, taken.source.queue_id)
            self._positions.skip(key, taken.offsets[0])  # before it there is nothing for the group
            info = self._orders.popped(key, taken.offsets, pop.popped_at_ms, header.invisible_time, header.attempt_id)
            least = min(info.counts.values()) if len(info.counts) == len(info.offsets) else 0
            infos.append(order_count_info(taken.source.queue_id, sorted(info.counts.items()), least))
            states.append(state_of(key, taken.offsets[0], info))
        counts = ";".join(infos)

        def kept(stored: bool) -> None:
            if stored:
                self._answer(pop, ORDER_REVIVE_QUEUE, counts)
            else:
                _refuse_unstored(pop.request)

        self._log.append(states, self._log.next_queue(), kept)
        self._wake_next(pop)

    def _wake_next(self, pop: _Pop) -> None:
        """More is there: someone else who waits may have it."""
        if pop.rest and len(self._held):
            topic, group = pop.header.topic, pop.header.consumer_group
            self._soon(lambda: self._held.wake(topic, group))

    def _answer(self, pop: _Pop, revive_queue_id: int, order_counts: str | None) -> None:
        starts, offsets, parts, size = [], [], [], 0
        for taken in pop.taken:
            _, queue_id, retry = taken.source
            starts.append(start_offset_info(retry, queue_id, taken.start_offset))
            offsets.append(msg_offset_info(retry, queue_id, taken.offsets))
            if retry == NORMAL or self._limits.actual_retry_topic:
                parts += taken.parts
            else:
                parts += self._renamed(pop, taken, revive_queue_id)
        size = sum(map(len, parts))
        header = PopMessageResponse(
            pop_time=pop.popped_at_ms,
            invisible_time=pop.header.invisible_time,
            revive_qid=revive_queue_id,
            rest_num=pop.rest,
            start_offset_info=";".join(starts),
            msg_offset_info=";".join(offsets),
            order_count_info=order_counts,
        )
        self._traffic.found_pulls += 1
        self._traffic.given_messages += pop.count
        self._flows.given(pop.header.topic, pop.header.consumer_group, pop.count, size)
        response = pop.request.command.response(ResponseCode.SUCCESS, GetStatus.FOUND.name, build_header(header))
        pop.request.send_parts([build_frame_head(response, size), *parts])

    def _renamed(self, pop: _Pop, taken: _Taken, revive_queue_id: int) -> Iterator[bytes]:
        """Messages of a retry topic as the client knows them: under its own topic, each with its receipt."""
        for message in parse_records(b"".join(taken.parts)):
            raw = message.properties
            if PropertyName.POP_CK not in message.property_map:
                receipt = Receipt(
                    taken.start_offset,
                    pop.popped_at_ms,
                    pop.header.invisible_time,
                    revive_queue_id,
                    taken.source.retry,
                    self._broker_name,
                    message.queue_id,
                    message.queue_offset,
                )
                raw = append_properties(raw, {PropertyName.POP_CK: build_receipt(receipt)})
            renamed = restated(message, pop.header.topic, message.queue_id, raw, message.property_map)
            yield build_record(renamed, message.queue_offset, message.commit_log_offset, message.stored_at_ms)

    # -- nothing found --------------------------------------------------------------------------------------

    def _hold(self, pop: _Pop) -> None:
        request, header = pop.request, pop.header
        if pop.remark is not None:
            request.answer(ResponseCode.SYSTEM_ERROR, remark=pop.remark)
            return
        key = (header.topic, header.consumer_group, max(header.queue_id, ANY_QUEUE))
        held = HeldPop(key, pop.accepts, pop.deadline_ms, request.channel, partial(self._resume, pop))
        outcome = self._held.hold(held)
        if outcome is Held.FULL:
            self._found_nothing(request, ResponseCode.POLLING_FULL, "too many pops are held")
        elif outcome is Held.TOO_LATE:
            self._found_nothing(request, ResponseCode.POLLING_TIMEOUT, "no message came in time")
        elif pop.scanned and pop.rest:  # there is more to be looked through: others have their turn first
            self._soon(lambda: self._held.wake(header.topic, header.consumer_group, header.queue_id))

    def _resume(self, pop: _Pop, is_over: bool) -> None:
        request = pop.request
        if request.channel.closed:
            return
        if is_over:
            self._found_nothing(request, ResponseCode.POLLING_TIMEOUT, "no message came in time")
            return
        try:
            accepts = self._checked(pop.header)  # the topic may be gone
            self._start(_Pop(request, pop.header, accepts, pop.deadline_ms, self._clock_ms()))
        except RequestRefused as refusal:
            request.answer(refusal.code, remark=refusal.remark)
        except OSError as error:  # must not reach the other held pops, nor the senders that woke them
            request.answer(ResponseCode.SYSTEM_ERROR, remark=f"reading the store failed: {error}")

    def _found_nothing(self, request: Request, code: ResponseCode, remark: str) -> None:
        self._traffic.missed_pulls += 1
        request.answer(code, PopMessageResponse(), remark=remark)


def _queue_offsets(parts: Sequence[bytes]) -> list[int]:
    """The offsets of records, in their order."""
    offsets: list[int] = []
    for part in parts:
        at, end = 0, len(part)
        while at < end:
            offsets.append(queue_offset_at(part, at))
            at += total_size_at(part, at)
    return offsets


def _refuse_unstored(request: Request) -> None:
    request.answer(ResponseCode.SYSTEM_ERROR, remark="the store takes nothing now: nothing was popped")
