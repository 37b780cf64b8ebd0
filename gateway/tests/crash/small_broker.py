"""The parts of a broker that keep something on disk, real ones, on a disk in memory and with threads run by hand.

The order of opening and closing is that of ``gateway.broker.parts``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random

from twisted.internet import task

from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.topics import Topics
from gateway.settings import BrokerSettings
from gateway.store.errors import DiskFull, WriteFailed
from gateway.store.message_store import MessageStore
from gateway.store.put_result import Dispatched
from gateway.store.recovery_report import RecoveryReport
from gateway.store.store_settings import StoreSettings
from gateway.tests.crash.recording import RecordingFiles
from gateway.transaction.limits import HOUR_MS, TransactionLimits
from gateway.transaction.transactions import Transactions

ROOT = Path("/data/store")
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
START_MS = 1_700_000_000_000
SETTINGS = BrokerSettings(broker_name="crash")
LIMITS = TransactionLimits(timeout_ms=HOUR_MS, max_age_ms=1_000_000 * HOUR_MS, remembered_outcomes=4096)


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
        """For the end of the turn."""
        self._turn.append(function)

    def in_log_thread(self, work: Callable[[], object], on_result: Callable[[object], None]) -> None:
        """For the log thread."""
        self._log_thread.append(lambda: _done(work, on_result))

    def in_pool(self, work: Callable[[], object], on_result: Callable[[object], None]) -> None:
        """For another thread."""
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


def _done(work: Callable[[], object], on_result: Callable[[object], None]) -> Callable[[], None]:
    result: object
    try:
        result = work()
    except (OSError, DiskFull, WriteFailed) as error:
        result = error
    return lambda: on_result(result)


class NoProducers:
    """Nobody to ask."""

    def pick(self, group: str, exclude: object = ()) -> None:
        """See ``ProducerChoice``."""
        return


class SmallBroker:
    """One life of a broker, from ``open`` to ``close`` or a crash."""

    def __init__(self, files: RecordingFiles, clock: Clock, settings: StoreSettings) -> None:
        self.files = files
        self.clock = clock
        self.threads = threads = Threads()
        self.reactor = task.Clock()
        self.store = MessageStore(
            ROOT, settings, clock, files=files, soon=threads.soon, in_thread=threads.in_log_thread
        )
        config = ROOT / "config"
        self.topics = Topics(
            path=config / "topics.json", settings=SETTINGS, clock_ms=clock, in_thread=threads.in_pool, disk=files
        )
        self.offsets = ConsumerOffsets(
            path=config / "consumerOffset.json", clock_ms=clock, in_thread=threads.in_pool, disk=files
        )
        self.transactions = Transactions(
            store=self.store,
            consumer_offsets=self.offsets,
            producers=NoProducers(),
            reactor=self.reactor,
            clock_ms=clock,
            limits=LIMITS,
            journal_path=ROOT / "transaction" / "checks",
            host=HOST,
            soon=threads.soon,
            in_thread=threads.in_pool,
            files=files,
        )
        self.store.keep_from = self._oldest_pending

    def _oldest_pending(self) -> int | None:
        pending = self.transactions.pending
        return pending.place(pending.base)[0] if pending.count else None

    def open(self) -> RecoveryReport:
        """Recover and load everything.

        :raises GatewayError: something on disk cannot be used.
        """
        report = self.store.open()
        self.topics.load()
        self.offsets.load()
        self.transactions.rebuild()
        self.store.listen(self._dispatched)
        return report

    def _dispatched(self, results: list[Dispatched]) -> None:
        self.transactions.half_stored(results)

    def start(self) -> None:
        """Begin what runs by itself."""
        self.transactions.start()

    def close(self) -> None:
        """A proper end."""
        stopped: list[object] = []
        stopping = self.transactions.stop()
        stopping.addCallback(stopped.append)
        self.threads.run()
        assert stopped == [None], "transactions did not stop"
        self.topics.persist_now()
        self.offsets.persist_now()
        self.store.close()
