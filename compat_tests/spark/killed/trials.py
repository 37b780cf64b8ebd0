"""Trials in which something dies: a gateway and a stream that is killed at random, and what arrived in the end.

archive     Transactions are committed, rolled back and left open at random. A stream archives what is committed. In
            the end the archive is compared with what the producer knows.
sink        Messages are copied into another topic by the transactional sink, while a producer of its group answers
            the broker's checks from the checkpoint. In the end the topic has each message once, and no half message
            is left without an outcome.

While a stream runs, the gateway, Spark's Python workers, an executor or the driver is killed (``kill -9``): after some
time, or when Spark has just planned a batch, written a file, noted what the sink did or that the batch is done; of the
sink also at each step of its commit. Deaths of the driver are also made up, since starting it again takes seconds: of
the last batch, what Spark wrote after some moment is taken away.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from compat_tests.spark.driver import Driver
from compat_tests.spark.killed.dying_sink import FORMAT as DYING
from compat_tests.spark.killed.dying_sink import Point, die_at, is_planned, live
from gateway.cli.clients.pipeline import DEFAULT_GROUP, DecisionChecker
from gateway.client import AdminClient, Message, Producer, ReceivedMessage, TransactionProducer, TransactionState
from gateway.client.errors import RocketMQError
from gateway.client.testing.server import GatewayServer
from gateway.spark.asking.cluster import Access, Cluster
from gateway.spark.pipelines.archive import CHECKPOINT
from gateway.spark.writing.decisions import FOLDER, Decisions

LOCAL = "local[2,4]"
EXECUTORS = "local-cluster[2,1,1024]"
"""Two executors in processes of their own."""
RUNS = 2
"""That are disturbed; one more is not."""
TRANSACTIONS = 40
"""Begun before each run."""
PATIENCE_S = 600.0
"""With a run, or what the gateway does after it, on a machine that has other things to do as well."""
STARTS = 10
"""So often an undisturbed run may be started that ended before it planned anything, for ``SPARK_GAVE_UP``."""
SPARK_WAITS_S = 10.0
SPARK_GAVE_UP = (
    "Timed out while waiting for the Python worker to connect back",
    "Python worker failed to connect back",
)
"""Spark starts a Python process to plan a stream and waits so long for it; nothing of ours has run in it by then. The
second text is what a query says whose start has the first as its cause."""
NOTHING = "nothing"
SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "transactionTimeOut": "500",
    "transactionCheckInterval": "500",
    "transactionCheckMax": "1000",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment at which something dies in a run.

    :param pause_s: after the run began; or after there are so many new ``files`` of a batch.
    :param files: says what files there are of a kind.
    """

    name: str
    pause_s: float
    files: Callable[[], set[Path]] | None = None
    count: int = 0

    def come(self, is_over: Callable[[], bool]) -> bool:
        """Wait for it; False when the run is over before."""
        if self.files is not None:
            before = self.files()
            while len(self.files() - before) < self.count:
                if is_over():
                    return False
                time.sleep(0.001)  # noqa: TID251 - another process is waited for
        end = time.monotonic() + self.pause_s
        while time.monotonic() < end and not is_over():
            time.sleep(0.001)  # noqa: TID251
        return not is_over()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows that arrived, beside the rows that had to arrive."""

    rows: int
    """That had to."""
    lost: tuple[str, ...]
    twice: tuple[str, ...]
    strange: tuple[str, ...]

    @classmethod
    def of(cls, expected: Iterable[str], found: Sequence[str]) -> Comparison:
        """Compare; of what had to arrive each is another."""
        wanted, counts = set(expected), Counter(found)
        twice = tuple(sorted(each for each, count in counts.items() if count > 1))
        lost, strange = wanted - counts.keys(), counts.keys() - wanted
        return cls(len(wanted), tuple(sorted(lost)), twice, tuple(sorted(strange)))


class Trial(ABC):
    """A gateway, and a stream that is disturbed.

    :param folder: for all that is written.
    """

    def __init__(self, driver: Driver, folder: Path, seed: int) -> None:
        self.driver = driver
        self.chance = random.Random(seed)
        self.folder = folder
        self.server = GatewayServer(folder / "data", settings=SETTINGS)
        self.kinds = (
            ("gateway", "worker", "driver", "driver", NOTHING)
            if driver.master == LOCAL
            else ("executor", "executor", "gateway", "worker", "driver")
        )
        self.kills: Counter[str] = Counter()
        """How often what died, by its name."""
        self.starts_given_up = 0
        """Runs that Spark ended before they began, since its Python took too long to start."""
        self.events: list[str] = []

    @abstractmethod
    def do(self) -> Comparison:
        """All of it.

        :raises AssertionError: nothing goes on, or something that is not a row is there twice or left.
        """

    def note(self, event: str, kind: str = "") -> None:
        """Keep what happened, for whoever looks at a seed that failed; ``kind`` is what died of it."""
        self.events.append(event)
        if kind:
            self.kills[kind] += 1

    def source(self, topic: str) -> dict[str, str]:
        """Options of a stream that reads a topic."""
        return {
            "nameServer": self.server.nameserver,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "minPartitions": "4",
            "reconnectTimeoutMs": "60000",
        }

    def run(self, verb: str, *, is_disturbed: bool, **order: Any) -> None:
        """A run of a stream to its end, or to its failure when it is disturbed.

        :raises AssertionError: it failed, or its driver died, and nothing had been done to it.
        """
        for start in range(1, STARTS + 1):
            begun, planned = time.monotonic(), self.planned()
            self.driver.tell(verb, **order)
            killed = self._disturb() if is_disturbed else NOTHING
            if killed == "driver":
                return
            answer = self.driver.answer(PATIENCE_S)
            if answer is None:
                assert self.dies_as_told(), "the driver died by itself"
                return
            failed = answer.get("failed")
            if failed is None:
                return
            self.note(f"query failed: {_reason(failed)}")
            if self.dies_as_told():  # its Java is dead, and its Python could still tell
                self.driver.kill()
                return
            if killed != NOTHING:
                return
            assert any(text in failed for text in SPARK_GAVE_UP), failed[:1500]
            assert time.monotonic() - begun >= SPARK_WAITS_S, "Spark gave up at once"
            assert self.planned() == planned, "Spark gave up in the middle of a batch"
            assert start < STARTS, f"Spark could not start Python {STARTS} times"
            self.starts_given_up += 1

    def planned(self) -> set[Path]:
        """Batches that Spark has planned."""
        return self.watched()["a batch is planned"]()

    def dies_as_told(self) -> bool:
        """Return whether the driver was planned to die by itself, and did."""
        return False

    def kill_gateway(self, when: str) -> None:
        """Kill it and start it again."""
        self.note(f"gateway killed {when}", "gateway")
        self.server.kill()
        self.server.start()

    @abstractmethod
    def watched(self) -> dict[str, Callable[[], set[Path]]]:
        """Files that tell how far a batch is."""

    def _disturb(self) -> str:
        """Something dies during a run, or nothing does; what it was."""
        kind = self.chance.choice(self.kinds)
        moment = self._moment()
        if kind == NOTHING or not moment.come(lambda: self.driver.has_answered):
            return NOTHING
        if kind == "gateway":
            self.kill_gateway(moment.name)
        elif kind == "driver":
            self.note(f"driver killed {moment.name}", "driver")
            self.driver.kill()
            self.driver.start()  # meanwhile
        else:
            executors = self.driver.executors() if kind == "executor" else []
            kind = "executor" if executors else "worker"
            self._kill(executors or self.driver.workers(), kind, moment.name)
        return kind

    def _kill(self, victims: Sequence[psutil.Process], kind: str, when: str) -> None:
        for victim in victims[: self.chance.randint(1, 2)]:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
                self.note(f"{kind} killed {when}", kind)

    def _moment(self) -> Moment:
        if self.chance.random() < 0.3:
            return Moment("after some time", self.chance.uniform(0.0, 3.0))
        name, files = self.chance.choice(sorted(self.watched().items()))
        pause_s = self.chance.choice((0.0, self.chance.uniform(0.0, 0.1)))
        return Moment(f"when {name}", pause_s, files, self.chance.choice((1, 1, 2)))


class Ledger:
    """The fate of each transaction, as its producer's database would know it."""

    def __init__(self) -> None:
        self.outcomes: dict[str, TransactionState] = {}

    def check(self, message: ReceivedMessage) -> TransactionState:
        """A transaction the producer did not hear of again, since the gateway died in its begin, is rolled back."""
        return self.outcomes.setdefault(message.msg_id, TransactionState.ROLLBACK)

    @property
    def committed(self) -> set[str]:
        """The ids of what must be archived."""
        return {key for key, state in self.outcomes.items() if state is TransactionState.COMMIT}


class ArchiveTrial(Trial):
    """Transactions, and a stream into an archive."""

    def __init__(self, driver: Driver, folder: Path, seed: int) -> None:
        super().__init__(driver, folder, seed)
        self._archive = folder / "archive"
        self._checkpoint = self._archive / CHECKPOINT
        self._topic = f"kills-{seed}"
        self._ledger = Ledger()

    def do(self) -> Comparison:
        """Transactions and runs of the stream in turn."""
        with self.server, self._producer() as producer:
            for _ in range(RUNS):
                self._transact(producer)
                self._archive_once(is_disturbed=True)
                if self.chance.random() < 0.5:
                    self._forget_the_end()
            self._transact(producer)
            self._settle()
            self._archive_once(is_disturbed=False)
            rows = self.driver.ask("archived", timeout_s=PATIENCE_S, path=str(self._archive))["rows"]
        assert len({(queue, offset) for _, queue, offset in rows}) == len(rows), "offsets are there twice"
        return Comparison.of(self._ledger.committed, [msg_id for msg_id, _, _ in rows])

    def watched(self) -> dict[str, Callable[[], set[Path]]]:
        """From the plan of a batch to its end."""
        return {
            "a batch is planned": lambda: _batches(self._checkpoint / "offsets"),
            "a file is there": lambda: set(self._archive.glob("eventDate=*/topic=*/*.parquet")),
            "the files of a batch are noted": lambda: _batches(self._archive / "_spark_metadata"),
            "a batch is done": lambda: _batches(self._checkpoint / "commits"),
        }

    @contextmanager
    def _producer(self) -> Iterator[TransactionProducer]:
        with AdminClient(namesrv=self.server.nameserver) as admin:
            admin.topics.create(self._topic, queues=3)
        with TransactionProducer("kills", self._ledger, namesrv=self.server.nameserver) as producer:
            yield producer

    def _transact(self, producer: TransactionProducer) -> None:
        """Carry out some transactions; now and then the gateway dies between two of them."""
        for number in range(TRANSACTIONS):
            if self.chance.random() < 0.01:
                self.kill_gateway("between transactions")
            with suppress(RocketMQError):  # the check settles it
                self._one(producer, b"%d" % number)

    def _one(self, producer: TransactionProducer, body: bytes) -> None:
        kind = self.chance.choice(("commit", "commit", "rollback", "open", "forgotten"))
        states = {"rollback": TransactionState.ROLLBACK, "open": TransactionState.UNKNOWN}
        with producer.begin(Message(self._topic, body)) as transaction:
            self._ledger.outcomes[transaction.msg_id] = states.get(kind, TransactionState.COMMIT)
            if kind == "commit":
                transaction.commit()
            elif kind == "rollback":
                transaction.rollback()

    def _archive_once(self, *, is_disturbed: bool) -> None:
        source, most = self.source(self._topic), self.chance.choice((9, 17, 1000))
        self.run("archive", is_disturbed=is_disturbed, source=source, path=str(self._archive), most=most)

    def _forget_the_end(self) -> None:
        """Take away what Spark wrote of the last batch after some moment: there it died."""
        planned, done = self._checkpoint / "offsets", self._checkpoint / "commits"
        batches = [int(path.name) for path in _batches(planned)]
        if not batches:
            return
        last = max(batches)
        sunk = self._archive / "_spark_metadata"
        taken = self.chance.choice(((done,), (done, sunk), (done, sunk, planned)))
        for folder in taken:
            for name in (f"{last}", f"{last}.compact"):
                (folder / name).unlink(missing_ok=True)
            # Checksums, and what a driver that was really killed left half written: this one died before it.
            for pattern in (f".{last}.*", f"..{last}.*"):
                for path in folder.glob(pattern):
                    path.unlink()
        self.note(f"batch {last} without {', '.join(folder.name for folder in taken)}", "driver, made up")

    def _settle(self) -> None:
        """Wait until every committed transaction is delivered: what was forgotten is checked."""
        for key, state in self._ledger.outcomes.items():
            if state is TransactionState.UNKNOWN and self.chance.random() < 0.5:
                self._ledger.outcomes[key] = TransactionState.COMMIT
        count = _counter(self.server, self._topic)
        _until(lambda: count() >= len(self._ledger.committed), "committed transactions are delivered")


class SinkTrial(Trial):
    """Messages, and a stream that copies them into another topic as transactions."""

    def __init__(self, driver: Driver, folder: Path, seed: int) -> None:
        super().__init__(driver, folder, seed)
        self._checkpoint = folder / "checkpoint"
        self._from = f"from-{seed}"
        self._to = f"to-{seed}"
        self._sent: list[bytes] = []
        self._is_to_die = False

    def do(self) -> Comparison:
        """Messages and runs of the stream in turn."""
        self._checkpoint.mkdir()
        with self.server, AdminClient(namesrv=self.server.nameserver) as admin:
            for topic in (self._from, self._to):
                admin.topics.create(topic, queues=3)
            checker = DecisionChecker(Decisions(str(self._checkpoint)))
            with TransactionProducer(DEFAULT_GROUP, checker, namesrv=self.server.nameserver, topics=(self._to,)):
                for _ in range(RUNS):
                    self._send()
                    if self.chance.random() < 0.6:
                        self._plan_a_death()
                    self._copy(is_disturbed=True)
                self._send()
                live(self._checkpoint)
                self._copy(is_disturbed=False)
                _until(lambda: not self._pending(), "half messages have an outcome")
            self.note(f"checks: {checker.counts or 'none'}")
            rows = self.driver.ask("bodies", timeout_s=PATIENCE_S, source=self.source(self._to))["rows"]
        return Comparison.of((body.decode() for body in self._sent), rows)

    def watched(self) -> dict[str, Callable[[], set[Path]]]:
        """From the plan of a batch to its end."""
        return {
            "a batch is planned": lambda: _batches(self._checkpoint / "offsets"),
            "a batch is decided": lambda: set((self._checkpoint / FOLDER).glob("*/*[0-9]")),
            "a batch is done": lambda: _batches(self._checkpoint / "commits"),
        }

    def _send(self) -> None:
        bodies = [b"%d" % number for number in range(len(self._sent), len(self._sent) + TRANSACTIONS)]
        with Producer("kills", namesrv=self.server.nameserver) as producer:
            producer.send_batch([Message(self._from, body) for body in bodies])
        self._sent += bodies

    def _plan_a_death(self) -> None:
        """At a step of the next commit, or of the one after it."""
        done = len(_batches(self._checkpoint / "commits"))
        point, batch = self.chance.choice(list(Point)), done + self.chance.choice((0, 0, 1))
        die_at(self._checkpoint, batch, point)
        self.note(f"driver dies in batch {batch} {point.value}")

    def _copy(self, *, is_disturbed: bool) -> None:
        source = {**self.source(self._from), "maxOffsetsPerTrigger": self.chance.choice(("11", "31", "1000"))}
        sink = {"nameServer": self.server.nameserver, "topic": self._to, "deliveryMode": "transactional"}
        sink["checkpointLocation"] = str(self._checkpoint)
        self._is_to_die = is_planned(self._checkpoint)
        self.run("copy", is_disturbed=is_disturbed, source=source, sink=sink, sink_format=DYING)

    def dies_as_told(self) -> bool:
        """The order is taken away by what obeys it."""
        is_dead = self._is_to_die and not is_planned(self._checkpoint)
        if is_dead:
            self.kills["driver, in a commit"] += 1
        return is_dead

    def _pending(self) -> list[str]:
        command = [sys.executable, "-m", "gateway.cli", "transactions", "list", "--broker", self.server.broker]
        listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
        return listed.stdout.splitlines()[1:]


def _batches(folder: Path) -> set[Path]:
    """The files of Spark's log of batches."""
    return {path for path in folder.glob("[0-9]*") if path.name.isdecimal()}


def _reason(failed: str) -> str:
    """Return the line of a Java stack trace that says most."""
    lines = [line for line in failed.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("gateway.", "Caused by"))]
    return (telling or lines)[-1 if telling else 0][:200]


def _counter(server: GatewayServer, topic: str) -> Callable[[], int]:
    def count() -> int:
        cluster = Cluster(Access(name_servers=(server.nameserver,), request_timeout_s=30.0))
        try:
            return sum(cluster.ends(cluster.queues(topic) or ()).values())
        finally:
            cluster.close()

    return count


def _until(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.1)  # noqa: TID251 - the gateway checks
