"""The promises of source and sink, checked with any server: this gateway, Apache RocketMQ 5.5.0 and older.

    python -m compat_tests.spark.peers [gateway-host rocketmq-5.5.0 rocketmq-4.9.8]

Written by the sink and by clients, read as table and as stream, with tags and SQL92, transactions, a checkpoint and
several tasks for a queue, a topic that is made again during a batch. One Spark session; each server is started,
asked, and removed. A minute for each server.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compat_tests.environment import remove_leftovers, start_engine
from compat_tests.peers import PEERS, make_peer
from gateway.client import AdminClient, Message, Producer, TransactionProducer, TransactionState
from gateway.spark.asking.cluster import Access, Cluster

COUNT = 500
QUEUES = 2
AGAIN = "spark_again"
"""A topic that is made again."""
SETTINGS = {"enablePropertyFilter": "true", "flushIntervalCommitLog": "20", "flushCommitLogLeastPages": "0"}
PATIENCE_S = 60.0
STREAMED = "body binary, queueId int, queueOffset long"


class PeerSuite:
    """One server, the topics made on it, and Spark."""

    def __init__(self, spark: Any, nameserver: str, folder: Path) -> None:
        self._spark = spark
        self._nameserver = nameserver
        self._folder = folder
        self._cluster = Cluster(Access(name_servers=(nameserver,), request_timeout_s=30.0))

    def run(self) -> None:
        """Everything; raises AssertionError for what does not hold."""
        with AdminClient(namesrv=self._nameserver) as admin:
            for topic in ("spark_rows", "spark_copy", "spark_half", "spark_decided", AGAIN):
                admin.topics.create(topic, queues=QUEUES)
        checks = (
            self.written, self.read, self.filtered, self.streamed, self.made_again, self.decided, self.all_or_nothing,
        )  # fmt: skip
        try:
            for check in checks:
                begun = time.monotonic()
                check()
                print(f"    {check.__name__:16}{time.monotonic() - begun:6.1f} s", flush=True)
        finally:
            self._cluster.close()

    def written(self) -> None:
        """The sink stores every row, with its tag, and with its keys and properties."""
        rows = self._spark.range(COUNT).selectExpr(
            "cast(id as string) body", "if(id % 5 = 0, 'A', 'B') tags", "array(concat('k', id)) keys",
            "map('number', cast(id as string)) properties",
        )  # fmt: skip
        self._write(rows, "spark_rows")
        self._until(lambda: self._count("spark_rows") == COUNT)

    def read(self) -> None:
        """Check that the same rows come back once, in as many tasks as wanted, and from offsets in the middle."""
        rows = self._read("spark_rows").collect()
        assert sorted(int(row.body) for row in rows) == list(range(COUNT))
        for row in rows:
            number = bytes(row.body).decode()
            assert (row["keys"], row.properties["number"], row.tags) == (
                [f"k{number}"], number, "A" if int(number) % 5 == 0 else "B",
            )  # fmt: skip
            assert row.topic == "spark_rows"
            assert row.bornTimestamp <= row.storeTimestamp
        places = {(row.queueId, row.queueOffset) for row in rows}
        assert len(places) == COUNT
        few = self._read("spark_rows", "body binary", minPartitions="7")
        assert sorted(int(row.body) for row in few.collect()) == list(range(COUNT))
        [broker] = {row.brokerName for row in rows}
        start = f'{{"spark_rows":{{"{broker}":{{"0":100,"1":-2}}}}}}'
        later = self._read("spark_rows", "queueId int, queueOffset long", startingOffsets=start).collect()
        assert {(row.queueId, row.queueOffset) for row in later} == {
            (queue, offset) for queue, offset in places if queue == 1 or offset >= 100
        }

    def filtered(self) -> None:
        """The broker filters, by tag and by SQL92; no row is passed over."""
        tagged = [str(number) for number in range(0, COUNT, 5)]
        for given in ({"subExpression": "A"}, {"subExpression": "TAGS = 'A'", "expressionType": "SQL92"}):
            rows = self._read("spark_rows", "body binary", **given).collect()
            assert sorted((bytes(row.body).decode() for row in rows), key=int) == tagged

    def streamed(self) -> None:
        """Small micro-batches and a new query on the same checkpoint: each row once in the other topic."""
        for _ in range(2):
            stream = self._spark.readStream.format("rocketmq").options(nameServer=self._nameserver)
            stream = stream.options(subscribe="spark_rows", startingOffsets="earliest", maxOffsetsPerTrigger="200")
            writer = stream.schema(STREAMED).load().selectExpr("body").writeStream.format("rocketmq")
            writer = writer.options(nameServer=self._nameserver, topic="spark_copy")
            query = writer.option("checkpointLocation", str(self._folder / "copy")).trigger(availableNow=True).start()
            assert query.awaitTermination(int(PATIENCE_S)), "the stream did not end"
        self._until(lambda: self._count("spark_copy") == COUNT)
        rows = self._read("spark_copy", "body binary").collect()
        assert sorted(int(row.body) for row in rows) == list(range(COUNT))

    def made_again(self) -> None:
        """A topic that is made again during a batch, and is longer then than before, is read from its beginning."""
        seen: list[bytes] = []

        def take(batch: Any, number: int) -> None:
            seen.extend(bytes(row.body) for row in batch.collect())
            if number == 0:
                with AdminClient(namesrv=self._nameserver) as admin:
                    admin.topics.delete(AGAIN)
                    admin.topics.create(AGAIN, queues=QUEUES)
                self._fill(AGAIN, range(20, 50))

        self._fill(AGAIN, range(20))
        stream = self._spark.readStream.format("rocketmq").options(nameServer=self._nameserver, subscribe=AGAIN)
        stream = stream.option("startingOffsets", "earliest").schema("body binary").load()
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self._folder / "again"))
        query = writer.start()
        self._until(lambda: len(seen) >= 50 or not query.isActive)
        query.stop()
        assert query.exception() is None, str(query.exception())
        assert sorted(map(int, seen)) == list(range(50))

    def decided(self) -> None:
        """Committed transactions are rows; rolled back and pending ones are not."""

        class Undecided:
            def check(self, message: Any) -> TransactionState:
                return TransactionState.UNKNOWN

        with TransactionProducer("spark_decides", Undecided(), namesrv=self._nameserver) as producer:
            for number in range(30):
                with producer.begin(Message("spark_decided", b"%d" % number)) as transaction:
                    if number % 3 == 0:
                        transaction.commit()
                    elif number % 3 == 1:
                        transaction.rollback()
        expected = list(range(0, 30, 3))
        self._until(lambda: self._count("spark_decided") == len(expected))
        rows = self._read("spark_decided").collect()
        assert sorted(int(row.body) for row in rows) == expected

    def all_or_nothing(self) -> None:
        """The transactional sink's rows are there when its query has ended, each once."""
        rows = self._spark.range(40).selectExpr("cast(id as string) body")
        checkpoint = str(self._folder / "half")
        self._write(rows, "spark_half", deliveryMode="transactional", checkpointLocation=checkpoint)
        self._until(lambda: self._count("spark_half") >= 40)
        found = self._read("spark_half", "body binary").collect()
        assert sorted(int(row.body) for row in found) == list(range(40))

    def _fill(self, topic: str, numbers: Sequence[int]) -> None:
        """Send one after another into the queues in turn, so that each queue gets as many."""
        with Producer("spark_fills", namesrv=self._nameserver) as producer:
            queues = producer.publish_queues(topic)
            for number in numbers:
                producer.send(Message(topic, b"%d" % number), queue=queues[number % QUEUES])

    def _read(self, topic: str, schema: str | None = None, **given: str) -> Any:
        reader = self._spark.read.format("rocketmq").options(nameServer=self._nameserver, subscribe=topic, **given)
        return (reader.schema(schema) if schema else reader).load()

    def _write(self, rows: Any, topic: str, **given: str) -> None:
        writer = rows.write.format("rocketmq").options(nameServer=self._nameserver, topic=topic, **given)
        writer.mode("append").save()

    def _count(self, topic: str) -> int:
        return sum(self._cluster.ends(self._cluster.queues(topic) or ()).values())

    def _until(self, happened: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < end, f"it did not happen within {PATIENCE_S:.0f} s"
            time.sleep(0.1)  # noqa: TID251 - another process is waited for


def main() -> None:
    """Ask the servers that are named, or all."""
    from compat_tests.spark.conftest import new_session

    names = sys.argv[1:] or PEERS
    if any(name != "gateway-host" for name in names):
        start_engine()
    with tempfile.TemporaryDirectory(prefix="spark-peers-") as root:
        spark = new_session(Path(root) / "warehouse")
        try:
            for name in names:
                print(name, flush=True)
                folder = Path(root) / name
                folder.mkdir()
                peer = make_peer(name, folder / "data", SETTINGS)
                peer.start()
                try:
                    PeerSuite(spark, peer.nameserver, folder).run()
                finally:
                    peer.stop()
        finally:
            spark.stop()
            remove_leftovers()


if __name__ == "__main__":
    main()
