"""The question: is Spark as fast with this gateway as its own Kafka source and sink are with a Kafka broker.

    python -m benchmarks.spark_kafka [--messages 2000000] [--size 128] [--rounds 5] [--only stream]

One gateway, one Kafka broker and one Spark session, ``local[2]``, on the same cores. Both servers hold the same
messages, in 8 queues or partitions: a body, one key, and a tag, which with Kafka is a header. Each query runs on one
side and then on the other, as often as there are rounds; what is printed is the median of each and the ratio of the
medians, by the clock and by the CPU time that all processes of a side used together. The first round warms the JVM up
and is not counted. *Same columns* are all that Kafka has (key, value, headers, topic, partition, offset, timestamp and
its kind) beside what corresponds to them; *all columns* are 19 and 8. Spark's Kafka source is for Spark 4.2, so all of
it runs on PySpark 4.2, which is fetched once, as the broker is.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from benchmarks.java_tools import CACHE, REPOSITORY, BenchmarkError, listed_jars
from benchmarks.kafka_broker import KafkaBroker, kafka_broker
from benchmarks.spark_backlog import fill
from benchmarks.spark_session import add_settings, consume, consume_stream, cost_of, session
from gateway.client import AdminClient
from gateway.client.testing.server import GatewayServer

SPARK_VERSION = "4.2.0"
TOPIC = "anchor"
WRITTEN = "anchor_written"
QUEUES = 8
MOST_PER_TRIGGER = 500_000
MOST_SENT = 500_000
"""Messages of a query that writes."""
TAGS: Final = "TAGS"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison: queries that do the same on both sides, by name."""

    name: str
    server_pid: int
    write: Callable[[Any, str], object]
    ways: Mapping[str, Callable[[], object]]


def main() -> None:
    """Fill both, ask both in turns, print a table."""
    options = _options()
    _use_spark()
    connector = listed_jars(
        REPOSITORY / "benchmarks" / "java" / "spark-kafka" / "pom.xml", CACHE / f"spark-kafka-{SPARK_VERSION}"
    )
    with GatewayServer(settings={"mappedFileSizeCommitLog": "67108864"}) as gateway, kafka_broker(QUEUES) as kafka:
        with AdminClient(namesrv=gateway.nameserver) as admin:
            for topic in (TOPIC, WRITTEN):
                admin.topics.create(topic, queues=QUEUES)
        fill(gateway, TOPIC, options.messages, options.size, keyed=True)
        spark = session({"spark.jars": ",".join(map(str, sorted(connector.glob("*.jar")))), **dict(options.spark)})
        try:
            _compare(spark, _ours(spark, gateway), _theirs(spark, kafka), options)
        finally:
            spark.stop()


def _compare(spark: Any, ours: Side, theirs: Side, options: argparse.Namespace) -> None:
    theirs.write(_messages(spark, options.messages, options.size), TOPIC)
    for side in (ours, theirs):
        _wait_until(side, options.messages)
    some = min(options.messages, MOST_SENT)
    sent = _messages(spark, some, options.size)
    print(f"{options.messages:,} messages of {options.size} B in {QUEUES} queues, Spark {spark.version} in local[2]")
    print(f"load {os.getloadavg()[0]:.1f}; rows/s by the clock, CPU in microseconds a row of all processes of a side")
    print(f"{'':16}{'gateway':>12}{'Kafka':>12}{'ratio':>8}{'CPU: gateway':>15}{'Kafka':>8}{'ratio':>8}", flush=True)
    for name in (*ours.ways, "sink"):
        if options.only not in name:
            continue
        count = some if name == "sink" else options.messages
        speeds, costs, results = ({ours.name: list[float](), theirs.name: list[float]()} for _ in range(3))
        for turn in range(options.rounds + 1):
            for side in (ours, theirs):
                way = partial(side.write, sent, WRITTEN) if name == "sink" else side.ways[name]
                cost = cost_of(way, count, [side.server_pid], idle=[ours.server_pid, theirs.server_pid])
                if turn:
                    speeds[side.name].append(cost.rows_per_s)
                    costs[side.name].append(cost.cpu)
                    results[side.name].append(cost.result)
        _row(name, *(statistics.median(values) for values in (*speeds.values(), *costs.values())))
        if name == "stream":
            one, other = (statistics.median(values) for values in results.values())
            print(f"{'... 2nd batch on':16}{one:12,.0f}{other:12,.0f}{one / other:8.2f}", flush=True)


def _wait_until(side: Side, count: int) -> None:
    """Wait until the written messages are on disk and can be read."""
    end = time.monotonic() + 60
    while (found := side.ways["count"]()) != count:
        if time.monotonic() > end:
            raise BenchmarkError(f"{side.name} has {found} messages of {count}")


def _row(name: str, speed: float, anchor_speed: float, cpu: float, anchor_cpu: float) -> None:
    by_clock = f"{speed:12,.0f}{anchor_speed:12,.0f}{speed / anchor_speed:8.2f}"
    print(f"{name:16}{by_clock}{cpu:15.2f}{anchor_cpu:8.2f}{anchor_cpu / cpu:8.2f}", flush=True)


def _messages(spark: Any, count: int, size: int) -> Any:
    """Rows with everything that both sinks need."""
    name = "concat('order-', lpad(id, 9, '0')) name"
    return spark.range(0, count, 1, 2).selectExpr(f"cast(repeat('x', {size}) as binary) body", name)


def _ours(spark: Any, server: GatewayServer) -> Side:
    two = "queueOffset bigint, body binary"
    place = "topic string, queueId int, queueOffset bigint, storeTimestamp timestamp, sysFlag int"
    same = f"keys array<string>, body binary, {place}, tags string"

    def source(reader: Any, schema: str | None = None, **more: str) -> Any:
        reader = reader.format("rocketmq").options(nameServer=server.nameserver, subscribe=TOPIC, **more)
        return (reader.schema(schema) if schema else reader).load()

    def write(rows: Any, topic: str) -> None:
        rows = rows.selectExpr("body", "'A' tags", "array(name) keys")
        rows.write.format("rocketmq").options(nameServer=server.nameserver, topic=topic).mode("append").save()

    def stream() -> float:
        most = {"maxOffsetsPerTrigger": str(MOST_PER_TRIGGER), "startingOffsets": "earliest"}
        return consume_stream(source(spark.readStream, two, **most))

    ways: Mapping[str, Callable[[], object]] = {
        "count": lambda: source(spark.read, "queueOffset bigint").count(),
        "two columns": lambda: consume(source(spark.read, two)),
        "same columns": lambda: consume(source(spark.read, same)),
        "all columns": lambda: consume(source(spark.read)),
        "stream": stream,
    }
    return Side("gateway", server.pid, write, ways)


def _theirs(spark: Any, broker: KafkaBroker) -> Side:
    address = {"kafka.bootstrap.servers": broker.address}

    def source(reader: Any, **more: str) -> Any:
        return reader.format("kafka").options(subscribe=TOPIC, **address, **more).load()

    def write(rows: Any, topic: str) -> None:
        headers = f"array(struct('{TAGS}' as key, cast('A' as binary) as value)) headers"
        rows = rows.selectExpr("cast(name as binary) key", "body value", headers)
        rows.write.format("kafka").options(topic=topic, **address).mode("append").save()

    def stream() -> float:
        most = {"maxOffsetsPerTrigger": str(MOST_PER_TRIGGER), "startingOffsets": "earliest"}
        return consume_stream(source(spark.readStream, **most).select("offset", "value"))

    ways: Mapping[str, Callable[[], object]] = {
        "count": lambda: source(spark.read).select("offset").count(),
        "two columns": lambda: consume(source(spark.read).select("offset", "value")),
        "same columns": lambda: consume(source(spark.read, includeHeaders="true")),
        "all columns": lambda: consume(source(spark.read, includeHeaders="true")),
        "stream": stream,
    }
    return Side("Kafka", broker.pid, write, ways)


def _use_spark() -> None:
    """Go on in a process, and with workers, that find PySpark 4.2 before the one that is installed."""
    target = CACHE / f"pyspark-{SPARK_VERSION}"
    path = os.environ.get("PYTHONPATH", "")
    if path.split(os.pathsep)[0] == str(target):
        return
    if not (target / "complete").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
        subprocess.run([*command, f"pyspark=={SPARK_VERSION}"], check=True)
        (target / "complete").touch()
    path = os.pathsep.join(filter(None, (str(target), path)))
    command = [sys.executable, "-m", "benchmarks.spark_kafka", *sys.argv[1:]]
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="queries with this in their names only")
    add_settings(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
