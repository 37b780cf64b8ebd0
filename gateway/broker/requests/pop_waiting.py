"""Whether there is something to pop: NOTIFICATION waits for it, POLLING_INFO counts who waits, PEEK_MESSAGE looks.

None of them changes anything. Upstream: ``NotificationProcessor``, ``PollingInfoProcessor``, ``PeekMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.requests.pop import LATE_MS
from gateway.broker.requests.pop_sources import check_pop_place
from gateway.broker.requests.pop_taking import answer_refusals
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.posted import posted_filter
from gateway.delivery.filters.tags import is_tag_type
from gateway.delivery.pop.held_pops import ANY_QUEUE, Held, HeldPop, longest_wait_ms
from gateway.delivery.pop.receipts import RETRY_V1, RETRY_V2, pop_retry_topic
from gateway.errors import RequestRefused
from gateway.remoting.dispatch import Answer
from gateway.store.get_result import GetStatus
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

if TYPE_CHECKING:
    from gateway.broker.cold_reads import ColdReads
    from gateway.clock import Milliseconds
    from gateway.delivery.filters.turns import FilterTurns
    from gateway.delivery.pop.held_pops import HeldPops
    from gateway.delivery.pop.order import OrderTable
    from gateway.delivery.pop.positions import Positions
    from gateway.metadata.groups import Groups
    from gateway.metadata.topics import Topics
    from gateway.remoting.dispatch import Dispatch, Request
    from gateway.settings import Settings
    from gateway.store.get_result import GetResult
    from gateway.store.message_store import MessageStore


class PopWaiting:
    """Answers PEEK_MESSAGE (200052), NOTIFICATION (200054) and POLLING_INFO (200055).

    :param held: the pops that wait; ``notified`` the notifications.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        positions: Positions,
        orders: OrderTable,
        held: HeldPops,
        notified: HeldPops,
        broker_permission: int,
        max_bytes: int,
        longest_hold_ms: int,
        clock_ms: Milliseconds,
        cold_reads: ColdReads,
        random_below: Callable[[int], int],
        turns: FilterTurns,
    ) -> None:
        self._turns = turns
        self._store = store
        self._topics = topics
        self._groups = groups
        self._positions = positions
        self._orders = orders
        self._held = held
        self._notified = notified
        self._permission = broker_permission
        self._max_bytes = max_bytes
        self._longest_hold_ms = longest_hold_ms
        self._clock_ms = clock_ms
        self._cold_reads = cold_reads
        self._random_below = random_below

    def use(self, settings: Settings) -> None:
        """Go on with changed settings."""
        self._permission = settings.broker_permission

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        dispatch.answers(RequestCode.NOTIFICATION, NotificationRequest, self.notify)
        dispatch.answers(RequestCode.POLLING_INFO, PollingInfoRequest, self.polling)
        dispatch.answers(RequestCode.PEEK_MESSAGE, PeekMessageRequest, self.peek)

    # -- notification ---------------------------------------------------------------------------------------

    def notify(self, request: Request, header: NotificationRequest) -> None:
        """Answer when there is something to pop, or when the time is over."""
        now_ms = self._clock_ms()
        born_ms = header.born_time or now_ms
        if now_ms - born_ms - header.poll_time > LATE_MS:
            request.answer(ResponseCode.SUCCESS, NotificationResponse())
            return
        self._check(header.topic, header.queue_id, header.consumer_group)
        if self._turns.is_busy and header.exp and not is_tag_type(header.exp_type):
            notified = partial(answer_refusals, request, partial(self._notify, request, header, born_ms, now_ms))
            self._turns.later(request.channel, notified)
        else:
            self._notify(request, header, born_ms, now_ms)

    def _notify(self, request: Request, header: NotificationRequest, born_ms: int, now_ms: int) -> None:
        accepts = posted_filter(header.exp, header.exp_type, self._turns) if header.exp else EVERYTHING
        if self._has_message(header):
            request.answer(ResponseCode.SUCCESS, NotificationResponse(has_msg=True))
            return
        wait_ms = longest_wait_ms(header.poll_time, self._longest_hold_ms)
        self._hold(request, header, accepts, min(born_ms, now_ms) + wait_ms, wait_ms)

    def _hold(
        self, request: Request, header: NotificationRequest, accepts: MessageFilter, deadline_ms: int, wait_ms: int
    ) -> None:
        def resume(is_over: bool) -> None:
            if is_over or self._has_message(header):
                request.answer(ResponseCode.SUCCESS, NotificationResponse(has_msg=not is_over))
            else:
                self._hold(request, header, accepts, min(deadline_ms, self._clock_ms() + wait_ms), wait_ms)

        key = (header.topic, header.consumer_group, max(header.queue_id, ANY_QUEUE))
        request.command.let_go()
        outcome = self._notified.hold(HeldPop(key, accepts, deadline_ms, request.channel, resume))
        if outcome is not Held.YES:
            full = outcome is Held.FULL
            request.answer(ResponseCode.SUCCESS, NotificationResponse(polling_full=full))

    def _has_message(self, header: NotificationRequest) -> bool:
        """Whether some queue is not at its end for the group, and open to it."""
        group, now_ms = header.consumer_group, self._clock_ms()
        for topic, queue_id in self._queues(header.topic, group, header.queue_id, retries=not header.order):
            key = (topic, group, queue_id)
            if header.order and self._orders.is_closed(key, header.attempt_id, now_ms):
                continue
            if self._store.max_offset(topic, queue_id) > max(self._positions.committed(key), 0):
                return True
        return False

    def _queues(self, topic: str, group: str, queue_id: int, *, retries: bool) -> Iterator[tuple[str, int]]:
        names = [pop_retry_topic(topic, group, form) for form in (RETRY_V1, RETRY_V2)] if retries else []
        for name in (topic, *names):
            config = self._topics.get(name)
            count = 0 if config is None else config.read_queue_nums
            if name == topic and queue_id >= 0:
                yield name, queue_id
            else:
                yield from ((name, number) for number in range(count))

    # -- the others -----------------------------------------------------------------------------------------

    def polling(self, _request: Request, header: PollingInfoRequest) -> Answer:
        """How many pops wait for a queue, or (-1) for any."""
        self._check(header.topic, header.queue_id, header.consumer_group)
        count = self._held.count((header.topic, header.consumer_group, max(header.queue_id, ANY_QUEUE)))
        return Answer(header=PollingInfoResponse(polling_num=count))

    async def peek(self, request: Request, header: PeekMessageRequest) -> Answer | None:
        """Messages from where the group is, and nothing happens to them."""
        self._check(header.topic, header.queue_id, header.consumer_group)
        if not 1 <= header.max_msg_nums <= MAX_MESSAGES:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"the broker's maxMsgNums is limited to {MAX_MESSAGES}, {header.max_msg_nums} are asked for",
            )
        queues = list(self._queues(header.topic, header.consumer_group, header.queue_id, retries=True))
        first = self._random_below(len(queues)) if queues else 0
        begins = [
            (topic, queue_id, self._begin((topic, header.consumer_group, queue_id)))
            for topic, queue_id in queues[first:] + queues[:first]
        ]
        results, rest = await self._cold_reads.result(
            lambda: self._peeked(begins, header.max_msg_nums), request.channel, is_long=True
        )
        terms = PopMessageResponse(pop_time=self._clock_ms(), rest_num=rest)
        if not results:
            return Answer(ResponseCode.PULL_NOT_FOUND, terms, remark=GetStatus.NO_MESSAGE_IN_QUEUE.name)
        size = sum(result.total_bytes for result in results)
        response = request.command.response(ResponseCode.SUCCESS, GetStatus.FOUND.name, build_header(terms))
        parts = [part for result in results for part in result.parts]
        request.send_parts([build_frame_head(response, size), *parts])
        return None

    def _begin(self, key: tuple[str, str, int]) -> int:
        return max(self._positions.committed(key), self._store.min_offset(key[0], key[2]), 0)

    def _peeked(self, begins: list[tuple[str, int, int]], count: int) -> tuple[list[GetResult], int]:
        results: list[GetResult] = []
        rest, left = 0, self._max_bytes
        for topic, queue_id, offset in begins:
            next_offset = offset
            if count > 0 and left > 0:
                result = self._store.get_messages(topic, queue_id, offset, count, left)
                if result.status is GetStatus.FOUND:
                    results.append(result)
                    count -= result.count
                    left -= result.total_bytes
                    next_offset = result.next_begin_offset
            rest += max(0, self._store.max_offset(topic, queue_id) - next_offset)
        return results, rest

    def _check(self, topic: str, queue_id: int, group: str) -> None:
        check_pop_place(self._topics, self._groups, self._permission, topic, queue_id, group)
