"""A Spark session on the cores of what it reads from, and what a query in it costs."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from gateway.spark import register


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a query: rows a second by the clock, and CPU time in microseconds a row.

    :param servers: of the processes that are read from or written to, in the order they were named.
    :param python: of Spark's Python workers and this process.
    :param result: what the query returned.
    """

    rows_per_s: float
    servers: tuple[float, ...]
    jvm: float
    python: float
    result: Any

    @property
    def cpu(self) -> float:
        """All of it."""
        return sum(self.servers) + self.jvm + self.python


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The option ``--spark NAME=VALUE``, which may be given many times; for ``session`` its values make a dict."""
    text = "a setting of the session, NAME=VALUE"
    parser.add_argument("--spark", action="append", default=[], type=lambda given: given.split("=", 1), help=text)


def session(settings: Mapping[str, str] | None = None) -> Any:
    """A session in ``local[2]`` with the source registered."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "2g")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def consume(frame: Any) -> None:
    """Every row is made and thrown away."""
    frame.write.format("noop").mode("overwrite").save()


def consume_stream(frame: Any) -> float:
    """Consume a stream with all its parts; return the rows per second after the first batch."""
    query = frame.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    later = [progress for progress in query.recentProgress if progress.numInputRows][1:]
    taken_ms = sum(progress["durationMs"]["triggerExecution"] for progress in later)
    return sum(progress.numInputRows for progress in later) / taken_ms * 1000 if later else math.nan


def cost_of(way: Callable[[], object], rows: int, servers: Collection[int], *, idle: Collection[int] = ()) -> Cost:
    """Run a query of ``rows`` rows.

    :param servers: processes outside of Spark, children of this one; ``idle`` are others that have no part in it.
    """
    watched = [psutil.Process(pid) for pid in servers]
    before, (jvm_before, python_before) = [_cpu_s(server) for server in watched], _spark_cpu_s({*servers, *idle})
    begun = time.perf_counter()
    result = way()
    taken_s = time.perf_counter() - begun
    jvm, python = _spark_cpu_s({*servers, *idle})
    return Cost(
        rows / taken_s,
        tuple((_cpu_s(server) - was) / rows * 1e6 for server, was in zip(watched, before, strict=True)),
        (jvm - jvm_before) / rows * 1e6,
        (python - python_before) / rows * 1e6,
        result,
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _spark_cpu_s(but: Collection[int]) -> tuple[float, float]:
    """Return the processor seconds of Java and of the rest, from this process down; ended processes were Python."""
    java = others = 0.0
    root = psutil.Process()
    for process in [root, *root.children(recursive=True)]:
        if process.pid in but:
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
