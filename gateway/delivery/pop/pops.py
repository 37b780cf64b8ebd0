"""Pop consumption as one part of a broker: what is open, who waits, what comes again, and what is saved of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.delivery.pop.check_points import CheckPoints
from gateway.delivery.pop.held_pops import HeldPops
from gateway.delivery.pop.order import FREES_AT_ONCE, OrderTable
from gateway.delivery.pop.order_file import FILE_NAME, OrderFile
from gateway.delivery.pop.positions import Positions
from gateway.delivery.pop.revival import Revival
from gateway.delivery.pop.revive_log import ReviveLog
from gateway.telemetry.logs import EventLog
from wire.disk.revive_log import StateRecord

if TYPE_CHECKING:
    from gateway.delivery.surroundings import BrokerTables, DeliverySurroundings
    from gateway.settings import Settings
    from gateway.store.message_store import MessageStore
    from gateway.store.put_result import PutOutcome

OPEN_STEPS = 40
"""Steps of a queue that has come free."""

log = EventLog("pop")


class Pops:
    """Everything that requests of pop consumption share."""

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
        self.held = HeldPops(clock_ms, turns, settings.max_pop_polling_size, settings.pop_polling_size)
        self.notified = HeldPops(
            clock_ms, turns, settings.max_pop_polling_size, settings.pop_polling_size, wakes_all=True
        )
        self.revive_log = ReviveLog(store, offsets, self.check_points, self.orders, settings, surroundings)
        self.revival = Revival(store, tables, self.check_points, self.revive_log, settings, surroundings)
        self._turns = turns
        self._opened: Callable[[str, str, int], None] | None = None
        self._clock_ms = clock_ms
        self._order_file = OrderFile(
            settings.store_path_root_dir / "config" / FILE_NAME,
            self.orders,
            lambda: offsets.applied_end,
            surroundings.in_thread,
        )

    def rebuild(self) -> None:
        """Find what is open; blocks. The store is open, the tables are loaded.

        :raises GatewayError: the file of ordered pops cannot be read.
        """
        self._order_file.load()
        records = self.revive_log.rebuild(self._order_file.applied_end)
        if records:
            log.info("popped messages found", records=records, open=len(self.check_points))

    def arrived(self, outcomes: list[PutOutcome]) -> None:
        """New messages can be read."""
        unread = self.positions.unread
        if len(unread):
            for outcome in outcomes:
                unread.arrived(outcome.topic, outcome.queue_id)
        self.revive_log.arrived(outcomes)
        self.held.arrived(outcomes)
        self.notified.arrived(outcomes)

    def tick(self) -> None:
        """What time brings: messages that come again, pops that end, queues that open; every 100 ms."""
        self.revival.tick()
        self._open()
        self.held.tick()
        self.notified.tick()

    def _open(self) -> None:
        """Wake who waits for queues that have come free; very many at once take turns."""
        while (free := self.orders.take_free(self._clock_ms())) is not None:
            for topic, group, queue_id in free:
                self.wake(topic, group, queue_id)
            self._turns.spend(OPEN_STEPS * FREES_AT_ONCE)
            if self._turns.is_spent:
                self._turns.resume(self, self._open)
                return

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """A queue may have something for a group that it had not before."""
        self.held.wake(topic, group, queue_id)
        self.notified.wake(topic, group, queue_id)
        if self._opened is not None:
            self._opened(topic, group, queue_id)

    def when_opened(self, opened: Callable[[str, str, int], None]) -> None:
        """Tell ``opened`` as well: topic, group, queue."""
        self._opened = opened

    def stop(self) -> None:
        """Give out nothing more, and end who waits."""
        self.revival.stop()
        self.held.end_all()
        self.notified.end_all()

    # -- from outside ---------------------------------------------------------------------------------------

    def reset(self, group: str, topic: str, offsets: Iterable[tuple[int, int]]) -> None:
        """Queues were set to other offsets: what was popped in order before does not count there any more.

        Written down, so that pops that were under way do not move the offset after a kill.
        """
        for queue_id, offset in offsets:
            key = (topic, group, queue_id)
            if self.positions.forget(key) or self.orders.get(key) is not None:
                self.orders.put(key, None)
                record = StateRecord(topic=topic, group=group, queue_id=queue_id, next_offset=offset, order="")
                self.revive_log.append([record], self.revive_log.next_queue(), _ignore)
            self.wake(topic, group, queue_id)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted.

        Written down, so that neither pops that are under way nor a start take what was popped for messages of a topic
        made anew.
        """
        was_ordered = self.orders.forget_topic(topic)
        was_open = self.check_points.forget_topic(topic)
        was_under_way = self.positions.forget_topic(topic)
        if was_ordered or was_open or was_under_way:
            self.revive_log.append_gone(topic)

    # -- saving ---------------------------------------------------------------------------------------------

    def persist(self) -> None:
        """Save the ordered pops; what the revive topic says of them is not needed any more once they are."""
        needless = self.revive_log.needless()

        def saved(failure: BaseException | None) -> None:
            if failure is None:
                self.revive_log.save_position(needless)

        self._order_file.persist(saved)

    def persist_now(self) -> None:
        """The same, waiting for it: for the end of the process, before the consumer offsets are saved."""
        needless = self.revive_log.needless()
        self._order_file.persist_now()
        self.revive_log.save_position(needless)


def _ignore(_stored: bool) -> None:
    """A reset is in force either way."""
