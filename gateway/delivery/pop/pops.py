"""Pop consumption as one part of a broker: open check points, waiting pops, redelivery, and the saved state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from gateway.delivery.pop.check_points import CheckPoints
from gateway.delivery.pop.held_pops import HeldPops, ShownMessage
from gateway.delivery.pop.order import FREES_AT_ONCE, OrderTable
from gateway.delivery.pop.order_file import FILE_NAME, WHOLE_LOG, OrderFile
from gateway.delivery.pop.positions import Positions
from gateway.delivery.pop.revival import Revival
from gateway.delivery.pop.revive_log import ReviveLog
from gateway.delivery.surroundings import BrokerTables, DeliverySurroundings
from gateway.errors import RequestRefused
from gateway.settings import Settings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutOutcome
from gateway.store.reading.hidden_queues import ShownQueue
from gateway.telemetry.logs import EventLog
from wire.disk.revive_log import StateRecord
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage, parse_records
from wire.message.tags import tags_code

READ_BYTES = 1 << 20
"""The number of bytes of messages shown at once after which no more are read to see whose filter lets them pass."""
OPEN_STEPS = 40
"""The steps that a queue costs when it has become free."""

log = EventLog("pop")


class Pops:
    """The part of a broker that requests of pop consumption share."""

    def __init__(
        self,
        store: MessageStore,
        tables: BrokerTables,
        settings: Settings,
        surroundings: DeliverySurroundings,
    ) -> None:
        clock_ms, turns, offsets = surroundings.clock_ms, surroundings.turns, tables.offsets
        self.check_points = CheckPoints(limit=settings.pop_check_points_limit)
        self.orders = OrderTable()
        self.positions = Positions(offsets)
        most, most_of_queue = settings.max_pop_polling_size, settings.pop_polling_size
        held_bytes = surroundings.held_bytes
        self.held = HeldPops(clock_ms, turns, held_bytes, most, most_of_queue)
        self.notified = HeldPops(clock_ms, turns, held_bytes, most, most_of_queue, wakes_all=True)
        self.revive_log = ReviveLog(store, offsets, self.check_points, self.orders, settings, surroundings)
        self.revival = Revival(store, tables, self.check_points, self.revive_log, settings, surroundings)
        self._store = store
        self._turns = turns
        self._groups = tables.groups
        self._opened: Callable[[str, str, int], None] | None = None
        self._clock_ms = clock_ms
        self._order_file = OrderFile(
            settings.store_path_root_dir / "config" / FILE_NAME,
            self.orders,
            lambda: offsets.applied_end,
            surroundings.in_thread,
        )

    def rebuild(self, *, takes_over: bool) -> None:
        """Find the open pops; blocks. Call this after the store is open and the tables are loaded.

        The file of ordered pops is not read in a takeover: it may be one of an earlier time as a master. It is written
        at once in a takeover, and when Apache RocketMQ wrote it: records of the log that it knows count no more.
        A group that is missing is made again, in a takeover or if groups may be made by clients: a kill, or the
        promotion of a slave, came before its table had the group. Without the group its messages would be dropped, so a
        takeover makes the group also beyond the limit of groups.

        :raises GatewayError: the file of ordered pops cannot be read.
        :raises OSError: the file of ordered pops cannot be written.
        """
        if not takes_over:
            self._order_file.load()
        orders_end = self._order_file.applied_end
        records = self.revive_log.rebuild(orders_end)
        if takes_over or orders_end == WHOLE_LOG:
            self._order_file.replace()
        if records:
            log.info("popped messages found", records=records, open=len(self.check_points))
        make = self._groups.adopt if takes_over else self._groups.find
        for group in sorted({point.group for point in self.check_points}):
            try:
                make(group)
            except RequestRefused as refusal:
                log.warning("group of popped messages not made again", group=group, reason=str(refusal))

    def arrived(self, outcomes: list[PutOutcome]) -> None:
        """Take new readable messages: mark their queues, apply revive records, and wake waiting pops."""
        unread = self.positions.unread
        if len(unread):
            for outcome in outcomes:
                unread.arrived(outcome.topic, outcome.queue_id)
        self.revive_log.arrived(outcomes)
        self.held.arrived(outcomes)
        self.notified.arrived(outcomes)

    def shown(self, queues: Iterable[ShownQueue]) -> None:
        """Wake those who wait for queues of which hidden messages are shown now."""
        reading = _ShownReading(self._store)
        for queue in queues:
            self.positions.unread.arrived(queue.topic, queue.queue_id)
            self.revival.shown(queue.topic, queue.queue_id)
            messages = partial(reading.messages_of, queue)
            self.held.shown(queue.topic, queue.queue_id, messages)
            self.notified.shown(queue.topic, queue.queue_id, messages)

    def tick(self) -> None:
        """Deliver due messages again, end pops whose time is over, and open free queues; call this every 100 ms."""
        self.revival.tick()
        self._open()
        self.held.tick()
        self.notified.tick()

    def _open(self) -> None:
        """Wake the pops that wait for queues that have become free; very many queues take turns."""
        while (free := self.orders.take_free(self._clock_ms())) is not None:
            for topic, group, queue_id in free:
                self.wake(topic, group, queue_id)
            self._turns.spend(OPEN_STEPS * FREES_AT_ONCE)
            if self._turns.is_spent:
                self._turns.resume(self, self._open)
                return

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Wake waiting pops of a group, because a queue may have new messages for the group."""
        self.held.wake(topic, group, queue_id)
        self.notified.wake(topic, group, queue_id)
        if self._opened is not None:
            self._opened(topic, group, queue_id)

    def when_opened(self, opened: Callable[[str, str, int], None]) -> None:
        """Call ``opened`` as well with topic, group and queue, whenever waiting pops are woken."""
        self._opened = opened

    def stop(self) -> None:
        """Deliver no more messages, and end the waiting pops."""
        self.revival.stop()
        self.held.end_all()
        self.notified.end_all()

    # -- from outside ---------------------------------------------------------------------------------------

    def reset(self, group: str, topic: str, offsets: Iterable[tuple[int, int]]) -> None:
        """Note that queues were set to other offsets: earlier ordered pops of these queues no longer count.

        The reset is written to the revive topic, so that pops under way do not move the offset after a kill.
        """
        for queue_id, offset in offsets:
            key = (topic, group, queue_id)
            if self.positions.forget(key) or self.orders.get(key) is not None:
                self.orders.put(key, None)
                record = StateRecord(topic=topic, group=group, queue_id=queue_id, next_offset=offset, order="")
                self.revive_log.append_states([record], _ignore)
            self.wake(topic, group, queue_id)

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic.

        The deletion is written to the revive topic. Otherwise pops under way, or a start, would take the popped
        messages for messages of a new topic with this name.
        """
        was_ordered = self.orders.forget_topic(topic)
        was_open = self.check_points.forget_topic(topic)
        was_under_way = self.positions.forget_topic(topic)
        if was_ordered or was_open or was_under_way:
            self.revive_log.append_gone(topic)

    # -- saving ---------------------------------------------------------------------------------------------

    def persist(self) -> None:
        """Save the ordered pops; afterwards a start does not need records that others have replaced."""
        needless = self.revive_log.needless()

        def saved(failure: BaseException | None) -> None:
            if failure is None:
                self.revive_log.save_position(needless)

        self._order_file.persist(saved)

    def persist_now(self) -> None:
        """Save the ordered pops and wait: for the end of the process, before the consumer offsets are saved."""
        needless = self.revive_log.needless()
        self._order_file.persist_now()
        self.revive_log.save_position(needless)


class _ShownReading:
    """The reading of messages that are shown at once: each queue is read once at most, ``READ_BYTES`` of all queues."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._left = READ_BYTES
        self._queue: ShownQueue | None = None
        self._messages: list[ShownMessage] | None = None

    def messages_of(self, queue: ShownQueue) -> list[ShownMessage] | None:
        """Return the messages of a queue that are shown now; None if they are not in memory, or too many."""
        if queue is not self._queue:
            self._queue, self._messages = queue, self._read(queue)
        return self._messages

    def _read(self, queue: ShownQueue) -> list[ShownMessage] | None:
        topic, queue_id, first, end = queue
        if self._left <= 0:
            return None
        read = self._store.get_messages_now(topic, queue_id, first, end - first, self._left)
        if read is None:
            return None
        if read.next_begin_offset < end:
            self._left = 0
            return None
        self._left -= read.total_bytes
        return [
            ShownMessage(topic, queue_id, record.queue_offset, _tags_code(record), record)
            for record in parse_records(b"".join(read.parts))
        ]


def _tags_code(record: StoredMessage) -> int:
    return tags_code(record.property_map.get(PropertyName.TAGS))


def _ignore(_stored: bool) -> None:
    """Do nothing: a reset takes effect in any case."""
