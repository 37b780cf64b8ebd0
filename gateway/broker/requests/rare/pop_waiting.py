"""Requests about messages to pop: NOTIFICATION waits for some, POLLING_INFO counts waiting pops, PEEK_MESSAGE looks.

None of these requests changes anything. In topics with very many queues the broker skips queues that are known to be at
their end, and a look at the other queues takes turns with other work. Upstream: ``NotificationProcessor``,
``PollingInfoProcessor``, ``PeekMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from sys import getsizeof
from typing import NamedTuple, TypeAlias

from twisted.internet.defer import Deferred

from gateway.access.needs import judge_again
from gateway.broker.desk import DeskRequests
from gateway.broker.requests.pop.pop import LATE_MS
from gateway.broker.requests.pop.pop_sources import Watched, check_pop_place, has_changed, is_wide, places_of
from gateway.broker.requests.pop.pop_taking import LOOK_STEPS, LOOKS
from gateway.broker.requests.shared_retries import popped_again, readable
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter, is_tag_type
from gateway.delivery.filters.posted import posted_filter
from gateway.delivery.filters.record_filter import Work
from gateway.delivery.filters.turns import READ_STEPS
from gateway.delivery.pop.held_pops import ANY_QUEUE, Held, HeldPop, longest_wait_ms
from gateway.delivery.pop.receipts import NORMAL, RETRY_V1, RETRY_V2
from gateway.errors import RequestRefused
from gateway.metadata.unread_queues import Unread, marked
from gateway.remoting.declared import CLUSTER_UPDATE, GET, SUB, Size, needs, on_group, on_topic
from gateway.remoting.dispatch import Answer, Request, answer_failures
from gateway.remoting.requests import answers
from gateway.store.reading.get_result import GetResult, GetStatus
from wire.codes import RequestCode, ResponseCode
from wire.disk.revive_log import MAX_MESSAGES
from wire.frame import build_frame_head
from wire.headers.declare import build_header
from wire.headers.pop import (
    NotificationRequest,
    NotificationResponse,
    PeekMessageRequest,
    PollingInfoRequest,
    PollingInfoResponse,
    PopMessageResponse,
)

_Queue: TypeAlias = tuple[str, int, Unread | None]
"""A topic, a queue of the topic, and the marks among which the queue's mark is."""


class _Begin(NamedTuple):
    """A queue that has messages for a group, and the group's offset there."""

    topic: str
    queue_id: int
    offset: int


class _Part(NamedTuple):
    """Queues of one topic from ``start`` to before ``end``: all of them, or only those with a mark."""

    topic: str
    start: int
    end: int
    unread: Unread | None

    def queues(self) -> Iterator[_Queue]:
        """Yield the queues one after the other."""
        numbers = (
            range(self.start, self.end) if self.unread is None else marked(self.unread.to_see, self.start, self.end)
        )
        for number in numbers:
            yield self.topic, number, self.unread


class _Look:
    """A look for messages of a group, and the queues that are not looked at yet."""

    def __init__(self, group: str, parts: list[_Part], watched: Watched) -> None:
        self.group = group
        self.parts = parts
        self.left = _queues_of(parts)
        self.watched = watched
        self.looks = 0
        self.was_cut = False

    def begin_in_the_middle(self, random_below: Callable[[int], int]) -> None:
        """Start with a random queue, and look at the queues before it at the end."""
        count = sum(part.end - part.start for part in self.parts)
        first = random_below(count) if count else 0
        for number, part in enumerate(self.parts):
            if first < part.end - part.start:
                middle = part.start + first
                before, after = part._replace(end=middle), part._replace(start=middle)
                self.left = _queues_of([after, *self.parts[number + 1 :], *self.parts[:number], before])
                return
            first -= part.end - part.start


def _queues_of(parts: list[_Part]) -> Iterator[_Queue]:
    return chain.from_iterable(part.queues() for part in parts)


class _Waits:
    """A request that waits for messages."""

    def __init__(
        self, request: Request, header: NotificationRequest, accepts: MessageFilter, deadline_ms: int, wait_ms: int
    ) -> None:
        self.request = request
        self.header = header
        self.accepts = accepts
        self.deadline_ms = deadline_ms
        self.wait_ms = wait_ms


class PopWaiting(DeskRequests):
    """Answers PEEK_MESSAGE (200052), NOTIFICATION (200054), POLLING_INFO (200055) and POP_ROLLBACK (200056)."""

    # -- notification ---------------------------------------------------------------------------------------

    @answers(RequestCode.NOTIFICATION, NotificationRequest, needs(on_group(SUB), on_topic(SUB)))
    def notify(self, request: Request, header: NotificationRequest) -> None:
        """Answer when there is a message to pop, or when the time is over."""
        now_ms = self._desk.clock()
        born_ms = header.born_time or now_ms
        if now_ms - born_ms - header.poll_time > LATE_MS:
            request.answer(ResponseCode.SUCCESS, NotificationResponse())
            return
        check_pop_place(self._desk, header.topic, header.queue_id, header.consumer_group)
        if self._desk.filter_turns.is_busy and header.exp and not is_tag_type(header.exp_type):
            notified = partial(answer_failures, request, partial(self._notify, request, header, born_ms, now_ms))
            self._desk.filter_turns.later(request.channel, notified, len(header.exp))
        else:
            self._notify(request, header, born_ms, now_ms)

    def _notify(self, request: Request, header: NotificationRequest, born_ms: int, now_ms: int) -> None:
        accepts = posted_filter(header.exp, header.exp_type, self._desk.filter_turns) if header.exp else EVERYTHING
        wait_ms = longest_wait_ms(header.poll_time)
        waits = _Waits(request, header, accepts, min(born_ms, now_ms) + wait_ms, wait_ms)
        self._look(waits, self._look_at(header))

    def _look_at(self, header: NotificationRequest) -> _Look:
        forms = (NORMAL,) if header.order else (NORMAL, RETRY_V1, RETRY_V2)
        return self._look_through(header.topic, header.consumer_group, header.queue_id, forms)

    def _look(self, waits: _Waits, look: _Look) -> None:
        """Answer if some queue is open to the group and has messages for it; otherwise hold the request."""
        request, header = waits.request, waits.header
        if request.channel.closed:
            return
        now_ms = self._desk.clock()
        for begin in self._unread_in(look):
            if begin is not None:
                key = (begin.topic, header.consumer_group, begin.queue_id)
                is_closed = header.order and self._desk.pops.orders.is_closed(key, header.attempt_id, now_ms)
                if not is_closed and self._may_give(header, begin):
                    request.answer(ResponseCode.SUCCESS, NotificationResponse(has_msg=True))
                    return
            elif self._desk.filter_turns.is_spent:
                look.was_cut = True
                self._look_later(waits, look)
                return
        if look.was_cut and has_changed(look.watched):  # something came while others had their turn
            self._look_later(waits, self._look_at(header))
        else:
            self._hold(waits)

    def _may_give(self, header: NotificationRequest, begin: _Begin) -> bool:
        """Return whether a pop may give a message of a queue: not if all of a shared retry topic belong to others.

        Messages that are not in memory are not looked at.
        """
        desk = self._desk
        accepts = popped_again(desk.groups, desk.filter_turns, header.topic, header.consumer_group, begin.topic)
        if accepts.by_properties is None:
            return True
        work = Work(READ_STEPS)
        most = desk.settings.max_transfer_bytes_on_message_in_memory
        wanted = accepts.wanted_within(work)
        result = desk.store.get_messages_now(begin.topic, begin.queue_id, begin.offset, 1, most, wanted)
        desk.filter_turns.spend_read(work)
        if result is None or result.status is not GetStatus.NO_MATCHED_MESSAGE:
            return True
        return result.next_begin_offset < result.max_offset

    def _look_later(self, waits: _Waits, look: _Look) -> None:
        request = waits.request
        self._desk.filter_turns.later(
            request.channel, partial(answer_failures, request, partial(self._look, waits, look))
        )

    def _hold(self, waits: _Waits) -> None:
        request, header = waits.request, waits.header

        def resume(is_over: bool) -> None:
            if is_over:
                request.answer(ResponseCode.SUCCESS, NotificationResponse())
                return
            waits.deadline_ms = min(waits.deadline_ms, self._desk.clock() + waits.wait_ms)  # the clock may be set back
            answer_failures(request, look_again)

        def look_again() -> None:
            judge_again(request, header.consumer_group, header.topic, partial(notified.wake, *key))
            self._look(waits, self._look_at(header))

        notified = self._desk.pops.notified
        key = (header.topic, header.consumer_group, max(header.queue_id, ANY_QUEUE))
        held = HeldPop(key, waits.accepts, waits.deadline_ms, request.channel, resume, retries=not header.order)
        held.text_bytes = getsizeof(header.exp or "") + getsizeof(header.attempt_id or "")
        request.command.let_go()
        outcome = notified.hold(held)
        if outcome is not Held.YES:
            full = outcome is Held.FULL
            request.answer(ResponseCode.SUCCESS, NotificationResponse(polling_full=full))

    # -- looking --------------------------------------------------------------------------------------------

    def _look_through(self, topic: str, group: str, queue_id: int, forms: Iterable[str]) -> _Look:
        places = places_of(self._desk.topics, topic, group, forms)
        is_one = queue_id >= 0
        wide = is_wide(place for place in places if place.retry != NORMAL or not is_one)
        parts: list[_Part] = []
        watched: Watched = []
        for place in places:
            unread = self._desk.pops.positions.unread.of(place.topic, group, place.queues) if wide else None
            if unread is not None:
                watched.append((unread, unread.changes))
            if is_one and place.retry == NORMAL:
                parts.append(_Part(topic, queue_id, queue_id + 1, None))
            else:
                parts.append(_Part(place.topic, 0, place.queues, unread))
        return _Look(group, parts, watched)

    def _unread_in(self, look: _Look) -> Iterator[_Begin | None]:
        """Yield queues that have messages for the group.

        None comes after many queues, so that others may have their turn.
        """
        store, positions = self._desk.store, self._desk.pops.positions
        for topic, queue_id, unread in look.left:
            offset = max(positions.committed((topic, look.group, queue_id)), 0)
            if store.max_offset(topic, queue_id) > offset:
                yield _Begin(topic, queue_id, offset)
            elif unread is not None:
                unread.to_see[queue_id] = 0
            look.looks += 1
            if look.looks % LOOKS == 0:
                self._desk.filter_turns.spend(LOOKS * LOOK_STEPS)
                yield None

    # -- the others -----------------------------------------------------------------------------------------

    @answers(RequestCode.POLLING_INFO, PollingInfoRequest, needs(on_group(GET), on_topic(GET)))
    def polling(self, _request: Request, header: PollingInfoRequest) -> Answer:
        """Answer with the number of pops that wait for a queue, or for any queue if the queue id is -1."""
        check_pop_place(self._desk, header.topic, header.queue_id, header.consumer_group)
        count = self._desk.pops.held.count((header.topic, header.consumer_group, max(header.queue_id, ANY_QUEUE)))
        return Answer(header=PollingInfoResponse(polling_num=count))

    @answers(RequestCode.PEEK_MESSAGE, PeekMessageRequest, needs(on_group(SUB), on_topic(SUB)), Size.LARGE)
    async def peek(self, request: Request, header: PeekMessageRequest) -> Answer | None:
        """Answer with messages from the group's offset on, without popping them."""
        check_pop_place(self._desk, header.topic, header.queue_id, header.consumer_group)
        if not 1 <= header.max_msg_nums <= MAX_MESSAGES:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"the broker's maxMsgNums is limited to {MAX_MESSAGES}, {header.max_msg_nums} are asked for",
            )
        begins = await self._begins(request, header)
        accepts = {begin.topic: self._filter_of(request, header, begin.topic) for begin in begins}
        work = Work(READ_STEPS)
        results, rest = await self._desk.cold_reads.result(
            lambda: self._peeked(begins, accepts, work, header.max_msg_nums), request.channel, is_long=True
        )
        self._desk.filter_turns.spend_read(work)
        terms = PopMessageResponse(pop_time=self._desk.clock(), rest_num=rest)
        if not results:
            return Answer(ResponseCode.PULL_NOT_FOUND, terms, remark=GetStatus.NO_MESSAGE_IN_QUEUE.name)
        size = sum(result.total_bytes for result in results)
        response = request.command.response(ResponseCode.SUCCESS, GetStatus.FOUND.name, build_header(terms))
        parts = [part for result in results for part in result.parts]
        request.send_parts([build_frame_head(response, size), *parts])
        return None

    @answers(RequestCode.POP_ROLLBACK, None, CLUSTER_UPDATE)
    def roll_back(self, _request: Request, _header: None) -> Answer:
        """Answer SUCCESS: check points shall go back from RocksDB to the revive topic, where all of them are here.

        Upstream also answers SUCCESS without such a database.
        """
        return Answer()

    async def _begins(self, request: Request, header: PeekMessageRequest) -> list[_Begin]:
        """Return the queues that have messages for the group, from a random queue on.

        All such queues are returned; if there are very many queues, only the first ones.
        """
        forms = NORMAL, RETRY_V1, RETRY_V2
        look = self._look_through(header.topic, header.consumer_group, header.queue_id, forms)
        look.begin_in_the_middle(self._desk.random_below)
        begins: list[_Begin] = []
        for begin in self._unread_in(look):
            if begin is not None:
                least = self._desk.store.min_offset(begin.topic, begin.queue_id)
                begins.append(begin._replace(offset=max(begin.offset, least)))
            elif begins or request.channel.closed:
                break
            elif self._desk.filter_turns.is_spent:
                turn: Deferred[None] = Deferred()
                self._desk.filter_turns.later(request.channel, partial(turn.callback, None))
                await turn
        return begins

    def _filter_of(self, request: Request, header: PeekMessageRequest, topic: str) -> MessageFilter:
        if topic == header.topic:
            return readable(request, topic, header.consumer_group)
        desk = self._desk
        return popped_again(desk.groups, desk.filter_turns, header.topic, header.consumer_group, topic)

    def _peeked(
        self, begins: list[_Begin], accepts: Mapping[str, MessageFilter], work: Work, count: int
    ) -> tuple[list[GetResult], int]:
        results: list[GetResult] = []
        rest, left = 0, self._desk.settings.max_transfer_bytes_on_message_in_memory
        for topic, queue_id, offset in begins:
            next_offset = offset
            if count > 0 and left > 0:
                wanted = accepts[topic].wanted_within(work)
                result = self._desk.store.get_messages(topic, queue_id, offset, count, left, wanted)
                if result.status is not GetStatus.MESSAGE_DAMAGED:
                    next_offset = result.next_begin_offset  # what was passed over is not for this group
                if result.status is GetStatus.FOUND:
                    results.append(result)
                    count -= result.count
                    left -= result.total_bytes
            rest += max(0, self._desk.store.max_offset(topic, queue_id) - next_offset)
        return results, rest
