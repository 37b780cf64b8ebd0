"""The question: does the memory of Spark's executors grow with what they read.

    python -m benchmarks.spark_memory [--gigabytes 10] [--messages 1000000] [--size 1024] [--two-columns]

One query over so many times the same topic that it reads as many gigabytes of bodies as asked for, in ``local[2]``,
where the executor is the JVM of the session (2 GB of heap at most) and its Python workers. Their resident memory is
looked at twice a second; a line for each tenth of the query says the most that was seen in it.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import psutil

from benchmarks.spark_backlog import fill
from benchmarks.spark_session import consume, session
from gateway.client import AdminClient
from gateway.client.testing.server import GatewayServer

TOPIC = "spark_memory"
QUEUES = 8
INTERVAL_S = 0.5
FLAT = 1.1
"""The second half of a query may need so many times the memory of the first one."""
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident memory in bytes, at so many seconds since the query began; that of the workers is the largest one's."""

    at_s: float
    jvm: int
    workers: int
    gateway: int


def main() -> None:
    """Fill a topic, read it many times, print what that took."""
    options = _options()
    with GatewayServer(settings={"mappedFileSizeCommitLog": "67108864"}) as server:
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.topics.create(TOPIC, queues=QUEUES)
        fill(server, TOPIC, options.messages, options.size, keyed=True)
        spark = session()
        reader = spark.read.format("rocketmq").options(nameServer=server.nameserver, subscribe=TOPIC)
        if options.two_columns:
            reader = reader.schema("queueOffset bigint, body binary")
        times = max(round(options.gigabytes * 1e9 / (options.messages * options.size)), 1)
        frame = reduce(lambda one, other: one.union(other), [reader.load() for _ in range(times)])
        samples = watched(lambda: consume(frame), server.pid)
        spark.stop()
    read = times * options.messages
    taken_s = samples[-1].at_s
    print(f"{read * options.size / 1e9:.1f} GB in {read:,} messages, {read / taken_s:,.0f} rows/s")
    report(samples)


def watched(query: Callable[[], object], gateway_pid: int) -> list[Sample]:
    """Run a query; what was seen meanwhile."""
    ended = threading.Event()
    samples: list[Sample] = []
    begun = time.monotonic()

    def watch() -> None:
        while not ended.wait(INTERVAL_S):
            samples.append(_sample(time.monotonic() - begun, gateway_pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        query()
    finally:
        ended.set()
        watcher.join()
    return samples


def report(samples: list[Sample]) -> None:
    """A line for each tenth, and whether the second half needed more than the first."""
    print(f"{'s':>6}{'JVM MB':>10}{'worker MB':>11}{'gateway MB':>12}")
    for tenth in range(10):
        part = samples[len(samples) * tenth // 10 : len(samples) * (tenth + 1) // 10]
        if part:
            jvm, workers, gateway = (max(values) / _MB for values in zip(*map(_values, part), strict=True))
            print(f"{part[-1].at_s:6.0f}{jvm:10.0f}{workers:11.0f}{gateway:12.0f}")
    half = len(samples) // 2
    first, second = (
        tuple(map(max, zip(*map(_values, part), strict=True))) for part in (samples[:half], samples[half:])
    )
    ratios = [later / earlier for earlier, later in zip(first, second, strict=True)]
    flat = all(ratio <= FLAT for ratio in ratios[:2])
    print(f"second half / first half: JVM {ratios[0]:.2f}, worker {ratios[1]:.2f}: {'flat' if flat else 'NOT FLAT'}")


def _values(sample: Sample) -> tuple[int, int, int]:
    return sample.jvm, sample.workers, sample.gateway


def _sample(at_s: float, gateway_pid: int) -> Sample:
    jvm = workers = gateway = 0
    for process in psutil.Process().children(recursive=True):
        try:
            used = process.memory_info().rss
            if process.pid == gateway_pid:
                gateway = used
            elif process.name() == "java":
                jvm = max(jvm, used)
            else:
                workers = max(workers, used)
        except psutil.NoSuchProcess:
            continue
    return Sample(at_s, jvm, workers, gateway)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10.0, help="of bodies, that are read")
    parser.add_argument("--messages", type=int, default=1_000_000, help="in the topic")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--two-columns", action="store_true", help="instead of all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
