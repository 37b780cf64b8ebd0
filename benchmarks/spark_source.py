"""The question: how fast does Spark read a topic, and write one.

    python -m benchmarks.spark_source [--messages 2000000] [--size 128]

One gateway and one Spark session, `local[2]`, on the same cores; the topic is filled beforehand. Rates are rows a
second by the clock; CPU is what the gateway, Spark's JVM and its Python workers (the driver's included) used, in
microseconds a row: on a machine that does other things at the same time it says more. The first rows are not counted:
they warm the JVM up. The last line is what a micro-batch without rows takes. With compiled modules, after
``make accelerate``:

    PYTHONSAFEPATH=1 PYTHONPATH=$PWD/build/accelerated .venv/bin/python -m benchmarks.spark_source
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

from gateway.client import AdminClient
from gateway.client.message_queue import MessageQueue
from gateway.client.testing.server import GatewayServer
from gateway.client.unique_ids import UniqueIds
from gateway.spark import register
from gateway.spark.cluster import Access, Cluster
from gateway.spark.connection import request
from wire.codes import RequestCode
from wire.headers.send import ShortSendMessageRequest
from wire.message.batch import BatchPart, build_batch
from wire.message.properties import build_properties

TOPIC = "spark_source"
WRITTEN = "spark_written"
QUEUES = 8
BATCH = 1000
GOALS = {
    "all columns": 350_000,
    "two columns": 700_000,
    "closed files, all columns": 700_000,
    "stream, two columns": 250_000,
    "sink": 50_000,
}


def main() -> None:
    """Fill a topic, read it in several ways, print a table."""
    options = _options()
    with GatewayServer(settings={"mappedFileSizeCommitLog": "67108864"}) as server:
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.topics.create(TOPIC, queues=QUEUES)
            admin.topics.create(WRITTEN, queues=QUEUES)
        _fill(server, options.messages, options.size)
        spark = _session()
        load = os.getloadavg()[0]
        print(f"{options.messages:,} messages of {options.size} B in {QUEUES} queues, local[2]; load {load:.1f}")
        print(f"{'way':27}{'rows/s':>12}{'CPU us: gateway':>18}{'JVM':>8}{'Python':>8}{'goal/s':>12}", flush=True)
        _ways(spark, server, options)
        spark.stop()


def _ways(spark: Any, server: GatewayServer, options: argparse.Namespace) -> None:
    def read(schema: str | None = None, **given: str) -> Any:
        reader = spark.read.format("rocketmq").options(nameServer=server.nameserver, subscribe=TOPIC, **given)
        return (reader.schema(schema) if schema else reader).load()

    two = "queueOffset long, body binary"
    ways: dict[str, Callable[[], object]] = {
        "(warm-up)": lambda: _consume(read(two)),
        "(warm-up, all columns)": lambda: _consume(read()),
        "two columns": lambda: _consume(read(two)),
        "two, checked bodies": lambda: _consume(read(two, checkBodies="true")),
        "all columns": lambda: _consume(read()),
        "all, checked bodies": lambda: _consume(read(checkBodies="true")),
        "closed files, all columns": lambda: _consume(read(storePath=str(server.data))),
        "closed files, two columns": lambda: _consume(read(two, storePath=str(server.data))),
        "stream, two columns": lambda: _stream(spark, server, two),
    }
    for name, way in ways.items():
        if options.only in name:
            _row(name, way, server, options.messages)
    print(f"an empty trigger: {_empty_trigger_ms(spark, server, two):.0f} ms (goal: 300)", flush=True)
    count = min(options.messages, 500_000)
    rows = spark.range(0, count, 1, 2).selectExpr(f"repeat('x', {options.size}) body", "'A' tags")
    rows = rows.write.format("rocketmq").options(nameServer=server.nameserver, topic=WRITTEN).mode("append")
    _row("(warm-up, sink)", rows.save, server, count)
    _row("sink", rows.save, server, count)


def _consume(frame: Any) -> None:
    """Every row is made and thrown away."""
    frame.write.format("noop").mode("overwrite").save()


def _stream(spark: Any, server: GatewayServer, schema: str) -> None:
    reader = spark.readStream.format("rocketmq").options(nameServer=server.nameserver, subscribe=TOPIC)
    stream = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="500000").schema(schema).load()
    stream.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()


def _empty_trigger_ms(spark: Any, server: GatewayServer, schema: str) -> float:
    """The median of a few triggers that find nothing new."""
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "0")
    stream = spark.readStream.format("rocketmq").options(nameServer=server.nameserver, subscribe=TOPIC)
    query = stream.schema(schema).load().writeStream.format("noop").trigger(processingTime="500 milliseconds").start()
    end = time.monotonic() + 60
    while len(query.recentProgress) < 12 and time.monotonic() < end:
        time.sleep(0.2)  # noqa: TID251 - another process is waited for
    taken = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress[2:]]
    query.stop()
    return float(statistics.median(taken))


def _row(name: str, way: Callable[[], object], server: GatewayServer, count: int) -> None:
    gateway = psutil.Process(server.pid)
    ours = psutil.Process()
    before, (jvm_before, python_before) = _cpu_s(gateway), _tree_cpu_s(ours, gateway.pid)
    begun = time.perf_counter()
    way()
    taken_s = time.perf_counter() - begun
    gateway_us = (_cpu_s(gateway) - before) / count * 1e6
    jvm_after, python_after = _tree_cpu_s(ours, gateway.pid)
    jvm_us, python_us = (jvm_after - jvm_before) / count * 1e6, (python_after - python_before) / count * 1e6
    goal = f"{GOALS[name]:12,}" if name in GOALS else ""
    print(f"{name:27}{count / taken_s:12,.0f}{gateway_us:18.2f}{jvm_us:8.2f}{python_us:8.2f}{goal}", flush=True)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _tree_cpu_s(root: psutil.Process, but_pid: int) -> tuple[float, float]:
    """Of Java, and of all else, in a process and all below it; what ended was Python."""
    java = others = 0.0
    for process in [root, *root.children(recursive=True)]:
        if process.pid == but_pid:
            continue
        try:
            times, is_java = process.cpu_times(), process.name() == "java"
        except psutil.NoSuchProcess:
            continue
        ended = times.children_user + times.children_system if process.pid != root.pid else 0.0
        if is_java:
            java += times.user + times.system
            others += ended  # Python workers that Java started and that are gone
        else:
            others += times.user + times.system + ended
    return java, others


def _fill(server: GatewayServer, count: int, size: int) -> None:
    """Batches of the same bodies, several on their way; each message has an id of its own, as clients give them."""
    cluster = Cluster(Access(name_servers=(server.nameserver,), request_timeout_s=30.0))
    queues = cluster.queues(TOPIC) or ()
    ids = UniqueIds("127.0.0.1", os.getpid(), clock=lambda: int(time.time() * 1000), random=random.Random(1))  # noqa: TID251
    connection = cluster.broker(queues[0].broker_name, TOPIC)
    under_way: list[int] = []
    for number in range(count // BATCH):
        parts = [
            BatchPart(0, b"x" * size, build_properties({"WAIT": "true", "UNIQ_KEY": ids.create()}))
            for _ in range(BATCH)
        ]
        under_way.append(connection.start(_batch(queues[number % len(queues)], parts), 30.0))
        if len(under_way) == 8:
            connection.finish(under_way.pop(0), 30.0)
    for opaque in under_way:
        connection.finish(opaque, 30.0)
    while sum(cluster.ends(queues).values()) < count // BATCH * BATCH:
        time.sleep(0.1)  # noqa: TID251 - the gateway flushes
    cluster.close()


def _batch(queue: MessageQueue, parts: list[BatchPart]) -> Any:
    header = ShortSendMessageRequest(
        producer_group="benchmark",
        topic=queue.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue.queue_id,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),  # noqa: TID251
        flag=0,
        properties="WAIT\x01true\x02",
        batch=True,
    )
    return request(RequestCode.SEND_BATCH_MESSAGE, header, build_batch(parts))


def _session() -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "2g")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--only", default="", help="ways with this in their names only")
    return parser.parse_args()


if __name__ == "__main__":
    main()
