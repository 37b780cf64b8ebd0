"""The question: how long a start takes on a large store, how much memory and how many open files.

    python -m benchmarks.scale recovery --gib 2           1 KiB bodies: after a kill, without a checkpoint, rebuilt
    python -m benchmarks.scale topics --topics 10000      8 queues each, 4 of them deep: store and whole broker after
                                                          a kill under load, a proper stop, a power failure
    python -m benchmarks.scale deep --messages 1000000    so many in each of 4 queues
    python -m benchmarks.scale sparse --gib 100           nearly all holes: one message at the begin of each file

No Java. Each start is a process of its own, so that its memory is its own. ``--cold`` takes the files out of the page
cache first; ``--directory`` names the disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from gateway.client.testing.server import free_port
from gateway.clock import wall_clock_ms
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.disk.files import FileLayer
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult
from wire.bodies.topics import DataVersion, TopicConfig
from wire.disk.config_json import TopicsFile
from wire.message.record import END_OF_FILE_BYTES, OutgoingMessage, build_blank, build_record

GIB = 1 << 30
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
TOPIC_QUEUES = 8
BATCH = 1000
UNFLUSHED_BATCHES = 10
RUN_S = 3.0
READY_TIMEOUT_S = 120.0


def main() -> None:
    """Parse the command line, measure, print one line for each start."""
    options = _options()
    if options.what == "open":
        _open(options.directory, options.data, power_failed=options.power_failed)
        return
    directory = Path(tempfile.mkdtemp(prefix="scale-", dir=options.directory))
    try:
        for name, found in MEASURES[options.what](directory, options):
            print(f"{name:44}" + "  ".join(f"{key} {_text(value)}" for key, value in found.items()), flush=True)
    finally:
        shutil.rmtree(directory)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=[*MEASURES, "open"])
    parser.add_argument("data", nargs="?", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--gib", type=float, default=2.0, help="size of the log")
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=1_000_000, help="in each queue")
    parser.add_argument("--deep", type=int, default=100_000, help="messages in four of the queues of topics")
    parser.add_argument("--body", type=int, default=1024, help="bytes")
    parser.add_argument("--power-failed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--directory", type=Path)
    return parser.parse_args()


def _text(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


# --- making stores -----------------------------------------------------------------------------------------------


def messages(body_bytes: int, topics: Sequence[str], queues: int) -> Iterator[OutgoingMessage]:
    """Messages as a stock Java producer sends them, over all queues in turn, without end."""
    body = os.urandom(body_bytes)
    number = 0
    while True:
        for queue_id in range(queues):
            for topic in topics:
                properties = f"UNIQ_KEY\x017F0000010000{number:020X}\x02TAGS\x01TagA\x02WAIT\x01true\x02".encode()
                yield OutgoingMessage(topic, queue_id, 0, 0, 0, HOST, HOST, 0, 0, body, properties, {})
                number += 1


def write_log(directory: Path, source: Iterable[OutgoingMessage], log_bytes: int) -> int:
    """Write a commit log of prepared records, and nothing derived from it; how many messages."""
    file_bytes = StoreSettings().mapped_file_size_commit_log
    (directory / "commitlog").mkdir(parents=True)
    next_offsets: dict[tuple[str, int], int] = {}
    offset = count = 0
    now_ms = wall_clock_ms()
    file: BinaryIO | None = None
    for message in source:
        key = (message.topic, message.queue_id)
        queue_offset = next_offsets.get(key, 0)
        record = build_record(message, queue_offset, offset, now_ms)
        room = file_bytes - offset % file_bytes
        if len(record) + END_OF_FILE_BYTES > room:
            assert file is not None
            file.write(build_blank(room))
            offset += room
            record = build_record(message, queue_offset, offset, now_ms)
        if file is None or offset % file_bytes == 0:
            _close(file)
            file = (directory / "commitlog" / f"{offset:020d}").open("wb", buffering=1 << 20)
            file.truncate(file_bytes)
        file.write(record)
        next_offsets[key] = queue_offset + 1
        offset += len(record)
        count += 1
        if offset >= log_bytes:
            break
    _close(file)
    return count


def _close(file: BinaryIO | None) -> None:
    if file is not None:
        file.flush()
        os.fsync(file.fileno())
        file.close()


def fill_and_be_killed(directory: Path, source: Iterator[OutgoingMessage], count: int, run_s: float = 1e9) -> None:
    """A process that sends and flushes as a broker does, and is killed after so many messages or seconds."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    settings = StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH, message_index_enable=False)
    store = MessageStore(directory, settings, StoreSurroundings(clock_ms=wall_clock_ms))
    store.open()
    begin = time.monotonic()
    for first in range(0, count, BATCH):
        store.append_all([next(source) for _ in range(min(BATCH, count - first))], _stored)
        store.flush_due(wall_clock_ms())
        if time.monotonic() - begin > run_s:
            break
    for _ in range(UNFLUSHED_BATCHES):
        store.append_all([next(source) for _ in range(BATCH)], _stored)
    os.kill(os.getpid(), signal.SIGKILL)


def _stored(results: list[PutResult]) -> None:
    if not all(result.status.is_stored for result in results):
        raise RuntimeError(f"refused: {results[0].status}")


def run_and_be_killed(directory: Path, body_bytes: int) -> None:
    """A process that sends and flushes as a broker does, and is killed after some seconds."""
    child = os.fork()
    if child:
        threading.Event().wait(RUN_S)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return
    turns = Turns()
    store = MessageStore(directory, StoreSettings(), StoreSurroundings(clock_ms=wall_clock_ms, soon=turns.soon))
    store.open()
    source = messages(body_bytes, ["Scale"], TOPIC_QUEUES)
    settings, flushed_at_ms = StoreSettings(), 0
    while True:
        store.append_all([next(source) for _ in range(64)], _stored)
        turns.run_once()
        if wall_clock_ms() - flushed_at_ms > settings.flush_interval_commit_log_ms:
            flushed_at_ms = wall_clock_ms()
            store.flush_due(flushed_at_ms)


class Turns:
    """A reactor turn by hand."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def soon(self, function: Callable[[], None]) -> None:
        """Keep until ``run_once``."""
        self._waiting.append(function)

    def run_once(self) -> None:
        """Do what was asked for before the call."""
        waiting, self._waiting = self._waiting, []
        for function in waiting:
            function()


def make_cold(directory: Path) -> None:
    """Take all files out of the page cache."""
    for path in directory.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


# --- starts ------------------------------------------------------------------------------------------------------


def _open(directory: Path | None, data: Path, *, power_failed: bool) -> None:
    """Open a store in a process of its own, and print how long that took."""
    del directory
    files = CountingFiles(run="" if power_failed else None)
    store = MessageStore(
        data, StoreSettings(message_index_enable=False), StoreSurroundings(clock_ms=wall_clock_ms, files=files)
    )
    begin = time.perf_counter()
    report = store.open()
    took = time.perf_counter() - begin
    found = {
        "seconds": took,
        "records": report.records,
        "walked_mib": (report.end_offset - report.start_offset) >> 20,
        "queues_rebuilt": report.rebuilt_queues,
        "rss_mb": _rss_mb(os.getpid()),
        "most_open_files": files.most,
    }
    begin = time.perf_counter()
    store.close()
    found["close_seconds"] = time.perf_counter() - begin
    print(json.dumps(found))


class CountingFiles(FileLayer):
    """Real files, and the most that were open at a time.

    :param run: of the system, when it is not the real one.
    """

    def __init__(self, run: str | None = None) -> None:
        self.now = self.most = 0
        self._run = super().system_run() if run is None else run

    def system_run(self) -> str:
        """Implement ``FileLayer``."""
        return self._run

    def open(self, path: Path, *, create: bool = False) -> int:
        """Implement ``FileLayer``."""
        fd = super().open(path, create=create)
        self.now += 1
        self.most = max(self.most, self.now)
        return fd

    def close(self, fd: int) -> None:
        """Implement ``FileLayer``."""
        super().close(fd)
        self.now -= 1


def started(data: Path, *, cold: bool, power_failed: bool = False) -> dict[str, object]:
    """Open the store in another process.

    :param power_failed: as if the system had been started since.
    """
    if cold:
        make_cold(data)
    command = [sys.executable, "-m", "benchmarks.scale", "open", str(data)]
    command += ["--power-failed"] if power_failed else []
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, object] = json.loads(output)
    return found


def served(data: Path, *, cold: bool, kill: bool) -> dict[str, object]:
    """Start the whole server, wait for its ready line, end it."""
    if cold:
        make_cold(data)
    command = [sys.executable, "-m", "gateway.cli", "serve", "--data", str(data), "--port", str(free_port())]
    begin = time.perf_counter()
    with subprocess.Popen(
        [*command, "--nameserver-port", str(free_port())], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        watch = threading.Timer(READY_TIMEOUT_S, server.kill)
        watch.start()
        line = server.stdout.readline()
        took = time.perf_counter() - begin
        watch.cancel()
        if not line.startswith("ready"):
            raise RuntimeError("the server did not become ready")
        found: dict[str, object] = {
            "ready_seconds": took,
            "rss_mb": _rss_mb(server.pid),
            "open_files": len(list(Path(f"/proc/{server.pid}/fd").iterdir())),
        }
        begin = time.perf_counter()
        server.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        server.wait()
        if not kill:
            found["stop_seconds"] = time.perf_counter() - begin
    return found


def _rss_mb(pid: int) -> float:
    kib = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(kib[1]) / 1000 if kib else -1.0


# --- the questions -----------------------------------------------------------------------------------------------

Found = Iterator[tuple[str, dict[str, object]]]


def measure_recovery(directory: Path, options: argparse.Namespace) -> Found:
    """Starts on a log of some GiB."""
    data = directory / "store"
    write_log(data, messages(options.body, ["Scale"], TOPIC_QUEUES), int(options.gib * GIB))
    (data / "abort").touch()
    yield "no checkpoint and no queues, all rebuilt", started(data, cold=options.cold)
    yield "after a clean stop", started(data, cold=options.cold)
    run_and_be_killed(data, options.body)
    yield "after a kill under load", started(data, cold=options.cold)
    (data / "checkpoint").unlink()
    (data / "abort").touch()
    yield "after a kill, the checkpoint is gone", started(data, cold=options.cold)
    shutil.rmtree(data / "consumequeue" / "Scale" / "0")
    yield "after a clean stop, one queue is gone", started(data, cold=options.cold)


def measure_topics(directory: Path, options: argparse.Namespace) -> Found:
    """Starts with many topics: the store alone, and the whole broker."""
    data = directory / "store"
    topics = [f"Topic-{number:06d}" for number in range(options.topics)]
    deep = itertools.islice(messages(128, topics[:1], 4), 4 * options.deep)
    once = len(topics) * TOPIC_QUEUES
    fill_and_be_killed(data, itertools.chain(deep, messages(128, topics, TOPIC_QUEUES)), 4 * options.deep + once)
    configs = {
        name: TopicConfig(topic_name=name, read_queue_nums=TOPIC_QUEUES, write_queue_nums=TOPIC_QUEUES)
        for name in topics
    }
    (data / "config").mkdir()
    (data / "config" / "topics.json").write_bytes(TopicsFile(configs, DataVersion(timestamp=wall_clock_ms())).build())
    yield "store after a kill, all queues new", started(data, cold=options.cold)
    yield "store after a clean stop", started(data, cold=options.cold)
    fill_and_be_killed(data, messages(128, topics, TOPIC_QUEUES), 1 << 40, RUN_S)
    yield "store after a kill under load", started(data, cold=options.cold)
    (data / "abort").touch()
    yield "store after a power failure", started(data, cold=options.cold, power_failed=True)
    yield "broker after a clean stop, then killed", served(data, cold=options.cold, kill=True)
    fill_and_be_killed(data, messages(128, topics, TOPIC_QUEUES), 1 << 40, RUN_S)
    yield "broker after a kill under load", served(data, cold=options.cold, kill=False)
    yield "broker after a clean stop", served(data, cold=options.cold, kill=False)


def measure_deep(directory: Path, options: argparse.Namespace) -> Found:
    """Starts with many messages in a few queues."""
    data = directory / "store"
    source = messages(64, ["Deep"], 4)
    write_log(data, (next(source) for _ in range(4 * options.messages)), 1 << 62)
    (data / "abort").touch()
    yield "no checkpoint and no queues, all rebuilt", started(data, cold=options.cold)
    yield "after a clean stop", started(data, cold=options.cold)
    (data / "abort").touch()
    yield "after a kill", started(data, cold=options.cold)


def measure_sparse(directory: Path, options: argparse.Namespace) -> Found:
    """Starts on a log with as many files as many gigabytes have, nearly all of it holes."""
    data = directory / "store"
    file_bytes = StoreSettings().mapped_file_size_commit_log
    (data / "commitlog").mkdir(parents=True)
    source = messages(options.body, ["Sparse"], 1)
    for number in range(max(int(options.gib * GIB) // file_bytes, 1)):
        record = build_record(next(source), number, number * file_bytes, wall_clock_ms())
        with (data / "commitlog" / f"{number * file_bytes:020d}").open("wb") as file:
            file.truncate(file_bytes)
            file.write(record + build_blank(file_bytes - len(record)))
    (data / "abort").touch()
    yield "no checkpoint and no queues, all rebuilt", started(data, cold=options.cold)
    yield "after a clean stop", started(data, cold=options.cold)
    yield "broker after a clean stop", served(data, cold=options.cold, kill=True)
    yield "broker after a kill", served(data, cold=options.cold, kill=False)


MEASURES: dict[str, Callable[[Path, argparse.Namespace], Found]] = {
    "recovery": measure_recovery,
    "topics": measure_topics,
    "deep": measure_deep,
    "sparse": measure_sparse,
}


if __name__ == "__main__":
    main()
