"""POP_LITE_MESSAGE: messages of the lite topics that a client subscribes to, in order within each topic (5.5).

A pop takes messages from lite topics that have some for the client, and starts with those that have waited longest. A
lite topic is then closed to the group until its messages are acknowledged or visible again. Checks, codes and the
answer follow upstream's ``PopLiteMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from gateway.access.needs import judge_again
from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.requests.pop.pop import LATE_MS, check_attempt, refuse_unstored
from gateway.broker.requests.pop.pop_ack import check_invisible
from gateway.broker.requests.pop.pop_sources import Source, check_pop_place
from gateway.broker.requests.pop.pop_taking import Pop, PopTaking
from gateway.delivery.filters.message_filter import EVERYTHING
from gateway.delivery.lite.subscriptions import LiteClient
from gateway.delivery.pop.held_pops import ANY_QUEUE, Held, HeldPop, longest_wait_ms
from gateway.delivery.pop.order import OrderInfo
from gateway.delivery.pop.receipts import NORMAL, ORDER_REVIVE_QUEUE
from gateway.errors import RequestRefused
from gateway.metadata.groups import Groups
from gateway.metadata.lite_attributes import bound_topic, is_parent
from gateway.remoting.declared import SUB, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Request, answer_failures, wait_for_room
from gateway.remoting.requests import answers_directly
from gateway.store.reading.get_result import GetStatus
from wire.codes import RequestCode, ResponseCode
from wire.disk.revive_log import MAX_MESSAGES
from wire.frame import build_frame_head
from wire.headers.declare import build_header, read_header
from wire.headers.lite import PopLiteMessageRequest, PopLiteMessageResponse
from wire.headers.pop import PopMessageRequest
from wire.message.light_queues import LIGHT_QUEUE_ID


class _LitePop(Pop):
    """A pop of lite topics, with its client.

    The pop knows the lite topic that it looks at, and those that it left although they have messages.
    """

    __slots__ = ("client", "looks_at", "passed_by")

    def __init__(self, request: Request, header: PopMessageRequest, deadline_ms: int, now_ms: int) -> None:
        super().__init__(request, header, EVERYTHING, deadline_ms, now_ms)
        self.client: LiteClient | None = None
        self.looks_at: str | None = None
        self.passed_by: list[str] = []


class PopLite(DeskRequests):
    """Answers POP_LITE_MESSAGE (200070)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._taking = PopTaking(desk, self._finished, lambda _: None, self._give_up)

    @answers_directly(RequestCode.POP_LITE_MESSAGE, needs(on_group(SUB), on_topic(SUB)), Size.LARGE)
    def pop(self, request: Request) -> None:
        """Check a pop, take messages, and answer or hold."""
        header = read_header(PopLiteMessageRequest, request.command)
        now_ms = self._desk.clock()
        born_ms = header.born_time or now_ms
        if now_ms - born_ms - header.poll_time > LATE_MS:
            self._found_nothing(request, header, ResponseCode.POLLING_TIMEOUT, "the poll time was over before the pop")
            return
        self._check(header)
        self._start(request, header, min(born_ms, now_ms) + longest_wait_ms(header.poll_time))

    def _check(self, header: PopLiteMessageRequest) -> None:
        topic, group = header.topic or "", header.consumer_group or ""
        if not 1 <= header.max_msg_num <= MAX_MESSAGES:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"the broker's maxMsgNum is limited to {MAX_MESSAGES}, {header.max_msg_num} are asked for",
            )
        check_invisible(header.invisible_time)
        check_attempt(header.attempt_id)
        config = check_pop_place(self._desk, topic, ANY_QUEUE, group)
        check_bound(self._desk.groups, config.attributes, topic, group)

    # -- taking ---------------------------------------------------------------------------------------------

    def _start(self, request: Request, header: PopLiteMessageRequest, deadline_ms: int) -> None:
        if self._taking.has_too_much:
            self._found_nothing(
                request, header, ResponseCode.POLLING_FULL, "too many popped messages wait for the disk"
            )
            return
        ordered = PopMessageRequest(
            consumer_group=header.consumer_group or "",
            topic=header.topic or "",
            queue_id=ANY_QUEUE,
            max_msg_nums=header.max_msg_num,
            invisible_time=header.invisible_time,
            poll_time=header.poll_time,
            born_time=header.born_time,
            init_mode=0,
            order=True,
            attempt_id=header.attempt_id,
        )
        pop = _LitePop(request, ordered, deadline_ms, self._desk.clock())
        pop.client = self._desk.lite.subscriptions.find(ordered.consumer_group, header.client_id or "")
        pop.sources = self._sources(pop)
        self._taking.go_on(pop)

    def _sources(self, pop: _LitePop) -> Iterator[Source]:
        """Yield the lite topics that are ready."""
        client = pop.client
        if client is None:
            return
        client.popped_ms = pop.popped_at_ms
        ready = self._desk.lite.take_ready(client, pop.header.attempt_id)
        while not self._taking.is_full(pop):
            queue = next(ready, None)
            if queue is None:
                break
            pop.looks_at = queue
            yield Source(queue, LIGHT_QUEUE_ID, NORMAL)
            self._pass_by(pop)

    def _pass_by(self, pop: _LitePop) -> None:
        queue, pop.looks_at = pop.looks_at, None
        if queue is None or (pop.taken and pop.taken[-1].source.topic == queue):
            return
        if self._desk.lite.has_messages(queue, pop.header.consumer_group):
            pop.passed_by.append(queue)

    def _settle(self, pop: _LitePop) -> None:
        """Make lite topics ready again that have messages which this pop left."""
        self._pass_by(pop)
        client, attempt_id = pop.client, pop.header.attempt_id
        if client is None:
            return
        client.ready.update(dict.fromkeys(pop.passed_by))
        taken = tuple(taken.source.topic for taken in pop.taken)
        if taken:
            client.given_ms = pop.popped_at_ms
        client.attempt = (attempt_id, taken) if attempt_id and taken else None

    def _give_up(self, stopped: Pop) -> None:
        """Make all lite topics ready again that a stopped pop looked at: the client asks again."""
        assert isinstance(stopped, _LitePop)
        self._pass_by(stopped)
        if stopped.client is not None:
            stopped.client.ready.update(dict.fromkeys([taken.source.topic for taken in stopped.taken]))
            stopped.client.ready.update(dict.fromkeys(stopped.passed_by))
        stopped.passed_by.clear()

    def _finished(self, found: Pop) -> None:
        assert isinstance(found, _LitePop)
        pop = found
        self._settle(pop)
        if pop.request.channel.closed:  # it may have waited for the disk: others shall have the messages
            for taken in pop.taken:
                self._desk.lite.opened(taken.source.topic, pop.header.consumer_group)
        elif pop.taken:
            self._keep(pop)
        else:
            self._hold(pop)

    def _keep(self, pop: Pop) -> None:
        """Write to the log what was taken, then answer once it is in the log."""
        self._taking.waiting_bytes += pop.bytes
        infos, states = self._taking.close_in_order(pop)

        def kept(stored: bool) -> None:
            self._taking.waiting_bytes -= pop.bytes
            if stored:
                self._answer(pop, infos)
            else:
                refuse_unstored(pop.request)

        self._desk.pops.revive_log.append_states(states, kept)

    def _answer(self, pop: Pop, infos: list[OrderInfo]) -> None:
        parts = [part for taken in pop.taken for part in taken.parts]
        header = PopLiteMessageResponse(
            pop_time=pop.popped_at_ms,
            invisible_time=pop.header.invisible_time,
            revive_qid=ORDER_REVIVE_QUEUE,
            order_count_info=";".join(_count_text(info, offset) for info in infos for offset in info.offsets),
        )
        size = sum(map(len, parts))
        self._desk.traffic.found_pulls += 1
        self._desk.traffic.given_messages += pop.count
        self._desk.flows.given(pop.header.topic, pop.header.consumer_group, pop.count, size)
        response = pop.request.command.response(ResponseCode.SUCCESS, GetStatus.FOUND.name, build_header(header))
        pop.request.send_parts([build_frame_head(response, size), *parts])

    # -- nothing found --------------------------------------------------------------------------------------

    def _hold(self, pop: _LitePop) -> None:
        request = pop.request
        header = read_header(PopLiteMessageRequest, request.command)
        if pop.remark is not None:
            request.answer(ResponseCode.SYSTEM_ERROR, remark=pop.remark)
            return
        key = (header.client_id or "", pop.header.consumer_group, ANY_QUEUE)
        resume = partial(self._resume, request, header, pop.deadline_ms)
        request.command.body = b""
        held = HeldPop(key, EVERYTHING, pop.deadline_ms, request.channel, resume, retries=False)
        held.text_bytes = request.command.header_characters
        outcome = self._desk.lite.held.hold(held)
        if outcome is Held.FULL:
            self._found_nothing(request, header, ResponseCode.POLLING_FULL, "too many pops are held")
        elif outcome is Held.TOO_LATE:
            self._found_nothing(request, header, ResponseCode.POLLING_TIMEOUT, "no message came in time")
        elif pop.was_cut and pop.client is not None and pop.client.ready:  # something came while it looked
            self._desk.lite.held.wake(pop.client.client_id, pop.client.group)

    def _resume(self, request: Request, header: PopLiteMessageRequest, deadline_ms: int, is_over: bool) -> None:
        group = header.consumer_group or ""
        pass_on = partial(self._desk.lite.pass_on, group, header.client_id or "")  # others shall have the messages
        if request.channel.closed:
            if not is_over:  # it was told in a later turn
                pass_on()
            return
        if is_over:
            self._found_nothing(request, header, ResponseCode.POLLING_TIMEOUT, "no message came in time")
            return

        def again() -> None:
            if request.channel.must_wait:
                wait_for_room(request, partial(self._resume, request, header, deadline_ms, False))
                if request.channel.is_full:
                    pass_on()
                return
            judge_again(request, group, header.topic or "", pass_on)
            self._check(header)  # the topic may be gone
            wait_ms = longest_wait_ms(header.poll_time)
            self._start(request, header, min(deadline_ms, self._desk.clock() + wait_ms))  # the clock may be set back

        answer_failures(request, again)

    def _found_nothing(self, request: Request, header: PopLiteMessageRequest, code: ResponseCode, remark: str) -> None:
        self._desk.traffic.missed_pulls += 1
        terms = PopLiteMessageResponse(
            pop_time=self._desk.clock(),
            invisible_time=header.invisible_time,
            revive_qid=ORDER_REVIVE_QUEUE,
            order_count_info="",
        )
        request.answer(code, terms, remark=remark)


def check_bound(groups: Groups, attributes: Mapping[str, str], topic: str, group: str) -> Mapping[str, str]:
    """Refuse a group that does not consume the lite topics of this parent.

    :param attributes: the attributes of the topic.
    :return: the attributes of the group.
    :raises RequestRefused: INVALID_PARAMETER, as upstream.
    """
    if not is_parent(attributes):
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"the topic [{topic}] message type not match")
    config = groups.get(group)
    if config is None or bound_topic(config.attributes) != topic:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"subscription bind topic not match, {group}")
    return config.attributes


def _count_text(info: OrderInfo, offset: int) -> str:
    """Return how often a message was popped before, in the form that the proxy reads."""
    times = info.counts.get(offset, 0)
    return f"{NORMAL} qo{LIGHT_QUEUE_ID}%{offset} {times}" if times else "0"
