"""One Spark session for all tests: starting it takes longer than most of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gateway.client import Message, Producer
from gateway.client.testing.plugin import GatewayForTest

collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py", "*/test_*.py"]

PATIENCE_S = 90.0


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    """No containers here: the one of the parent folder is not started."""


def new_session(warehouse: Path) -> Any:
    """A session with the source registered."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from compat_tests.spark.driver import JAVA_OPTIONS
    from gateway.spark import register

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.authenticate.socketTimeout", "120s")  # a worker may start slowly on a busy machine
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    return session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of all tests."""
    session = new_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


class Table:
    """A topic of the gateway, and what Spark makes of it."""

    def __init__(self, spark: Any, gateway: GatewayForTest, folder: Path) -> None:
        self.spark = spark
        self.gateway = gateway
        self.folder = folder
        self.topic = gateway.topic(queues=2)

    def fill(self, bodies: Sequence[bytes], topic: str | None = None, **given: Any) -> None:
        """Send messages and wait until they are durable: Spark reads no further."""
        name = topic or self.topic
        before = self.count(name)
        with Producer(self.gateway.group(), namesrv=self.gateway.nameserver) as producer:
            producer.send_batch([Message(name, body, **given) for body in bodies])
        self.until(lambda: self.count(name) >= before + len(bodies))

    def count(self, topic: str) -> int:
        """Committed messages, asked of the broker."""
        from gateway.spark.asking.cluster import Access, Cluster

        cluster = Cluster(Access(name_servers=(self.gateway.nameserver,)))
        try:
            return sum(cluster.ends(cluster.queues(topic) or ()).values())
        finally:
            cluster.close()

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that happens soon."""
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE_S:
            if happened():
                return
            time.sleep(0.05)  # noqa: TID251 - another process is waited for
        raise AssertionError(f"it did not happen within {PATIENCE_S:.0f} s")

    def options(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Options of a read of this topic, unless others are given."""
        options = {"nameServer": self.gateway.nameserver, **{name: str(value) for name, value in given.items()}}
        if not options.keys() & {"subscribe", "subscribePattern", "assign"}:
            options["subscribe"] = self.topic
        return options

    def read(self, schema: str | None = None, **given: Any) -> Any:
        """A batch."""
        reader = self.spark.read.format("rocketmq").options(**self.options(given))
        return (reader.schema(schema) if schema else reader).load()

    def stream(self, schema: Any = "body binary, queueId int, queueOffset long", **given: Any) -> Any:
        """A stream from the earliest offset on, of few columns."""
        options = {"startingOffsets": "earliest", **self.options(given)}
        return self.spark.readStream.format("rocketmq").options(**options).schema(schema).load()

    def ended(self, query: Any) -> None:
        """Wait for the end of a query that has one; raise what it failed with."""
        assert query.awaitTermination(PATIENCE_S), f"it did not end within {PATIENCE_S:.0f} s"

    def run(self, stream: Any, collected: list[bytes], *, name: str = "checkpoint") -> Any:
        """Run a stream over all there is into a list of bodies, with a checkpoint; the query, ended."""

        def take(batch: Any, _number: int) -> None:
            collected.extend(bytes(row.body) for row in batch.collect())

        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(self.folder / name))
        query = writer.trigger(availableNow=True).start()
        self.ended(query)
        return query


@pytest.fixture
def table(spark: Any, rocketmq_gateway: GatewayForTest, tmp_path: Path) -> Table:
    """A topic with two queues, empty."""
    return Table(spark, rocketmq_gateway, tmp_path)


@pytest.fixture(scope="session")
def rocketmq_gateway_settings() -> dict[str, str]:
    """Return settings under which messages are durable soon, log files are full soon, and transactions stay pending."""
    return {
        "flushIntervalCommitLog": "20",
        "flushCommitLogLeastPages": "0",
        "transactionTimeOut": "600000",
        "mappedFileSizeCommitLog": "4259840",  # the smallest there is: so that some are closed soon
    }
