"""Streaming queries: micro-batches, restarts, losses, the sink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compat_tests.spark.conftest import Table
from gateway.client.testing.plugin import GatewayForTest
from gateway.client.testing.server import GatewayServer

NUMBERS = [b"%d" % number for number in range(60)]


def test_a_stream_reads_what_there_is_in_batches_and_goes_on_from_its_checkpoint(table: Table) -> None:
    table.fill(NUMBERS[:30])
    seen: list[bytes] = []
    query = table.run(table.stream(maxOffsetsPerTrigger=10), seen)
    assert sorted(seen, key=int) == NUMBERS[:30]
    sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert sizes == [10, 10, 10]
    source = query.recentProgress[-1].sources[0]
    assert json.loads(source.latestOffset)["q"] == json.loads(source.endOffset)["q"]
    table.fill(NUMBERS[30:])
    table.run(table.stream(maxOffsetsPerTrigger=100), seen)
    assert sorted(seen, key=int) == NUMBERS


def test_a_stream_that_fails_in_its_first_batch_loses_nothing_of_it(table: Table) -> None:
    """It begins at the latest offset; Spark does not store that, and at the restart there is a later one."""
    table.fill(NUMBERS[:10])
    stream = table.stream(startingOffsets="latest")
    checkpoint = str(table.folder / "checkpoint")

    def fails(batch: Any, _number: int) -> None:
        if batch.count():
            raise RuntimeError("the driver dies")

    query = stream.writeStream.foreachBatch(fails).option("checkpointLocation", checkpoint).start()
    table.until(lambda: (query.lastProgress or {"batchId": -1})["batchId"] >= 0 or not query.isActive)
    table.fill(NUMBERS[10:30])
    table.until(lambda: not query.isActive)
    table.fill(NUMBERS[30:])
    seen: list[bytes] = []
    table.run(stream, seen)
    assert sorted(seen, key=int) == NUMBERS[10:]


def test_new_topics_of_a_pattern_are_read_from_their_beginning(table: Table) -> None:
    table.fill(NUMBERS[:10])
    seen: list[bytes] = []
    pattern = {"subscribePattern": table.topic + ".*", "startingOffsets": "latest"}
    table.run(table.stream(**pattern), seen)
    later = table.topic + "-later"
    table.gateway.admin.topics.create(later, queues=2)
    table.fill(NUMBERS[10:20], topic=later)
    table.run(table.stream(**pattern), seen)
    assert sorted(seen, key=int) == NUMBERS[10:20]


def test_a_topic_that_was_read_to_its_end_and_deleted_is_no_loss_and_a_new_one_is_read_whole(table: Table) -> None:
    table.fill(NUMBERS[:10])
    seen: list[bytes] = []
    short = {"reconnectTimeoutMs": 300}
    table.run(table.stream(), seen)
    table.gateway.admin.topics.delete(table.topic)
    table.run(table.stream(**short), seen)
    table.gateway.admin.topics.create(table.topic, queues=2)
    table.fill(NUMBERS[10:12])
    table.run(table.stream(**short), seen)
    assert sorted(seen, key=int) == NUMBERS[:12]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_made_again_as_long_as_before_in_the_same_store_is_read_from_its_beginning(
    table: Table, fails: str
) -> None:
    table.topic = table.gateway.topic(queues=1)
    table.fill(NUMBERS[:10])
    seen: list[bytes] = []
    options = {"failOnDataLoss": fails}
    table.run(table.stream(**options), seen)
    table.gateway.admin.topics.delete(table.topic)
    table.gateway.admin.topics.create(table.topic, queues=1)
    table.fill(NUMBERS[10:20])
    table.run(table.stream(**options), seen)
    assert sorted(seen, key=int) == NUMBERS[:20]
    table.fill(NUMBERS[20:30])
    table.run(table.stream(**options), seen)
    assert sorted(seen, key=int) == NUMBERS[:30]


def test_what_was_not_read_of_a_topic_made_again_is_a_loss_and_the_new_one_is_read_whole(table: Table) -> None:
    table.topic = table.gateway.topic(queues=1)
    table.fill(NUMBERS[:20])
    seen: list[bytes] = []
    stream = table.stream(maxOffsetsPerTrigger=10)

    def take(batch: Any, number: int) -> None:
        seen.extend(bytes(row.body) for row in batch.collect())
        if number == 0:
            table.gateway.admin.topics.delete(table.topic)
            table.gateway.admin.topics.create(table.topic, queues=1)
            table.fill(NUMBERS[20:40])

    checkpoint = str(table.folder / "checkpoint")
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    table.until(lambda: not query.isActive)
    assert "offsets 10 to 19 cannot be read: its topic was deleted and made again" in str(query.exception())
    table.run(table.stream(failOnDataLoss="false"), seen)
    assert sorted(seen, key=int) == NUMBERS[:10] + NUMBERS[20:40]


def test_point_12_a_queue_that_cannot_be_read_for_some_batches_goes_on_where_it_was(table: Table) -> None:
    table.fill(NUMBERS[:10])
    seen: list[bytes] = []
    short = {"reconnectTimeoutMs": 300}
    table.run(table.stream(), seen)
    for queues in (1, 2):
        table.gateway.admin.topics.create(table.topic, queues=queues, write_queues=2)
        table.run(table.stream(**short), seen)
    table.fill(NUMBERS[10:20])
    table.run(table.stream(**short), seen)
    assert sorted(seen, key=int) == NUMBERS[:20]


def test_progress_may_be_shown_to_the_broker(table: Table) -> None:
    table.fill(NUMBERS[:20])
    group = table.gateway.group()
    seen: list[bytes] = []
    table.run(table.stream(consumerGroup=group, commitOffsetsToBroker="true", maxOffsetsPerTrigger=10), seen)
    assert 0 < table.gateway.admin.offsets.lag(group, table.topic) < 20


def test_a_gateway_that_is_killed_and_comes_back_is_waited_for(spark: Any, tmp_path: Path) -> None:
    server = GatewayServer(tmp_path / "data", settings={"flushDiskType": "SYNC_FLUSH"})
    with server, GatewayForTest(server, "own") as gateway:
        own = Table(spark, gateway, tmp_path)
        own.fill(NUMBERS[:20])
        seen: list[bytes] = []

        def take(batch: Any, _number: int) -> None:
            seen.extend(bytes(row.body) for row in batch.collect())

        writer = own.stream(startingOffsets="earliest").writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            own.until(lambda: len(seen) >= 20)
            server.kill()
            server.start()
            own.fill(NUMBERS[20:])
            own.until(lambda: len(seen) >= len(NUMBERS) or not query.isActive)
            assert query.isActive
        finally:
            query.stop()
    assert sorted(seen, key=int) == NUMBERS


def test_a_stream_is_written_to_another_topic_and_stamped(table: Table) -> None:
    table.fill(NUMBERS)
    copy = table.gateway.topic(queues=2)
    stream = table.stream(schema="body binary, tags string", maxOffsetsPerTrigger=40)
    query = (
        stream.writeStream.format("rocketmq")
        .options(nameServer=table.gateway.nameserver, topic=copy)
        .option("checkpointLocation", str(table.folder / "sink"))
        .trigger(availableNow=True)
        .start()
    )
    table.ended(query)
    table.until(lambda: table.count(copy) == len(NUMBERS))
    rows = table.read(subscribe=copy).collect()
    assert sorted((bytes(row.body) for row in rows), key=int) == NUMBERS
    assert {row.properties["SPARK_QUERY"] for row in rows} == {str(query.id)}
    assert {row.properties["SPARK_BATCH"] for row in rows} == {"0", "1"}
    names = ("SPARK_BATCH", "SPARK_PART", "SPARK_SEQ")
    assert len({tuple(row.properties[name] for name in names) for row in rows}) == len(NUMBERS)


def test_a_transactional_sink_shows_whole_batches_once_also_when_the_driver_dies_after_its_decision(
    table: Table,
) -> None:
    table.fill(NUMBERS)
    copy = table.gateway.topic(queues=2)
    folder = table.folder / "transactional"

    def run() -> None:
        stream = table.stream(schema="body binary, tags string", maxOffsetsPerTrigger=40)
        writer = stream.writeStream.format("rocketmq").options(nameServer=table.gateway.nameserver, topic=copy)
        writer = writer.option("deliveryMode", "transactional").option("checkpointLocation", str(folder))
        table.ended(writer.trigger(availableNow=True).start())

    run()
    table.until(lambda: table.count(copy) == len(NUMBERS))
    for name in ("1", ".1.crc"):  # as if it had died before it could note that the last batch is done
        (folder / "commits" / name).unlink()
    run()
    rows = table.read(subscribe=copy).collect()
    assert sorted((bytes(row.body) for row in rows), key=int) == NUMBERS
    assert all(row.transactionId == row.msgId for row in rows)


@pytest.mark.parametrize("more", [{}, {"deliveryMode": "transactional"}])
def test_point_13_a_topic_that_does_not_exist_yet_is_written(table: Table, more: dict[str, str]) -> None:
    topic = f"{table.topic}-made"
    rows = table.spark.sql("select string(id) body from range(0, 40, 1, 2)")
    options = {"nameServer": table.gateway.nameserver, "topic": topic, "batchBytes": "1", **more}
    writer = rows.write.format("rocketmq").options(**options).option("checkpointLocation", str(table.folder))
    writer.mode("append").save()
    table.until(lambda: table.count(topic) == 40)


def test_a_transactional_write_that_fails_shows_nothing(table: Table) -> None:
    rows = table.spark.sql("select if(id = 99, '', string(id)) body from range(0, 100, 1, 2)")
    writer = rows.write.format("rocketmq").options(nameServer=table.gateway.nameserver, topic=table.topic)
    writer = writer.option("deliveryMode", "transactional").option("checkpointLocation", str(table.folder))
    with pytest.raises(Exception, match="body is empty"):
        writer.mode("append").save()
    assert table.read().count() == 0
