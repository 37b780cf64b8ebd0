"""Streams of real Spark over two real brokers that are stopped, killed, emptied and brought back by chance.

    python -m compat_tests.spark.random_brokers [--seeds 50] [--first 1] [--report FILE] [--minutes 60]

A seed has brokers of its own, with a topic for a stream with ``failOnDataLoss`` false and one for a stream with true.
In the end each message must have been read once, or be gone from the disk; what warnings and failures tell of as lost
must be gone and not have been read; and of what a batch was to read, or was known to be there, nothing may be missing
without a word. A line of the report is the verdict of one run; what the report has is not done again. A seed takes a
minute.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from compat_tests.environment import REPOSITORY
from compat_tests.spark.conftest import new_session
from compat_tests.spark.driver import submit_arguments
from compat_tests.spark.killed.trials import SPARK_GAVE_UP
from compat_tests.spark.two_brokers import FAILS, GOES_ON, Message, World
from gateway.client.message_queue import MessageQueue
from gateway.spark.offsets import Checkpoint
from gateway.spark.options import read_options
from gateway.spark.reading.micro_batches import MicroBatches

ACTIONS = 12
RECONNECT_S = 5.0
JUST_NOW_S = RECONNECT_S + 10.0
"""A query that fails since a broker was away does so within this time, on a busy machine."""
PAUSES = ((0.1, False), (0.8, False), (RECONNECT_S + 1.0, False), (8.0, True), (8.0, True))
"""After what happens: so long, or until the next batch is done."""
PATIENCE_S = 180.0
_LOGGING = """import logging
logging.basicConfig(format="at %(created)f %(message)s")
"""
_SKIPPED = re.compile(r"offsets of (\S+) are skipped: offsets (\d+) to (\d+) cannot be read")
_LOST = re.compile(r"DataLoss: queue (\S+): offsets (\d+) to (\d+) cannot be read")
_AWAY = re.compile(
    r"\.errors\.(Away|ConnectError|ConnectionLost|RequestTimeout|BrokerNotFound|RouteNotFound|BrokerError)"
)


class Query:
    """A query that is started again when it has failed, as its owner would do.

    :param topic: that it reads; with ``FAILS`` ``failOnDataLoss`` is true. After a loss the owner takes the advice and
        goes on without what is lost, once.
    """

    def __init__(self, spark: Any, world: World, folder: Path, topic: str) -> None:
        self.topic = topic
        self.losses: list[tuple[str, int, int, str]] = []
        """Of failures: the queue, its first and its last offset, the store."""
        self.failures: Counter[str] = Counter()
        self.rows_by_batch: dict[int, list[tuple[MessageQueue, int, bytes]]] = {}
        self._spark = spark
        self._world = world
        self._fails = topic == FAILS
        self._checkpoint = folder / f"checkpoint-{topic}"
        self._goes_on_until: int | None = None
        self._query: Any = None

    def wait_for_a_batch(self) -> None:
        """Wait for its first one."""
        self._until(self._has_a_batch, "the first batch is planned")

    def look(self) -> None:
        """Start it again when it has ended, or has gone on without what was lost."""
        if not self._query.isActive:
            self._note(str(self._query.exception() or ""))
            self.start()
        elif self._goes_on_until is not None and self.batches_done() > self._goes_on_until:
            self.stop()
            self._goes_on_until = None
            self.start()

    def stop(self) -> None:
        """End it."""
        query, self._query = self._query, None
        if query is not None:
            query.stop()
            if self._query is None and query.exception() is not None:
                self._note(str(query.exception()))

    def finish(self, queries: Sequence[Query]) -> None:
        """Wait until all there is is read; the others go on meanwhile."""
        ends = self._world.ends(self.topic)
        for query in queries:
            query.look()
        self._until(lambda: self._is_at(ends), "all is read")

    def checkpoints(self) -> list[Checkpoint]:
        """The ends of all batches that were planned."""
        return [self._checkpoint_in(path) for path in self._files("offsets")]

    def stores_at(self, moment: float = math.inf) -> dict[str, str]:
        """The stores of the batch that was planned last before a time."""
        before = [path for path in self._files("offsets") if path.stat().st_mtime <= moment]
        return dict(self._checkpoint_in(before[-1]).stores)

    @property
    def options(self) -> dict[str, str]:
        """Return the options of the source."""
        fails = self._fails and self._goes_on_until is None
        return {
            "nameServer": self._world.nameserver, "subscribe": self.topic, "startingOffsets": "earliest",
            "failOnDataLoss": str(fails).lower(), "reconnectTimeoutMs": str(int(RECONNECT_S * 1000)),
            "maxOffsetsPerTrigger": "10", "minPollInterval": "100",
        }  # fmt: skip

    def start(self) -> None:
        """Start it."""
        columns = "topic string, brokerName string, queueId int, queueOffset long, body binary"
        stream = self._spark.readStream.format("rocketmq").options(**self.options).schema(columns).load()
        writer = stream.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint))
        self._query = writer.start()

    def _take(self, batch: Any, number: int) -> None:
        """A batch that is repeated replaces what was read of it before."""
        self.rows_by_batch[number] = [
            (MessageQueue(row.topic, row.brokerName, row.queueId), row.queueOffset, bytes(row.body))
            for row in batch.collect()
        ]

    def _note(self, failure: str) -> None:
        """Keep why it failed.

        :raises AssertionError: it had no reason to.
        """
        found = _LOST.search(failure)
        if found is not None:
            assert self._fails, f"a loss is a warning: {failure}"
            assert self._goes_on_until is None, f"it was told to go on: {failure}"
            self._goes_on_until = self.batches_done()
            queue, store = found[1], self.stores_at()[found[1].split("/")[1]]
            self.losses.append((queue, int(found[2]), int(found[3]), store))
            self._world.note(f"{self.topic}: {found[0]}")
            self.failures["loss"] += 1
            return
        if any(text in failure for text in SPARK_GAVE_UP):
            self.failures["Spark gave up"] += 1
            return
        away = _AWAY.search(failure)
        assert away is not None, f"it fails for another reason: {failure[-3000:]}"
        assert self._world.is_away(JUST_NOW_S), f"all is there, and it fails: {failure[-3000:]}"
        self._world.note(f"{self.topic}: {away[1]}")
        self.failures[away[1]] += 1

    def _has_a_batch(self) -> bool:
        self.look()
        return bool(self.checkpoints())

    def _is_at(self, ends: dict[MessageQueue, int]) -> bool:
        self.look()
        planned = self.checkpoints()
        return dict(planned[-1].offsets) == ends and self.batches_done() == len(planned) and self._goes_on_until is None

    def _until(self, happened: Any, what: str) -> None:
        begun = time.monotonic()
        while not happened():
            assert time.monotonic() - begun < PATIENCE_S, f"waited in vain until {what}"
            time.sleep(0.1)  # noqa: TID251 - another process is waited for

    def batches_done(self) -> int:
        """Return how many batches are done."""
        return len(self._files("commits"))

    def _files(self, folder: str) -> list[Path]:
        found = (path for path in (self._checkpoint / folder).glob("[0-9]*") if path.name.isdecimal())
        return sorted(found, key=lambda path: int(path.name))

    def _checkpoint_in(self, path: Path) -> Checkpoint:
        return Checkpoint.parse(json.loads(path.read_text().splitlines()[-1]))


def check(world: World, query: Query, log: str) -> tuple[int, int]:
    """Compare what was read, lost and told of; how many were read, and told of.

    :raises AssertionError: something is wrong.
    """
    planned = query.checkpoints()
    rows: Counter[Message] = Counter()
    for number, batch in query.rows_by_batch.items():
        for queue, offset, body in batch:
            message = planned[number].stores[queue.broker_name], queue, offset
            assert world.written.get(message) == body, f"{message} is {body!r}"
            rows[message] += 1
    told = _told(query, log)
    assert all(count == 1 for count in rows.values()), f"read twice: {[each for each in rows if rows[each] > 1]}"
    for message in world.written:
        is_read = message in rows or message[1].topic != query.topic
        assert is_read or not world.holds(message), f"{message} was left out"
    for message in told:
        assert message in world.written, f"{message} is told of as lost and never was"
        assert message not in rows, f"{message} is told of as lost and was read"
        assert not world.holds(message), f"{message} is told of as lost and is there"
    for message in _known(planned):
        assert message in rows or message in told, f"{message} was known to be there, and is missing without a word"
    return len(rows), len(told)


def _told(query: Query, log: str) -> set[Message]:
    """Return the messages that warnings and failures name."""
    losses = list(query.losses)
    for line in log.splitlines():
        found = _SKIPPED.search(line)
        if found is None:
            assert "are skipped" not in line, f"a warning without numbers: {line}"
            continue
        if not found[1].startswith(query.topic):
            continue
        moment = re.search(r"at (\d+\.\d+) ", line)
        assert moment is not None, f"a line without a time: {line}"
        store = query.stores_at(float(moment[1]))[found[1].split("/")[1]]
        losses.append((found[1], int(found[2]), int(found[3]), store))
    return {(store, _queue(name), offset) for name, first, last, store in losses for offset in range(first, last + 1)}


def _queue(name: str) -> MessageQueue:
    topic, broker_name, number = name.split("/")
    return MessageQueue(topic, broker_name, int(number))


def _known(planned: list[Checkpoint]) -> Iterator[Message]:
    """Return the messages that batches had to read, or knew of."""
    options = read_options(
        {"nameServer": "localhost:1", "subscribe": GOES_ON, "failOnDataLoss": "false"}, is_stream=True
    )
    nobody: Any = None
    plan = MicroBatches(nobody, options, time.monotonic, Event().wait)
    start = Checkpoint(offsets=planned[0].base or {})
    for end in planned:
        for piece in plan.ranges(start, end):
            yield from ((piece.store, piece.queue, offset) for offset in range(piece.start, piece.end))
        for queue, stop in (end.more or {}).items():
            begin = {**end.away, **end.offsets}[queue]
            yield from ((end.stores[queue.broker_name], queue, offset) for offset in range(begin, stop))
        start = end


def run_seed(spark: Any, seed: int, log: Path) -> list[dict[str, Any]]:
    """One run of both queries; the verdict of each."""
    begun, logged = time.monotonic(), log.stat().st_size
    with tempfile.TemporaryDirectory(prefix="random-brokers-") as name:
        world = World(seed, Path(name))
        queries = [Query(spark, world, Path(name), topic) for topic in (GOES_ON, FAILS)]
        wrong = ""
        try:
            with world.running():
                _disturb(world, queries)
                for query in queries:
                    query.finish(queries)
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has failed and the next ones are done
            wrong = f"{type(error).__name__}: {error}"
        time.sleep(0.5)  # noqa: TID251 - for what Spark's processes still log
        said = log.read_bytes()[logged:].decode(errors="replace")
        verdicts = [_verdict(world, query, said, wrong) for query in queries]
    common = {"seed": seed, "seconds": round(time.monotonic() - begun, 1)}
    return [{**common, **verdict} for verdict in verdicts]


def _verdict(world: World, query: Query, said: str, wrong: str) -> dict[str, Any]:
    verdict: dict[str, Any] = {"topic": query.topic, "failures": dict(query.failures)}
    try:
        query.stop()
        if not wrong:
            verdict["read"], verdict["told"] = check(world, query, said)
    except AssertionError as error:
        wrong = wrong or str(error)
    verdict |= {"written": sum(message[1].topic == query.topic for message in world.written)}
    verdict |= {"batches": len(query.rows_by_batch), "events": world.events}
    return {**verdict, "wrong": wrong, "log": said[-20_000:]} if wrong else verdict


def _disturb(world: World, queries: Sequence[Query]) -> None:
    for query in queries:
        query.start()
    for query in queries:
        query.wait_for_a_batch()
    for _ in range(ACTIONS):
        world.act()
        pause_s, is_over_with_a_batch = world.chance.choice(PAUSES)
        end, done = time.monotonic() + pause_s, queries[0].batches_done()
        while time.monotonic() < end and not (is_over_with_a_batch and queries[0].batches_done() > done):
            for query in queries:
                query.look()
            time.sleep(0.1)  # noqa: TID251 - other processes work
    for broker in world.brokers:
        if not broker.process.is_up:
            world.start(broker)


def main() -> None:
    """Run seeds, and say what became of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=120.0, help="no run is begun after so long")
    parser.add_argument("--report", type=Path, default=Path("random-brokers.jsonl"))
    given = parser.parse_args()
    end = time.monotonic() + given.minutes * 60
    done = [json.loads(line) for line in given.report.read_text().splitlines()] if given.report.exists() else []
    with tempfile.TemporaryDirectory(prefix="random-brokers-spark-") as name:
        log = _logging_to(Path(name))
        os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments()
        spark = new_session(Path(name) / "warehouse")
        for seed in range(given.first, given.first + given.seeds):
            if time.monotonic() > end or any(each["seed"] == seed for each in done):
                continue
            for verdict in run_seed(spark, seed, log):
                done.append(verdict)
                with given.report.open("a") as report:
                    report.write(json.dumps(verdict) + "\n")
                print({key: value for key, value in verdict.items() if key not in ("events", "log")}, flush=True)
        spark.stop()
    wrong = [f"{each['seed']} {each['topic']}" for each in done if "wrong" in each]
    print(f"{len(done)} runs; wrong: {', '.join(wrong) or 'none'}")
    sys.exit(1 if wrong else 0)


def _logging_to(folder: Path) -> Path:
    """Let all that Spark starts write its errors into a file, Python's warnings with their times."""
    (folder / "sitecustomize.py").write_text(_LOGGING)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(REPOSITORY)])
    log = folder / "spark.log"
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    return log


if __name__ == "__main__":
    main()
