"""The parts of a broker that keep something on disk, real ones, on a disk in memory and with threads run by hand.

The order of opening and closing is that of ``gateway.broker.parts``.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import patch

from twisted.internet import task

from gateway.broker.takeover import CopyMark, take_over
from gateway.errors import GatewayError
from gateway.in_thread import Failed
from gateway.metadata.groups import Groups
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.topics import NO_TOPICS, Topics
from gateway.remoting.declared import Need
from gateway.schedule.delay_offsets import DelayOffsets
from gateway.schedule.delay_service import DelayService
from gateway.schedule.redirect import DelayLevels
from gateway.schedule.timer_files import TimerFiles
from gateway.schedule.timer_service import TimerService
from gateway.schedule.timer_wheel import TimerWheel
from gateway.settings import BrokerSettings, Settings
from gateway.settings.store import StoreSettings
from gateway.settings.timer import TimerSettings
from gateway.settings.transaction import TransactionStateStore
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.errors import DiskFull, WriteFailed
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutOutcome, each_result
from gateway.store.recovery.recovery_report import RecoveryReport
from gateway.telemetry.metrics import Registry
from gateway.tests.crash.disk.recording import RecordingFiles
from gateway.tests.crash.disk.state_databases import state_choice
from gateway.tests.transaction.world import without_turns
from gateway.transaction.checks.check_journal import CheckJournal
from gateway.transaction.counts import TransactionCounts
from gateway.transaction.limits import TransactionLimits
from gateway.transaction.needs import TransactionNeeds
from gateway.transaction.tables.transaction_tables import TransactionTables
from gateway.transaction.transactions import Transactions
from wire.message.properties import PropertyName

ROOT = Path("/data/store")
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
START_MS = 1_700_000_000_000
PROCESS_ID = 4711
SETTINGS = BrokerSettings(broker_name="crash")
LIMITS = TransactionLimits(remembered_outcomes=4096)
TRANSACTIONS = Settings(transaction_timeout_ms=3_600_000, file_reserved_time_hours=1_000_000)
LEVELS = DelayLevels.parse("1s 5s")
TIMERS = TimerSettings(timer_roll_window_slot=4)
TIMER_LOG_BYTES = 4096
WHEEL_SLOTS = 1 << 15
"""A megabyte instead of 37: each image has a copy. No workload looks nine hours back."""


def delay_of(level: int) -> int | None:
    """The delay of a level in milliseconds."""
    return LEVELS.delay_ms(level) if 0 < level <= LEVELS.last else None


class Clock:
    """Epoch milliseconds that pass when told to."""

    __slots__ = ("now_ms",)

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class Threads:
    """The end of the reactor turn, the log thread and the pool: nothing runs until told to."""

    def __init__(self) -> None:
        self._turn: deque[Callable[[], None]] = deque()
        self._log_thread: deque[Callable[[], Callable[[], None]]] = deque()
        self._pool: deque[Callable[[], Callable[[], None]]] = deque()
        self._done: deque[Callable[[], None]] = deque()

    def soon(self, function: Callable[[], None]) -> None:
        """Run work at the end of the turn."""
        self._turn.append(function)

    def in_log_thread(self, work: Callable[[], object], on_result: Callable[[Any], None]) -> None:
        """Run work for the log thread."""
        self._log_thread.append(lambda: _done(work, on_result))

    def in_pool(self, work: Callable[[], object], on_result: Callable[[Any], None]) -> None:
        """Run work for another thread."""
        self._pool.append(lambda: _done(work, on_result))

    def turn(self) -> None:
        """One reactor turn: what threads finished, then what was put off to its end."""
        for _ in range(len(self._done)):
            self._done.popleft()()
        for _ in range(len(self._turn)):
            self._turn.popleft()()

    def work(self, random: Random) -> None:
        """Let one of the threads do something, without telling the reactor yet."""
        busy = [queue for queue in (self._log_thread, self._pool) if queue]
        if busy:
            self._done.append(random.choice(busy).popleft()())

    def run(self) -> None:
        """Everything, until nothing is left."""
        while self._turn or self._log_thread or self._pool or self._done:
            self.turn()
            for queue in (self._log_thread, self._pool):
                if queue:
                    self._done.append(queue.popleft()())


def _done(work: Callable[[], object], on_result: Callable[[Any], None]) -> Callable[[], None]:
    result: object
    try:
        result = work()
    except (OSError, DiskFull, WriteFailed, GatewayError) as error:
        result = Failed(error)
    return lambda: on_result(result)


class SilentProducer:
    """Takes every check and never answers."""

    remote = "127.0.0.1", 1

    def notify(self, code: int, header: object = None, body: bytes = b"") -> bool:
        """Implement ``Asked``."""
        return True


class SilentProducers:
    """One producer of every group."""

    def pick(
        self, group: str, exclude: Container[SilentProducer] = (), needs: Sequence[Need] = ()
    ) -> SilentProducer | None:
        """Implement ``ProducerChoice``."""
        return None if _SILENT in exclude else _SILENT


_SILENT = SilentProducer()


def bit_map_of(_topic: str, properties: Mapping[str, str]) -> bytes:
    """Return a bit map that no other message has."""
    return properties.get(PropertyName.KEYS, "").encode()


class SmallBroker:
    """One life of a broker, from ``open`` to ``close`` or a crash."""

    def __init__(
        self,
        files: RecordingFiles,
        clock: Clock,
        settings: StoreSettings,
        states: TransactionStateStore = TransactionStateStore.QUEUE,
        transactions: Settings = TRANSACTIONS,
    ) -> None:
        self.files = files
        self.clock = clock
        self.threads = threads = Threads()
        self.reactor = task.Clock()
        self.store = MessageStore(
            ROOT,
            settings,
            StoreSurroundings(clock_ms=clock, files=files, soon=threads.soon, in_log_thread=threads.in_log_thread),
            delay_of=delay_of,
            bit_map_of=bit_map_of,
        )
        config = ROOT / "config"
        self.topics = Topics(
            path=config / "topics.json", settings=SETTINGS, clock_ms=clock, in_thread=threads.in_pool, disk=files
        )
        self.groups = Groups(
            path=config / "subscriptionGroup.json",
            settings=SETTINGS,
            clock_ms=clock,
            in_thread=threads.in_pool,
            disk=files,
        )
        self.delay_offsets = DelayOffsets(config / "delayOffset.json", threads.in_pool, files)
        self.delays = DelayService(
            store=self.store, levels=LEVELS, reactor=self.reactor, clock=clock, in_thread=cast("Any", threads.in_pool)
        )
        self.timers = TimerService(
            store=self.store,
            files=TimerFiles(ROOT, TIMER_LOG_BYTES, files, TimerWheel(WHEEL_SLOTS)),
            settings=TIMERS,
            reactor=self.reactor,
            clock=clock,
            in_thread=cast("Any", threads.in_pool),
        )
        self.offsets = ConsumerOffsets(
            path=config / "consumerOffset.json", clock_ms=clock, in_thread=threads.in_pool, disk=files
        )
        self.transactions = Transactions(
            TransactionTables(transactions, TransactionCounts(Registry()), LIMITS),
            self.store,
            TransactionNeeds(
                reactor=self.reactor,
                clock_ms=clock,
                in_thread=threads.in_pool,
                read=without_turns(threads.in_pool),
                soon=self.store.before_batch,
                producers=SilentProducers(),
                offsets=self.offsets,
                host=HOST,
                topics=NO_TOPICS,
            ),
            CheckJournal(ROOT / "transaction" / "checks", in_thread=threads.in_pool, files=files),
            state_choice(ROOT, files, states),
        )
        self.store.deletion.keep_from = self._oldest_pending

    def _oldest_pending(self) -> int | None:
        pending = self.transactions.pending
        half = pending.place(pending.base)[0] if pending.count else None
        return min((place for place in (half, self.timers.keep_from()) if place is not None), default=None)

    def open(self) -> RecoveryReport:
        """Recover and load everything.

        :raises GatewayError: something on disk cannot be used.
        """
        with patch.object(os, "getpid", lambda: PROCESS_ID):  # it is written into files: every run has the same
            report = self.store.open()
        self.topics.load()
        self.groups.load()
        self.offsets.load()
        self.delays.resume_from(self.delay_offsets.load())
        self.delay_offsets.follow(self.delays.durable_offsets)
        copy = CopyMark(ROOT, self.files)
        takes_over = copy.is_set
        if takes_over:
            take_over(self.store, self.offsets, self.delays, LEVELS, has_keys=True)
        self.transactions.rebuild(takes_over=takes_over)
        self.timers.open()
        if takes_over:
            self.offsets.persist_now()
            self.delay_offsets.persist_now()
            copy.remove()
        self.store.listen(self._dispatched)
        return report

    def _dispatched(self, outcomes: list[PutOutcome]) -> None:
        results = list(each_result(outcomes))
        self.transactions.half_stored(results)
        self.delays.arrived(results)
        self.timers.arrived(results)

    def save_timers(self) -> None:
        """Save the timer files, as their job does."""
        work = self.timers.save()
        if work is not None:
            self.threads.in_pool(work, lambda _: None)

    def start(self) -> None:
        """Begin what runs by itself."""
        self.transactions.start()
        self.delays.start()
        self.timers.start()

    def close(self) -> None:
        """A proper end."""
        self.delays.stop()
        self.timers.stop()
        stopped: list[object] = []
        stopping = self.transactions.stop()
        stopping.addCallback(stopped.append)
        self.threads.run()
        assert stopped == [None], "transactions did not stop"
        self.store.flush()
        for table in (self.topics, self.groups, self.offsets, self.delay_offsets, self.timers):
            table.persist_now()
        self.store.close()
