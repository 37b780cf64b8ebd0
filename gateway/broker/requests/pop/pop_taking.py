"""Taking messages of queues for a pop, one queue after the other, and closing queues that are popped in order.

Pops of topics and pops of lite topics share this code. Messages in memory are read at once. All others are read in a
thread, and other pops skip the queue meanwhile. A look at very many queues takes turns with other work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from gateway.access.needs import judge_again
from gateway.broker.desk import Desk
from gateway.broker.requests.pop.pop_sources import Source, Watched
from gateway.broker.requests.shared_retries import popped_again
from gateway.delivery.filters.message_filter import MessageFilter
from gateway.delivery.filters.record_filter import Work
from gateway.delivery.filters.turns import READ_STEPS
from gateway.delivery.pop.order import OrderInfo
from gateway.delivery.pop.positions import Key
from gateway.delivery.pop.receipts import NORMAL
from gateway.delivery.pop.revive_log import state_of
from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.remoting.dispatch import Request, answer_failures, wait_for_room
from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.store.reading.wanted import Wanted
from gateway.telemetry.logs import EventLog
from wire.disk.revive_log import StateRecord
from wire.headers.pop import PopMessageRequest
from wire.message.light_queues import LIGHT_QUEUE_PREFIX
from wire.message.record_fields import queue_offset_at, total_size_at

log = EventLog("pop")

INIT_FROM_LAST: Final = 1
"""The ``initMode`` with which a group that is new to a queue starts at the last message; 0 starts at the first."""

LOOKS: Final = 256
"""The number of queues that a pop looks at before others have their turn; a pop that has messages then ends."""
LOOK_STEPS: Final = 15
"""The steps of a look at one queue, besides the steps of its filter."""


class Taken(NamedTuple):
    """The messages that were taken from one queue."""

    source: Source
    start_offset: int
    next_offset: int
    offsets: list[int]
    parts: list[bytes]


class Pop:
    """One pop under way. A plain class for speed, because every pop needs an object."""

    __slots__ = (
        "accepts",
        "begins",
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
        "was_cut",
        "watched",
        "work",
    )

    def __init__(
        self, request: Request, header: PopMessageRequest, accepts: MessageFilter, deadline_ms: int, now_ms: int
    ) -> None:
        self.request = request
        self.header = header
        self.accepts = accepts
        self.begins = False  # whether the group is new to a queue, and where it begins is not known to be on disk
        self.deadline_ms = deadline_ms
        self.popped_at_ms = now_ms
        self.sources: Iterator[Source] = iter(())
        self.watched: Watched = []
        self.was_cut = False
        """True if the pop was interrupted for other work, or ended before it had checked all queues."""
        self.taken: list[Taken] = []
        self.count = 0
        self.bytes = 0
        self.rest = 0
        self.scanned = False
        self.remark: str | None = None
        self.work = Work(READ_STEPS)


MAX_WAITING_BYTES = 64 * 1024 * 1024
"""The most bytes of popped messages that wait for the disk. Above this number no pop takes messages."""


class PopTaking:
    """Takes the messages for pops from queues.

    :param finish: called with a pop that has all its messages.
    :param was_read: called with a queue after it was read from the disk; other pops skipped it meanwhile.
    :param give_up: called with a pop that failed, or that must wait until its peer reads, which may never happen.
    """

    def __init__(
        self,
        desk: Desk,
        finish: Callable[[Pop], None],
        was_read: Callable[[Key], None],
        give_up: Callable[[Pop], None] = lambda _: None,
    ) -> None:
        self._store = desk.store
        self._groups = desk.groups
        self._positions = desk.pops.positions
        self._orders = desk.pops.orders
        self._cold_reads = desk.cold_reads
        self._turns = desk.filter_turns
        self._clock_ms = desk.clock
        self._finish = finish
        self._was_read = was_read
        self._give_up = give_up
        self._settings = desk.settings
        self.waiting_bytes = 0
        """The number of bytes of messages that were taken and wait for the disk."""

    @property
    def has_too_much(self) -> bool:
        """True if so many bytes wait for the disk that no more messages are taken."""
        return self.waiting_bytes > MAX_WAITING_BYTES

    def is_full(self, pop: Pop) -> bool:
        """Return whether a pop has as many messages or bytes as it may have."""
        return (
            pop.count >= pop.header.max_msg_nums or pop.bytes >= self._settings.max_transfer_bytes_on_message_in_memory
        )

    def go_on(self, pop: Pop) -> None:
        """Take messages from the remaining sources, until the pop has to wait for a source or for its turn."""
        try:
            self._take_what_is_left(pop)
        except Exception:
            self._give_up(pop)
            raise

    def _take_what_is_left(self, pop: Pop) -> None:
        looks = 0
        for source in pop.sources:
            if not self._take(pop, source):
                return
            looks += 1
            if looks >= LOOKS:
                looks = 0
                if self._is_cut(pop):
                    return
        self._finish(pop)

    def _is_cut(self, pop: Pop) -> bool:
        """Let others have their turn after many looks: end a pop that has messages, or go on with an empty one later.

        :return: whether the pop was interrupted.
        """
        self._turns.spend(LOOKS * LOOK_STEPS)
        if pop.taken:
            pop.was_cut = True
            self._finish(pop)
        elif self._turns.is_spent:
            pop.was_cut = True
            self._turns.later(pop.request.channel, partial(answer_failures, pop.request, partial(self._go_on, pop)))
        else:
            return False
        return True

    def _go_on(self, pop: Pop) -> None:
        """Go on in a later turn, when there is room for an answer."""
        channel = pop.request.channel
        if channel.must_wait and not channel.closed:
            self._give_up(pop)
            wait_for_room(pop.request, partial(answer_failures, pop.request, partial(self._go_on_again, pop)))
            return
        pop.popped_at_ms = self._clock_ms()
        if channel.closed:
            self._finish(pop)
        else:
            self.go_on(pop)

    def _go_on_again(self, pop: Pop) -> None:
        judge_again(pop.request, pop.header.consumer_group, pop.header.topic)
        self._go_on(pop)

    def _take(self, pop: Pop, source: Source) -> bool:
        """Take the messages of a queue; return False if the pop has to wait for the disk."""
        group, order = pop.header.consumer_group, pop.header.order
        key = (source.topic, group, source.queue_id)
        if self._positions.is_read(key):
            return True
        offset = self._positions.committed(key)
        if offset < 0:
            offset = self._begin_at(key, source, pop)
        end = self._store.max_offset(source.topic, source.queue_id)
        if offset == end:
            if source.unread is not None:
                source.unread.to_pop[source.queue_id] = 0
            return True
        if self.is_full(pop) or pop.work.left <= 0:
            pop.rest += max(0, end - offset)
            return True
        if order and (
            self._orders.is_closed(key, pop.header.attempt_id, pop.popped_at_ms) or self._orders.is_full(key)
        ):
            pop.rest += max(0, end - offset)
            return True
        return self._read(pop, source, key, offset)

    def _begin_at(self, key: Key, source: Source, pop: Pop) -> int:
        """Return the offset at which a group that is new to a queue starts, and store the offset at once."""
        store, (topic, _, queue_id) = self._store, key
        least = max(0, store.min_offset(topic, queue_id))
        offset = least
        if source.retry == NORMAL and pop.header.init_mode == INIT_FROM_LAST:
            pop.begins = True  # asked again after a kill, the end would be another one
            if least or store.is_cold(topic, queue_id, 0):
                offset = max(store.max_offset(topic, queue_id) - 1, 0)
        self._positions.skip(key, offset)
        return offset

    def _read(self, pop: Pop, source: Source, key: Key, offset: int) -> bool:
        store, (topic, queue_id, retry, _) = self._store, source
        accepts = pop.accepts if retry == NORMAL else self._accepts_again(pop, topic)
        wanted = Wanted(accepts.accepts_code, accepts.choose_within(pop.work))
        count, size = (
            pop.header.max_msg_nums - pop.count,
            self._settings.max_transfer_bytes_on_message_in_memory - pop.bytes,
        )
        result = store.get_messages_now(topic, queue_id, offset, count, size, wanted)
        if result is not None:
            self._have_read(pop, source, key, offset, result)
            return True
        if pop.taken:  # it must not wait: until it is kept, another pop would take the same
            pop.rest += max(0, store.max_offset(topic, queue_id) - offset)
            return True

        def read() -> GetResult:
            least = min(size, self._settings.max_transfer_bytes_on_message_in_disk)
            return store.get_messages(topic, queue_id, offset, count, least, wanted)

        def have_read(result: GetResult | Failed) -> None:
            self._positions.end_read(key)
            self._was_read(key)
            answer_failures(pop.request, lambda: take(result))

        def take(result: GetResult | Failed) -> None:
            if isinstance(result, Failed):
                log.error("read failed", topic=topic, queue=queue_id, error=repr(result.error))
                pop.remark = f"reading the store failed: {result.error}"
            elif (committed := self._positions.committed(key)) == offset:
                self._have_read(pop, source, key, offset, result)
            elif committed >= 0:  # it was set elsewhere meanwhile; else the topic was deleted
                pop.sources = chain((source,), pop.sources)
            self.go_on(pop)

        self._positions.begin_read(key)
        try:
            self._cold_reads.read(read, have_read, pop.request.channel)
        except RequestRefused as refusal:
            self._positions.end_read(key)
            pop.remark = refusal.remark
            return True
        return False

    def _accepts_again(self, pop: Pop, retry_topic: str) -> MessageFilter:
        return popped_again(self._groups, self._turns, pop.header.topic, pop.header.consumer_group, retry_topic)

    def _have_read(self, pop: Pop, source: Source, key: Key, offset: int, result: GetResult) -> None:
        next_offset = result.next_begin_offset
        if result.status is GetStatus.FOUND:
            if source.topic.startswith(LIGHT_QUEUE_PREFIX):  # records tell the offset in their own topic's queue
                offsets = list(range(next_offset - result.count, next_offset))
            else:
                offsets = _queue_offsets(result.parts)
            pop.taken.append(Taken(source, offset, next_offset, offsets, list(result.parts)))
            pop.count += len(offsets)
            pop.bytes += result.total_bytes
        elif result.status is GetStatus.MESSAGE_DAMAGED:
            log.error("message cannot be popped", topic=source.topic, queue=source.queue_id, reason=result.remark)
            pop.remark = result.remark
            return
        elif next_offset != offset:  # filtered out, expired, or the queue was made again
            self._positions.skip(key, next_offset)
            pop.scanned = True
        pop.rest += max(0, result.max_offset - next_offset)

    def close_in_order(self, pop: Pop) -> tuple[list[OrderInfo], list[StateRecord]]:
        """Close the queues of the taken messages to the group.

        :return: the messages that the group has in hand for each queue, and the records that say so.
        """
        header = pop.header
        infos: list[OrderInfo] = []
        states: list[StateRecord] = []
        for taken in pop.taken:
            key = (taken.source.topic, header.consumer_group, taken.source.queue_id)
            self._positions.skip(key, taken.offsets[0])  # before it there is nothing for the group
            info = self._orders.popped(key, taken.offsets, pop.popped_at_ms, header.invisible_time, header.attempt_id)
            infos.append(info)
            states.append(state_of(key, taken.offsets[0], info))
        return infos, states


def _queue_offsets(parts: Sequence[bytes]) -> list[int]:
    """Return the queue offsets of records, in their order."""
    offsets: list[int] = []
    for part in parts:
        at, end = 0, len(part)
        while at < end:
            offsets.append(queue_offset_at(part, at))
            at += total_size_at(part, at)
    return offsets
