"""Kills at every point: what is archived is what was committed, each message once.

    python -m compat_tests.spark.kills --seeds 100 [--first 0]

For each seed transactions are committed, rolled back and left open at random, while the gateway is killed and started
again. A stream archives them in several runs. During a run the gateway or Spark's Python workers are killed; between
runs the driver's death is made up: of the last batch, what Spark wrote after some moment is taken away again (where the
batch ends, what the sink wrote down, that it is done). In the end the archive is compared with what the producer knows.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from gateway.client import AdminClient, Message, ReceivedMessage, TransactionProducer, TransactionState
from gateway.client.errors import RocketMQError
from gateway.client.testing.server import GatewayServer
from gateway.spark.cluster import Access, Cluster
from gateway.spark.pipelines.archive import CHECKPOINT, ArchiveOptions, start_archive

RUNS = 3
TRANSACTIONS = 40
"""Begun before each run."""
PATIENCE_S = 120.0
SETTINGS = {
    "flushDiskType": "SYNC_FLUSH",
    "transactionTimeOut": "500",
    "transactionCheckInterval": "500",
    "transactionCheckMax": "1000",
}


class Ledger:
    """What became of each transaction, as its producer's database would know."""

    def __init__(self) -> None:
        self.outcomes: dict[str, TransactionState] = {}

    def check(self, message: ReceivedMessage) -> TransactionState:
        """A transaction the producer did not hear of again, since the gateway died in its begin, is rolled back."""
        return self.outcomes.setdefault(message.msg_id, TransactionState.ROLLBACK)

    @property
    def committed(self) -> set[str]:
        """The ids of what must be archived."""
        return {key for key, state in self.outcomes.items() if state is TransactionState.COMMIT}


class Trial:
    """One seed.

    :param folder: for the store, the archive and its checkpoint.
    """

    def __init__(self, spark: Any, folder: Path, seed: int) -> None:
        self._spark = spark
        self._chance = random.Random(seed)
        self._archive = folder / "archive"
        self._checkpoint = self._archive / CHECKPOINT
        self._server = GatewayServer(folder / "data", settings=SETTINGS)
        self._topic = f"kills-{seed}"
        self._ledger = Ledger()
        self.events: list[str] = []

    def run(self) -> None:
        """Do it.

        :raises AssertionError: the archive is not what it must be.
        """
        with self._server, self._producer() as producer:
            for number in range(RUNS):
                self._transact(producer)
                self._archive_once(is_disturbed=number < RUNS - 1)
                if number < RUNS - 1:
                    self._forget_the_end()
            self._settle()
            self._archive_once(is_disturbed=False)
            rows = self._spark.read.parquet(str(self._archive)).select("msgId", "queueId", "queueOffset").collect()
        found = [row.msgId for row in rows]
        assert len({(row.queueId, row.queueOffset) for row in rows}) == len(rows), f"twice: {self.events}"
        assert sorted(found) == sorted(self._ledger.committed), (
            f"{len(found)} archived, {len(self._ledger.committed)} committed; too many: "
            f"{set(found) - self._ledger.committed}, missing: {self._ledger.committed - set(found)}; {self.events}"
        )

    @contextmanager
    def _producer(self) -> Iterator[TransactionProducer]:
        with AdminClient(namesrv=self._server.nameserver) as admin:
            admin.topics.create(self._topic, queues=3)
        with TransactionProducer("kills", self._ledger, namesrv=self._server.nameserver) as producer:
            yield producer

    def _transact(self, producer: TransactionProducer) -> None:
        """Some transactions; now and then the gateway dies between two of them."""
        for number in range(TRANSACTIONS):
            if self._chance.random() < 0.02:
                self._kill_gateway("between transactions")
            with suppress(RocketMQError):  # the check settles it
                self._one(producer, b"%d" % number)

    def _one(self, producer: TransactionProducer, body: bytes) -> None:
        kind = self._chance.choice(("commit", "commit", "rollback", "open", "forgotten"))
        states = {"rollback": TransactionState.ROLLBACK, "open": TransactionState.UNKNOWN}
        with producer.begin(Message(self._topic, body)) as transaction:
            self._ledger.outcomes[transaction.msg_id] = states.get(kind, TransactionState.COMMIT)
            if kind == "commit":
                transaction.commit()
            elif kind == "rollback":
                transaction.rollback()

    def _archive_once(self, *, is_disturbed: bool) -> None:
        """A run of the stream to its end, or to its failure when it is disturbed."""
        source = {
            "nameServer": self._server.nameserver,
            "subscribe": self._topic,
            "minPartitions": "4",
            "reconnectTimeoutMs": "20000",
        }
        most = self._chance.choice((5, 17, 1000))
        columns = ("msgId", "queueOffset")
        query = start_archive(
            self._spark,
            ArchiveOptions(source=source, path=str(self._archive), max_offsets=most, columns=columns),
        )
        if is_disturbed:
            self._disturb(query)
        try:
            assert query.awaitTermination(PATIENCE_S), "it did not end"
        except Exception as error:
            if not is_disturbed:
                raise AssertionError(f"{str(error)[:500]}; {self.events}") from error
            self.events.append(f"query failed: {str(error)[:80]}")

    def _disturb(self, query: Any) -> None:
        """Something dies during a run, or nothing does."""
        kind = self._chance.choice(("gateway", "workers", "driver", "nothing"))
        pause = self._chance.uniform(0.0, 2.0)
        if kind == "nothing":
            return
        threading.Event().wait(pause)
        if kind == "gateway":
            self._kill_gateway("during a run")
        elif kind == "workers":
            self._kill_workers()
        else:
            self.events.append("query stopped")
            query.stop()

    def _kill_gateway(self, when: str) -> None:
        self.events.append(f"gateway killed {when}")
        self._server.kill()
        self._server.start()

    def _kill_workers(self) -> None:
        """Kill what reads, which Spark starts again; not what plans: to kill that is to kill the driver."""
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "pyspark.daemon" in process.cmdline() and process.parent() is not None:
                    parents = process.parent().cmdline()
                    if "pyspark.daemon" in parents:
                        process.kill()
                        self.events.append("worker killed")

    def _forget_the_end(self) -> None:
        """Take away what Spark wrote of the last batch after some moment: there it died."""
        batches = _numbers(self._checkpoint / "offsets")
        if not batches:
            return
        last = max(batches)
        done, sink, planned = (
            self._checkpoint / "commits",
            self._archive / "_spark_metadata",
            self._checkpoint / "offsets",
        )
        taken = self._chance.choice(((), (done,), (done, sink), (done, sink, planned)))
        for folder in taken:
            for name in (f"{last}", f".{last}.crc"):
                (folder / name).unlink(missing_ok=True)
        self.events.append(f"batch {last} without {', '.join(folder.name for folder in taken) or 'nothing'}")

    def _settle(self) -> None:
        """Wait until every committed transaction is delivered: what was forgotten is checked."""
        for key, state in self._ledger.outcomes.items():
            if state is TransactionState.UNKNOWN and self._chance.random() < 0.5:
                self._ledger.outcomes[key] = TransactionState.COMMIT
        cluster = Cluster(Access(name_servers=(self._server.nameserver,)))
        end = time.monotonic() + PATIENCE_S
        try:
            while True:
                ends = cluster.ends(cluster.queues(self._topic) or ())
                if sum(ends.values()) >= len(self._ledger.committed):
                    return
                assert time.monotonic() < end, f"{ends} of {len(self._ledger.committed)} delivered; {self.events}"
                time.sleep(0.1)  # noqa: TID251 - the gateway checks
        finally:
            cluster.close()


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()] if folder.exists() else []


def run_seed(spark: Any, seed: int) -> list[str]:
    """One trial in a directory of its own; what happened in it.

    :raises AssertionError: the archive is not what it must be.
    """
    with tempfile.TemporaryDirectory(prefix="spark-kills-") as folder:
        trial = Trial(spark, Path(folder), seed)
        trial.run()
        return trial.events


def main() -> None:
    """Run seeds, and say what happened in each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from gateway.spark.pipelines.session import pipeline_session

    failed: list[int] = []
    with pipeline_session("kills", master="local[2,4]") as spark:
        spark.sparkContext.setLogLevel("OFF")
        for seed in range(options.first, options.first + options.seeds):
            begun = time.monotonic()
            try:
                events = run_seed(spark, seed)
            except AssertionError as error:
                failed.append(seed)
                print(f"seed {seed}: FAILED: {error}", flush=True)
            else:
                print(f"seed {seed}: {time.monotonic() - begun:.0f} s; {'; '.join(events)}", flush=True)
    print(f"{options.seeds} seeds, failed: {failed or 'none'}", flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
