"""The question: how long does Spark's driver plan a query of many queues with much in them.

    python -m benchmarks.spark_planning [--messages 50000000] [--queues 200]

A topic is filled first, which takes minutes and some 200 bytes of disk a message. Then queries are planned and not run:
the time is that from the call to the number of partitions, the median, least and most of ``--runs``. The goal is two
seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from benchmarks.spark_backlog import BATCH, fill
from benchmarks.spark_session import session
from gateway.client import AdminClient
from gateway.client.testing.server import GatewayServer

TOPIC = "spark_planning"
SIZE = 16
"""Bytes of a body."""
GOAL_S = 2.0


def main() -> None:
    """Fill a topic, plan queries of it, print a table."""
    options = _options()
    count = options.messages // (BATCH * options.queues) * BATCH * options.queues
    with GatewayServer(settings={"mappedFileSizeCommitLog": str(1 << 30)}) as server:
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.topics.create(TOPIC, queues=options.queues)
        begun = time.monotonic()
        fill(server, TOPIC, count // 2, SIZE)
        half_ms = int(time.time() * 1000)  # noqa: TID251 - messages have the clock's times
        fill(server, TOPIC, count // 2, SIZE)
        print(f"{count:,} messages in {options.queues} queues, filled in {time.monotonic() - begun:.0f} s")
        print(f"{'query':34}{'partitions':>12}{'median s':>10}{'least':>8}{'most':>8}{'goal':>8}", flush=True)
        spark = session()
        _planned(spark, server, {})  # the session's first query has other things to do
        for name, given in _queries(half_ms, options.queues).items():
            _row(spark, server, name, given, options.runs)
        spark.stop()


def _queries(half_ms: int, queues: int) -> dict[str, dict[str, str]]:
    return {
        "all": {},
        "all, ten partitions a queue": {"minPartitions": str(10 * queues)},
        "from a time on, in the middle": {"startingTimestamp": str(half_ms)},
    }


def _row(spark: Any, server: GatewayServer, name: str, given: dict[str, str], runs: int) -> None:
    planned = [_planned(spark, server, given) for _ in range(runs)]
    taken = [taken_s for _, taken_s in planned]
    figures = f"{statistics.median(taken):10.2f}{min(taken):8.2f}{max(taken):8.2f}{GOAL_S:8.1f}"
    print(f"{name:34}{planned[0][0]:12,}{figures}", flush=True)


def _planned(spark: Any, server: GatewayServer, given: dict[str, str]) -> tuple[int, float]:
    """Return the number of partitions, and the seconds that planning took."""
    reader = spark.read.format("rocketmq").options(nameServer=server.nameserver, subscribe=TOPIC, **given)
    begun = time.monotonic()
    partitions: int = reader.load().rdd.getNumPartitions()
    return partitions, time.monotonic() - begun


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000_000)
    parser.add_argument("--queues", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
