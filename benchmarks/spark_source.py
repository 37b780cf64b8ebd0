"""The question: how fast does Spark read a topic, and write one.

    python -m benchmarks.spark_source [--messages 2000000] [--size 128] [--runs 3]

One gateway and one Spark session, `local[2]`, on the same cores; the topic is filled beforehand. Rates are rows a
second by the clock, the median of some runs of the query beside the least and the most; CPU is what the gateway,
Spark's JVM and its Python workers (the driver's included) used, in microseconds a row, medians too: on a machine that
does other things at the same time it says more. The first rows are not counted: they warm the JVM up. The line before
the sink's is what a micro-batch without rows takes. With compiled modules, after ``make accelerate``:

    PYTHONSAFEPATH=1 PYTHONPATH=$PWD/build/accelerated .venv/bin/python -m benchmarks.spark_source
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.spark_backlog import fill
from benchmarks.spark_session import Cost, add_settings, consume, consume_stream, cost_of, session
from gateway.client import AdminClient
from gateway.client.testing.server import GatewayServer

TOPIC = "spark_source"
WRITTEN = "spark_written"
QUEUES = 8
SUSTAINED = "stream, after one batch"
WARM_UP = "(warm-up"
GOALS = {
    "all columns": 350_000,
    "two columns": 700_000,
    "closed files, all columns": 700_000,
    SUSTAINED: 250_000,
    "sink": 50_000,
}


def main() -> None:
    """Fill a topic, read it in several ways, print a table."""
    options = _options()
    with GatewayServer(settings={"mappedFileSizeCommitLog": "67108864"}) as server:
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.topics.create(TOPIC, queues=QUEUES)
            admin.topics.create(WRITTEN, queues=QUEUES)
        fill(server, TOPIC, options.messages, options.size)
        spark = session(dict(options.spark))
        load = os.getloadavg()[0]
        what = f"{options.messages:,} messages of {options.size} B in {QUEUES} queues"
        print(f"{what}, local[2], {options.runs} runs; load {load:.1f}")
        rates = f"{'rows/s':>12}{'least':>12}{'most':>12}"
        print(f"{'way':27}{rates}{'CPU us: gateway':>18}{'JVM':>8}{'Python':>8}{'goal/s':>12}", flush=True)
        _ways(spark, server, options)
        spark.stop()


def _ways(spark: Any, server: GatewayServer, options: argparse.Namespace) -> None:
    def read(schema: str | None = None, **given: str) -> Any:
        reader = spark.read.format("rocketmq").options(nameServer=server.nameserver, subscribe=TOPIC, **given)
        return (reader.schema(schema) if schema else reader).load()

    two = "queueOffset long, body binary"
    ways: dict[str, Callable[[], object]] = {
        "(warm-up)": lambda: consume(read(two)),
        "(warm-up, all columns)": lambda: consume(read()),
        "two columns": lambda: consume(read(two)),
        "two, checked bodies": lambda: consume(read(two, checkBodies="true")),
        "all columns": lambda: consume(read()),
        "all, checked bodies": lambda: consume(read(checkBodies="true")),
        "closed files, all columns": lambda: consume(read(storePath=str(server.data))),
        "closed files, two columns": lambda: consume(read(two, storePath=str(server.data))),
        "stream, two columns": lambda: _stream(spark, server, two),
    }
    for name, way in ways.items():
        if name.startswith(WARM_UP):
            way()
        elif options.only in name:
            costs = _row(name, way, server, options.messages, options.runs)
            sustained = [cost.result for cost in costs if isinstance(cost.result, float)]
            if sustained:
                print(f"{SUSTAINED:27}{_spread(sustained)}{GOALS[SUSTAINED]:46,}", flush=True)
    print(f"an empty trigger: {_empty_trigger_ms(spark, server, two):.0f} ms (goal: 300)", flush=True)
    if options.only not in "sink":
        return
    count = min(options.messages, 500_000)
    rows = spark.range(0, count, 1, 2).selectExpr(f"repeat('x', {options.size}) body", "'A' tags")
    rows = rows.write.format("rocketmq").options(nameServer=server.nameserver, topic=WRITTEN).mode("append")
    rows.save()
    _row("sink", rows.save, server, count, options.runs)


def _stream(spark: Any, server: GatewayServer, schema: str) -> float:
    reader = spark.readStream.format("rocketmq").options(nameServer=server.nameserver, subscribe=TOPIC)
    reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="500000").schema(schema)
    return consume_stream(reader.load())


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


def _row(name: str, way: Callable[[], object], server: GatewayServer, count: int, runs: int) -> list[Cost]:
    """Run a query some times and print a row of it."""
    costs = [cost_of(way, count, [server.pid]) for _ in range(runs)]
    goal = f"{GOALS[name]:12,}" if name in GOALS else ""
    gateway, jvm, python = (
        statistics.median(used)
        for used in zip(*((cost.servers[0], cost.jvm, cost.python) for cost in costs), strict=True)
    )
    rates = _spread([cost.rows_per_s for cost in costs])
    print(f"{name:27}{rates}{gateway:18.2f}{jvm:8.2f}{python:8.2f}{goal}", flush=True)
    return costs


def _spread(rates: list[float]) -> str:
    """The median, the least and the most."""
    return f"{statistics.median(rates):12,.0f}{min(rates):12,.0f}{max(rates):12,.0f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--only", default="", help="ways with this in their names only")
    parser.add_argument("--runs", type=int, default=3, help="of each query, after the session has become warm")
    add_settings(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
