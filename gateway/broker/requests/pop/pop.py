"""POP_MESSAGE: messages of any queue of a topic, hidden from the rest of the group for a while.

Checks, codes and the order of the sources follow upstream's ``PopMessageProcessor``. Now and then a pop looks first at
the group's retry topic; otherwise the retry topic comes last. The topic's queues are looked at from a random one on. A
pop is answered when its check points are in the log. Messages in memory are read at once. All others are read in a
thread, and other pops skip the queue meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from sys import getsizeof
from typing import Final

from gateway.access.needs import judge_again
from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.requests.pop.pop_ack import check_invisible
from gateway.broker.requests.pop.pop_sources import PopSources, check_pop_place, has_changed
from gateway.broker.requests.pop.pop_taking import Pop, PopTaking, Taken
from gateway.broker.requests.shared_retries import readable
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter, is_tag_type
from gateway.delivery.filters.posted import posted_filter
from gateway.delivery.filters.subscribed import check_expression_type
from gateway.delivery.pop.held_pops import ANY_QUEUE, Held, HeldPop, longest_wait_ms
from gateway.delivery.pop.positions import Key, Step
from gateway.delivery.pop.receipts import (
    NORMAL,
    ORDER_REVIVE_QUEUE,
    Receipt,
    build_receipt,
    msg_offset_info,
    order_count_info,
    start_offset_info,
)
from gateway.errors import RequestRefused
from gateway.remoting.declared import SUB, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Request, answer_failures, wait_for_room
from gateway.remoting.requests import answers_directly
from gateway.store.reading.get_result import GetStatus
from wire.codes import RequestCode, ResponseCode
from wire.disk.revive_log import MAX_MESSAGES, CheckPointRecord, ReviveRecord
from wire.frame import build_frame_head
from wire.headers.declare import build_header, read_header
from wire.headers.pop import PopMessageRequest, PopMessageResponse
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, append_properties
from wire.message.record import build_record, parse_records, restated

MAX_ATTEMPT_CHARACTERS: Final = 255
"""The largest number of characters in the id of an attempt; clients send a UUID."""
LATE_MS: Final = 500
"""A pop that arrives more than this many milliseconds after the end of its poll time is not tried, as upstream."""


class PopMessage(DeskRequests):
    """Answers POP_MESSAGE (200050)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._settings = desk.settings
        self._turns = desk.filter_turns
        self._positions = desk.pops.positions
        self._points = desk.pops.check_points
        self._log = desk.pops.revive_log
        self._held = desk.pops.held
        self._broker_name = desk.settings.broker_name
        self._clock_ms = desk.clock
        self._traffic = desk.traffic
        self._flows = desk.flows
        self._soon = desk.soon
        unread = desk.pops.positions.unread
        self._sources = PopSources(desk.topics, desk.groups, desk.settings, desk.random_below, unread)
        self._taking = PopTaking(desk, self._finished, self._was_read)

    @answers_directly(RequestCode.POP_MESSAGE, needs(on_group(SUB), on_topic(SUB)), Size.LARGE)
    def pop(self, request: Request) -> None:
        """Check a pop, take messages, and answer or hold; in a later turn if filters have used up the current turn."""
        header = read_header(PopMessageRequest, request.command)
        if self._turns.is_busy and self._takes_turns(header):
            popped = partial(answer_failures, request, partial(self._pop_with_room, request, header))
            self._turns.later(request.channel, popped, len(header.exp or ""))
        else:
            self._pop(request, header)

    def _takes_turns(self, header: PopMessageRequest) -> bool:
        return bool(header.exp and not is_tag_type(header.exp_type)) or self._sources.are_many(header)

    def _pop_with_room(self, request: Request, header: PopMessageRequest) -> None:
        """Go on with a pop that waited for its turn, as soon as there is room for its answer."""
        if request.channel.must_wait:
            wait_for_room(request, partial(answer_failures, request, partial(self._pop_again, request, header)))
        else:
            self._pop(request, header)

    def _pop_again(self, request: Request, header: PopMessageRequest) -> None:
        judge_again(request, header.consumer_group, header.topic)
        self.pop(request)

    def _pop(self, request: Request, header: PopMessageRequest) -> None:
        now_ms = self._clock_ms()
        born_ms = header.born_time or now_ms
        if now_ms - born_ms - header.poll_time > LATE_MS:
            self._found_nothing(request, ResponseCode.POLLING_TIMEOUT, "the poll time was over when the pop arrived")
            return
        accepts = self._checked(request, header)
        # A client whose clock is ahead does not wait longer than it asked for.
        deadline_ms = min(born_ms, now_ms) + longest_wait_ms(header.poll_time)
        self._start(Pop(request, header, accepts, deadline_ms, now_ms))

    # -- checks ---------------------------------------------------------------------------------------------

    def _checked(self, request: Request, header: PopMessageRequest) -> MessageFilter:
        if not 1 <= header.max_msg_nums <= MAX_MESSAGES:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"the broker's maxMsgNums is limited to {MAX_MESSAGES}, {header.max_msg_nums} are asked for",
            )
        check_invisible(header.invisible_time)
        check_attempt(header.attempt_id)
        check_pop_place(self._desk, header.topic, header.queue_id, header.consumer_group)
        if not self._settings.enable_property_filter:
            check_expression_type(header.exp_type)
        accepts = posted_filter(header.exp, header.exp_type, self._turns) if header.exp else EVERYTHING
        return readable(request, header.topic, header.consumer_group, accepts)

    # -- taking ---------------------------------------------------------------------------------------------

    def _start(self, pop: Pop) -> None:
        group = pop.header.consumer_group
        if not pop.header.order and not self._points.shares.has_room(group):
            remark = self._points.shares.refusal(group, f"open pops of group {group}")
            self._found_nothing(pop.request, ResponseCode.POLLING_FULL, remark)
            return
        if self._taking.has_too_much:
            self._found_nothing(pop.request, ResponseCode.POLLING_FULL, "too many popped messages wait for the disk")
            return
        pop.sources = self._sources.of(pop.header, pop.watched)
        self._taking.go_on(pop)

    def _was_read(self, key: Key) -> None:
        """Wake a held pop that waits for this queue, because it may have skipped the queue during the read."""
        if self._held.count(key):
            self._soon(lambda: self._held.wake(*key))

    def _finished(self, pop: Pop) -> None:
        if pop.accepts.by_properties is not None:
            self._turns.spend_read(pop.work)
        if pop.request.channel.closed:  # it may have waited for the disk: others shall have the messages
            self._wake_another(pop)
        elif pop.taken:
            self._keep(pop)
        elif pop.begins:
            self._when_saved(pop, partial(self._resume, pop, False))  # messages may have come meanwhile
        else:
            self._hold(pop)

    # -- keeping and answering ------------------------------------------------------------------------------

    def _when_saved(self, pop: Pop, go_on: Callable[[], None]) -> None:
        """Go on once the offset at which a new group starts is on disk.

        Without the offset on disk the group would start at another end after a kill.
        """
        if pop.begins:
            self._positions.save(lambda _failure: answer_failures(pop.request, go_on))
        else:
            go_on()

    def _keep(self, pop: Pop) -> None:
        """Write to the log what was taken, then answer once it is in the log."""
        self._taking.waiting_bytes += pop.bytes
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

    def _kept(self, pop: Pop, steps: list[Step], queue_id: int, stored: bool) -> None:
        self._taking.waiting_bytes -= pop.bytes
        move = self._positions.stored if stored else self._positions.failed
        for step in steps:
            move(step)
        if stored:
            self._when_saved(pop, partial(self._answer, pop, queue_id, None))
        else:
            refuse_unstored(pop.request)

    def _keep_order(self, pop: Pop) -> None:
        infos, states = self._taking.close_in_order(pop)
        counts = ";".join(
            order_count_info(
                taken.source.queue_id,
                sorted(info.counts.items()),
                min(info.counts.values()) if len(info.counts) == len(info.offsets) else 0,
            )
            for taken, info in zip(pop.taken, infos, strict=True)
        )

        def kept(stored: bool) -> None:
            self._taking.waiting_bytes -= pop.bytes
            if stored:
                self._when_saved(pop, partial(self._answer, pop, ORDER_REVIVE_QUEUE, counts))
            else:
                refuse_unstored(pop.request)

        self._log.append_states(states, kept)
        self._wake_next(pop)

    def _wake_next(self, pop: Pop) -> None:
        """Wake another held pop if more messages may be there."""
        if pop.rest or pop.was_cut:
            self._wake_another(pop)

    def _wake_another(self, pop: Pop) -> None:
        if len(self._held):
            header = pop.header
            queue_id = max(header.queue_id, ANY_QUEUE)
            self._soon(lambda: self._held.wake(header.topic, header.consumer_group, queue_id))

    def _answer(self, pop: Pop, revive_queue_id: int, order_counts: str | None) -> None:
        starts, offsets, parts, size = [], [], [], 0
        for taken in pop.taken:
            queue_id, retry = taken.source.queue_id, taken.source.retry
            starts.append(start_offset_info(retry, queue_id, taken.start_offset))
            offsets.append(msg_offset_info(retry, queue_id, taken.offsets))
            if retry == NORMAL or self._settings.pop_response_return_actual_retry_topic:
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

    def _renamed(self, pop: Pop, taken: Taken, revive_queue_id: int) -> list[bytes]:
        """Return messages of a retry topic under the client's own topic, each with its receipt.

        If a message has no room for its receipt, all of them stay as they are stored, as with
        ``popResponseReturnActualRetryTopic``: clients make the receipts from the texts of the answer, and show their
        own topic anyway. Apache RocketMQ 5.5 leaves such a message out of every answer.
        """
        renamed: list[bytes] = []
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
                if len(raw) > MAX_PROPERTIES_BYTES:
                    return taken.parts
            again = restated(message, pop.header.topic, message.queue_id, raw, message.property_map)
            renamed.append(build_record(again, message.queue_offset, message.commit_log_offset, message.stored_at_ms))
        return renamed

    # -- nothing found --------------------------------------------------------------------------------------

    def _hold(self, pop: Pop) -> None:
        request, header = pop.request, pop.header
        if pop.remark is not None:
            request.answer(ResponseCode.SYSTEM_ERROR, remark=pop.remark)
            return
        key = (header.topic, header.consumer_group, max(header.queue_id, ANY_QUEUE))
        resume = partial(self._resume, pop)
        held = HeldPop(key, pop.accepts, pop.deadline_ms, request.channel, resume, retries=not header.order)
        held.text_bytes = getsizeof(header.exp or "")
        request.command.let_go()
        outcome = self._held.hold(held)
        if outcome is Held.FULL:
            self._found_nothing(request, ResponseCode.POLLING_FULL, "too many pops are held")
        elif outcome is Held.TOO_LATE:
            self._found_nothing(request, ResponseCode.POLLING_TIMEOUT, "no message came in time")
        elif pop.scanned or (pop.was_cut and has_changed(pop.watched)):
            # There may be more to be looked through, or something came while it looked: others have their turn first.
            self._wake_another(pop)

    def _resume(self, pop: Pop, is_over: bool) -> None:
        request = pop.request
        if request.channel.closed:  # it was told in a later turn: whoever else waits shall have the message
            if not is_over:
                self._wake_another(pop)
            return
        if is_over:
            self._found_nothing(request, ResponseCode.POLLING_TIMEOUT, "no message came in time")
            return

        again = partial(self._again, pop)

        def in_turn() -> None:
            if request.channel.closed:  # whoever else waits shall have the message
                self._wake_another(pop)
            else:
                answer_failures(request, again)

        if self._turns.is_busy and (pop.accepts.by_properties is not None or pop.was_cut):
            answer_failures(request, partial(self._turns.later, request.channel, in_turn))
        else:
            answer_failures(request, again)

    def _again(self, pop: Pop) -> None:
        """Try a held pop again, because there may be messages now."""
        request, now_ms = pop.request, self._clock_ms()
        if now_ms - pop.deadline_ms > LATE_MS:
            self._wake_another(pop)
            self._found_nothing(request, ResponseCode.POLLING_TIMEOUT, "no message came in time")
            return
        if request.channel.must_wait:
            wait_for_room(request, partial(self._resume, pop, False))
            if request.channel.is_full:  # who reads shall have the message
                self._wake_another(pop)
            return
        judge_again(request, pop.header.consumer_group, pop.header.topic, partial(self._wake_another, pop))
        accepts = self._checked(request, pop.header)  # the topic may be gone
        wait_ms = longest_wait_ms(pop.header.poll_time)
        deadline_ms = min(pop.deadline_ms, now_ms + wait_ms)  # the clock may be set back
        self._start(Pop(request, pop.header, accepts, deadline_ms, now_ms))

    def _found_nothing(self, request: Request, code: ResponseCode, remark: str) -> None:
        self._traffic.missed_pulls += 1
        request.answer(code, PopMessageResponse(), remark=remark)


def check_attempt(attempt_id: str | None) -> None:
    """Refuse an attempt id that is too long: the id is kept until the messages of an ordered pop are done.

    :raises RequestRefused: INVALID_PARAMETER: the id has more than ``MAX_ATTEMPT_CHARACTERS`` characters.
    """
    if attempt_id is not None and len(attempt_id) > MAX_ATTEMPT_CHARACTERS:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"attemptId has {len(attempt_id)} characters, the limit is {MAX_ATTEMPT_CHARACTERS}",
        )


def refuse_unstored(request: Request) -> None:
    """Refuse a pop whose records could not be written."""
    request.answer(ResponseCode.SYSTEM_ERROR, remark="the store takes nothing now: nothing was popped")
