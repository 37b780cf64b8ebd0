"""Wherever the transactional sink's driver or one of its tasks dies, each row is delivered once.

What RocketMQ does of it is a table here: half messages, and the outcome that each was given.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.spark.options import write_options
from gateway.spark.writing import writer as module
from gateway.spark.writing.decisions import Decisions, Halves, Verdict
from gateway.spark.writing.writer import StreamWriter
from gateway.tests.spark.writing.test_sender import PretendBrokers
from wire.command import RemotingCommand
from wire.message.properties import parse_properties

QUERY = "q"
BATCHES = 3
ROWS = 4
"""Of a batch."""


class Died(BaseException):
    """The end of a process; nothing catches it but who started it."""


class Life:
    """Ends when as many steps were taken as the next of ``gaps`` says, and begins anew."""

    def __init__(self, gaps: list[int]) -> None:
        self._gaps = gaps
        self._left = gaps.pop(0) if gaps else None

    def step(self) -> None:
        """Something is about to happen."""
        if self._left is None:
            return
        if self._left == 0:
            self._left = self._gaps.pop(0) if self._gaps else None
            raise Died
        self._left -= 1


class Brokers(PretendBrokers):
    """Half messages by their offset, each with the outcome that it got first."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.life = life
        self.halves: dict[int, tuple[str, int, bytes]] = {}
        """By offset: the broker, the batch it was sent for, the body."""
        self.outcomes: dict[int, bool] = {}

    def finish(self, opaque: int, timeout_s: float) -> RemotingCommand:
        self.life.step()
        answer = super().finish(opaque, timeout_s)
        [(header, [part])] = self.stored[-1:]
        batch = int(parse_properties(part.properties)["SPARK_BATCH"])
        self.halves[opaque] = header.broker_name, batch, part.body
        self.life.step()
        return answer

    def tell(self, _cluster: Any, _options: Any, halves: Halves, *, is_commit: bool) -> None:
        """Note the outcomes, in place of ``tell_outcomes``."""
        for broker, topic in halves.packed:
            for half in halves.of(broker, topic):
                self.life.step()
                self.end(half.half_offset, is_commit=is_commit)

    def end(self, half_offset: int, *, is_commit: bool) -> None:
        """An outcome; another one than before is a promise broken."""
        assert self.outcomes.setdefault(half_offset, is_commit) == is_commit


class Task:
    """Spark's word to a task about which one it is."""

    def __init__(self, batch: int, partition: int) -> None:
        self.batch = batch
        self.partition = partition

    def get(self) -> Task:
        return self

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.partition

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        return {"streaming.sql.batchId": str(self.batch), "sql.streaming.queryId": QUERY}[name]


class Driver:
    """Spark's driver: repeats a batch until it is done, and a task if the task alone died."""

    def __init__(self, checkpoint: str, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
        given = {"nameServer": "a:1", "topic": "orders", "deliveryMode": "transactional"}
        self._options = write_options({**given, "checkpointLocation": checkpoint})
        self._brokers = brokers
        self._patch = monkeypatch
        self._tries = 0

    def run(self, batch: int, *, tasks_die_alone: bool) -> None:
        """A batch, until it is done."""
        while True:
            self._tries += 1
            try:
                self._try(batch, tasks_die_alone=tasks_die_alone)
                self._brokers.life.step()  # Spark notes that it is done
            except Died:
                continue
            return

    def _try(self, batch: int, *, tasks_die_alone: bool) -> None:
        writer = StreamWriter(self._options, [("body", "string")])
        rows = [f"{batch}-{number}" for number in range(ROWS)]
        cut = self._tries % ROWS  # a repeated batch may be cut into other parts
        sent = []
        for partition, its in enumerate((rows[:cut], rows[cut:])):
            while True:
                self._patch.setattr(module, "TaskContext", Task(batch, partition))
                try:
                    sent.append(writer.write(iter([pa.RecordBatch.from_pydict({"body": pa.array(its, pa.string())})])))
                except Died:
                    if not tasks_die_alone:
                        raise
                else:
                    break
        self._brokers.life.step()
        writer.commit(sent, batch)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=6), st.booleans())
def test_wherever_it_dies_each_row_is_delivered_once_and_no_half_message_is_left(
    gaps: list[int], tasks_die_alone: bool
) -> None:
    brokers = Brokers(Life(gaps))
    decide = Decisions.decide

    def decide_or_die(decisions: Decisions, query: str, batch: int, halves: Halves) -> None:
        brokers.life.step()
        decide(decisions, query, batch, halves)
        brokers.life.step()

    with TemporaryDirectory() as checkpoint, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "cluster_for", lambda access: brokers)
        patch.setattr(module, "tell_outcomes", brokers.tell)
        patch.setattr(Decisions, "decide", decide_or_die)
        driver = Driver(checkpoint, brokers, patch)
        for batch in range(BATCHES):
            driver.run(batch, tasks_die_alone=tasks_die_alone)
        decisions = Decisions(checkpoint)
        for offset, (broker, batch, _) in brokers.halves.items():  # the broker asks about every one
            verdict = decisions.verdict(QUERY, batch, broker, offset)
            assert verdict is not Verdict.UNKNOWN
            brokers.end(offset, is_commit=verdict is Verdict.COMMIT)
    delivered = [brokers.halves[offset][2].decode() for offset, is_commit in brokers.outcomes.items() if is_commit]
    assert sorted(delivered) == [f"{batch}-{number}" for batch in range(BATCHES) for number in range(ROWS)]
