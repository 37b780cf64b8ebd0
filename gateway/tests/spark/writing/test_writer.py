"""A task that writes, without Spark around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gateway.client.errors import ConnectionLost, MessageRefused
from gateway.spark.options import write_options
from gateway.spark.writing import writer as module
from gateway.spark.writing.writer import BatchWriter, Sent, StreamWriter
from gateway.tests.spark.writing.test_sender import PretendBrokers

FIELDS = [("body", "string")]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> PretendBrokers:
    """Brokers that every task finds."""
    found = PretendBrokers()
    monkeypatch.setattr(module, "cluster_for", lambda access: found)
    return found


def rows(*bodies: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(bodies, pa.string())], ["body"])


def options(**given: str) -> Any:
    return write_options({"nameServer": "a:1", "topic": "orders", **given})


def test_a_task_sends_every_row_and_says_how_many(brokers: PretendBrokers) -> None:
    sent = BatchWriter(options(), FIELDS).write(iter([rows("a", "b"), rows("c")]))
    assert isinstance(sent, Sent)
    assert sent.count == 3
    assert brokers.bodies == [b"a", b"b", b"c"]
    stamps = {(found["SPARK_BATCH"], found["SPARK_PART"]) for found in brokers.properties()}
    assert stamps == {("0", "0")}


def test_messages_are_stamped_with_query_batch_and_task(
    brokers: PretendBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Context:
        @staticmethod
        def get() -> Context:
            return Context()

        def partitionId(self) -> int:  # noqa: N802 - Spark's name
            return 3

        def getLocalProperty(self, name: str) -> str:  # noqa: N802
            return {"streaming.sql.batchId": "7", "sql.streaming.queryId": "q"}[name]

    monkeypatch.setattr(module, "TaskContext", Context)
    writer = StreamWriter(options(), FIELDS)
    writer.write(iter([rows("a")]))
    writer.commit([Sent(1)], 7)
    writer.abort([None], 8)
    [found] = brokers.properties()
    names = ("SPARK_QUERY", "SPARK_BATCH", "SPARK_PART", "SPARK_SEQ")
    assert [found[name] for name in names] == ["q", "7", "3", "0"]


def test_a_task_that_cannot_send_all_fails_and_leaves_nothing_under_way(brokers: PretendBrokers) -> None:
    brokers.answers = [ConnectionLost("a", "reset")] * 100
    with pytest.raises(ConnectionLost):
        BatchWriter(options(reconnectTimeoutMs="1"), FIELDS).write(iter([rows("a")]))
    with pytest.raises(MessageRefused, match="body is null"):
        BatchWriter(options(batchBytes="1"), FIELDS).write(iter([rows("a", None)]))
    assert brokers.unsettled == 0


def test_half_messages_count_when_all_tasks_are_done_and_a_repeated_batch_sends_nothing(
    brokers: PretendBrokers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        module, "tell_outcomes", lambda _cluster, _options, halves, *, is_commit: told.append((len(halves), is_commit))
    )
    given = options(deliveryMode="transactional", checkpointLocation=str(tmp_path))
    writer = BatchWriter(given, FIELDS)
    first = writer.write(iter([rows("a", "b")]))
    writer.abort([first, None])
    assert told == [(2, False)]
    again = writer.write(iter([rows("a", "b")]))
    writer.commit([again, writer.write(iter([rows("c")]))])
    assert told[1:] == [(3, True)]
    repeated = writer.write(iter([rows("a", "b")]))
    assert isinstance(repeated, Sent)
    assert repeated.halves is None
    writer.commit([repeated])
    assert told[2:] == [(3, True)]
    writer.abort([again])
    assert len(told) == 3
    assert len(brokers.bodies) == 5
