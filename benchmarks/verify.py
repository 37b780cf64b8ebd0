"""The question: how many megabytes a second ``rocketmq-gateway store verify`` checks, and what processor time it takes.

    python -m benchmarks.verify                  1 GiB of messages with 1 KiB bodies, with one process and with all
    python -m benchmarks.verify --body 128 --gib 0.5 --topics 100
    python -m benchmarks.verify --data DIR       an existing directory, which is left as it is

The directory is made by the store itself: records as a stock Java producer's arrive, consume queues, key index. Each
verification is a process of its own, the command as people type it. "MB/s" is commit log a second of wall time,
"MB/CPU-s" a second of processor time of all its processes, start and imports included; the best of ``--runs`` counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.scale import GIB, HOST, make_cold
from gateway.clock import wall_clock_ms
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult
from wire.message.record import OutgoingMessage

QUEUES = 8
BATCH = 500
BODIES_BYTES = 1 << 22
"""Random bytes that bodies are cut from."""
KIB = 1024
LEAST_MB_S = 80
"""What the project promises with 1 KiB bodies on two cores."""


def main() -> None:
    """Parse the command line, make a directory, verify it."""
    options = _options()
    made = Path(tempfile.mkdtemp(prefix="verify-", dir=options.directory))
    try:
        data = options.data or made / "store"
        if options.data is None:
            count = fill(data, options)
            print(f"{count:,} messages of {options.body} bytes, {options.topics} topics of {QUEUES} queues")
        print(f"{'processes':<12}{'log MB':>8}{'seconds':>9}{'MB/s':>8}{'CPU s':>8}{'MB/CPU-s':>10}")
        for jobs in dict.fromkeys((1, os.cpu_count() or 1)):
            if options.cold:
                make_cold(data)
            rows = [verified(data, jobs) for _ in range(options.runs)]
            size = rows[0][0]
            seconds, cpu = min(row[1] for row in rows), min(row[2] for row in rows)
            print(f"{jobs:<12}{size:>8,.0f}{seconds:>9.2f}{size / seconds:>8.0f}{cpu:>8.2f}{size / cpu:>10.0f}")
        if options.body >= KIB and options.gib >= 1 and options.data is None:
            print(f"goal: {LEAST_MB_S} MB/s with all processes {'ok' if size / seconds >= LEAST_MB_S else 'MISSED'}")
    finally:
        shutil.rmtree(made)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="a directory of a stopped server")
    parser.add_argument("--gib", type=float, default=1.0, help="size of the log to make")
    parser.add_argument("--body", type=int, default=1024, help="bytes")
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--keys", action="store_true", help="messages have KEYS, too")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--cold", action="store_true", help="take the files out of the page cache first")
    parser.add_argument("--directory", type=Path, help="names the disk")
    return parser.parse_args()


def messages(options: argparse.Namespace) -> Iterator[OutgoingMessage]:
    """Messages with the properties that a stock producer and the broker give them, without end."""
    source = os.urandom(BODIES_BYTES + options.body)
    number = 0
    while True:
        for queue_id in range(QUEUES):
            for topic in range(options.topics):
                at = number * 7 % BODIES_BYTES
                body = source[at : at + options.body]
                found = {"KEYS": f"order-{number}"} if options.keys else {}
                found |= {"UNIQ_KEY": f"7F00000100003D4E{number:016X}", "CLUSTER": "DefaultCluster"}
                found |= {"WAIT": "true", "TAGS": "TagA", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
                raw = "".join(f"{name}\x01{value}\x02" for name, value in found.items()).encode()
                now_ms = wall_clock_ms()
                yield OutgoingMessage(f"Topic{topic}", queue_id, 0, 0, now_ms, HOST, HOST, 0, 0, body, raw, found)
                number += 1


def fill(data: Path, options: argparse.Namespace) -> int:
    """Write through the store until the log is as large as asked, and close it; how many messages."""
    store = MessageStore(
        data, StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH), StoreSurroundings(clock_ms=wall_clock_ms)
    )
    store.open()
    source = messages(options)
    count = 0
    while store.max_commit_log_offset < options.gib * GIB:
        store.append_all(list(islice(source, BATCH)), _stored)
        count += BATCH
    store.close()
    return count


def _stored(results: list[PutResult]) -> None:
    if not all(result.status.is_stored for result in results):
        raise RuntimeError(f"refused: {results[0].status}")


def verified(data: Path, jobs: int) -> tuple[float, float, float]:
    """(megabytes of log, seconds, processor seconds) of one verification.

    :raises RuntimeError: it finds something.
    """
    command = [sys.executable, "-m", "gateway.cli", "store", "verify", str(data), "--json", "--jobs", str(jobs)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"the directory is not intact: {done.stdout[:1000]}{done.stderr[:1000]}")
    found = json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found["bytes"] / 1e6, took, cpu


if __name__ == "__main__":
    main()
