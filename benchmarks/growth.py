"""The question: what a message costs, and what the broker needs, when there is more and more of everything.

    python -m benchmarks.growth                               all of it, three times: a quarter of an hour, 2 GB of disk
    python -m benchmarks.growth --rows topics,queues          some of it
    python -m benchmarks.growth --rows backlog --full         up to ten times as much

Rows: topics, queues of one topic, connections, messages that nobody has read, transactions without an outcome, size of
the log. Each point is a server of its own on a directory that is prepared without it; then the same load everywhere
(`benchmarks.prepared_load`): 1,000 sends under way. All points of a row are measured in turn, then again, and medians
count: what one point varies by from round to round is shown beside, and is what a difference has to exceed. "CPU µs" is
the server's processor time for each message. "times" compares it with the first point of the row: 1 is flat. A log is
mostly holes: as many files as a real one, with a message in each, which costs no disk; its queues are short.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from pathlib import Path

from benchmarks import chart, prepared_load, table
from benchmarks.java_tools import CACHE, BenchmarkError
from benchmarks.pending_transactions import message as half_message
from benchmarks.run import refuse_unknown, row_names
from benchmarks.scale import BATCH, messages
from benchmarks.servers import cpu_s
from compat_tests.peers import gateway_command
from gateway.client.testing.server import free_port
from gateway.clock import wall_clock_ms
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from wire.bodies.topics import DataVersion, TopicConfig
from wire.disk.config_json import TopicsFile
from wire.message.record import build_blank, build_record

QUEUES = 4
UNDER_WAY = 1_000
WARM_UP_S, MEASURED_S, IDLE_S = 2.0, 4.0, 2.0
GIB = 1 << 30
TOPIC = "growth"
READ_BACK = 200_000
"""Messages of a backlog that are pulled, or all of it."""


@dataclass(frozen=True, slots=True)
class Point:
    """The measured values for one amount of something."""

    row: str
    amount: int
    messages_per_s: float
    server_cpu_us: float
    memory_mb: float
    idle_share: float
    start_s: float
    pulled_per_s: float = 0.0
    pull_cpu_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """Topics and queues to send to, and connections to do it on."""

    topics: int = 1
    queues: int = QUEUES
    connections: int = 50


@dataclass(frozen=True, slots=True)
class Server:
    """A running gateway."""

    pid: int
    port: int
    start_s: float

    def memory_mb(self) -> float:
        """Memory of its own: what is not in files."""
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) * 1024 / 1e6 if found else -1.0


def names(count: int) -> list[str]:
    """Return names of topics."""
    return [TOPIC] if count == 1 else [f"{TOPIC}-{number:06d}" for number in range(count)]


@contextmanager
def serving(directory: Path) -> Iterator[Server]:
    """A gateway from ready to its end."""
    port, begin = free_port(), prepared_load.now()
    command = [*gateway_command(), "serve", "--data", str(directory), "--port", str(port)]
    command += ["--nameserver-port", str(free_port()), "--set", "flushDiskType=ASYNC_FLUSH"]
    with directory.with_suffix(".log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--set", "gateway.diskMeasuredBytes=0"], stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert server.stdout is not None
        if not server.stdout.readline().startswith("ready"):
            raise BenchmarkError(directory.with_suffix(".log").read_text()[-2_000:])
        yield Server(server.pid, port, prepared_load.now() - begin)
    finally:
        server.kill()  # its directory goes: bringing forty thousand files to the disk would be for nothing
        server.wait()


def measure(row: str, amount: int, directory: Path, load: Load, *, backlog: int = 0) -> Point:
    """One server under the load, then without."""
    topics = names(load.topics)
    declare(directory, topics, load.queues)
    places = load.topics * load.queues
    frames = prepared_load.sends(topics, load.queues, max(2_000, places))
    shape = {"connections": load.connections, "in_flight": max(UNDER_WAY // load.connections, 1)}
    with serving(directory) as server:
        pulled = None
        if backlog:
            requests = prepared_load.pulls(TOPIC, QUEUES, min(backlog, READ_BACK) // QUEUES)
            before = cpu_s(server.pid)
            pulled = prepared_load.run(
                [server.port],
                requests,
                connections=QUEUES,
                in_flight=1,
                seconds=0,
                least=len(requests) // QUEUES * QUEUES,
            )
            pull_cpu_s = cpu_s(server.pid) - before
        prepared_load.run([server.port], frames, **shape, seconds=WARM_UP_S, least=places)
        before = cpu_s(server.pid)
        found = prepared_load.run([server.port], frames, **shape, seconds=MEASURED_S)
        used_s = cpu_s(server.pid) - before
        memory_mb = server.memory_mb()
        pause(1)
        before = cpu_s(server.pid)
        pause(IDLE_S)
        idle = (cpu_s(server.pid) - before) / IDLE_S
        return Point(
            row,
            amount,
            found.per_s,
            used_s / found.answers * 1e6,
            memory_mb,
            idle,
            server.start_s,
            pulled.per_s * prepared_load.PULLED if pulled else 0.0,
            pull_cpu_s / (pulled.answers * prepared_load.PULLED) * 1e6 if pulled else 0.0,
        )


def pause(seconds: float) -> None:
    """While the server has nothing to do."""
    threading.Event().wait(seconds)


# --- directories -----------------------------------------------------------------------------------------------------


def declare(directory: Path, topics: Sequence[str], queues: int) -> None:
    """Topics as a broker finds them at its start."""
    config = directory / "config"
    config.mkdir(parents=True, exist_ok=True)
    configs = {name: TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues) for name in topics}
    (config / "topics.json").write_bytes(TopicsFile(configs, DataVersion(timestamp=wall_clock_ms())).build())


def fill_backlog(directory: Path, count: int) -> None:
    """Messages in the queues of the topic, as a broker leaves them that was stopped."""
    settings = StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH, disk_measured_bytes=0)
    store = MessageStore(directory, settings, StoreSurroundings(clock_ms=wall_clock_ms))
    store.open()
    source = messages(128, [TOPIC], QUEUES)
    for first in range(0, count, BATCH):
        store.append_all([next(source) for _ in range(min(BATCH, count - first))], lambda _: None)
    store.close()


def fill_pending(directory: Path, count: int) -> None:
    """Half messages of a moment ago."""
    settings = StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH, disk_measured_bytes=0)
    store = MessageStore(directory, settings, StoreSurroundings(clock_ms=wall_clock_ms))
    store.open()
    for first in range(0, count, BATCH):
        halves = [half_message(number, is_half=True) for number in range(first, min(first + BATCH, count))]
        store.append_all(halves, lambda _: None)
    store.close()


def fill_sparse(directory: Path, gib: int) -> None:
    """A log with as many files as so many GiB have, nearly all of it holes."""
    file_bytes = StoreSettings().mapped_file_size_commit_log
    (directory / "commitlog").mkdir(parents=True)
    source = messages(128, [TOPIC], 1)
    for number in range(gib * GIB // file_bytes):
        record = build_record(next(source), number, number * file_bytes, wall_clock_ms())
        with (directory / "commitlog" / f"{number * file_bytes:020d}").open("wb") as file:
            file.truncate(file_bytes)
            file.write(record + build_blank(file_bytes - len(record)))


def elsewhere(work: Callable[..., object], *arguments: object) -> None:
    """Do it in a process of its own, whose memory goes with it."""
    with get_context("fork").Pool(1) as pool:
        pool.apply(work, arguments)


# --- rows ------------------------------------------------------------------------------------------------------------


def of_topics(directory: Path, *, full: bool) -> Iterator[Point]:
    """More and more topics, all of which are sent to."""
    for count in (1, 10, 100, 1_000, 10_000) if not full else (1, 10_000, 40_000):
        yield measure("topics", count, directory / str(count), Load(topics=count))


def of_queues(directory: Path, *, full: bool) -> Iterator[Point]:
    """One topic with more and more queues."""
    for count in (4, 64, 512, 4_096) if not full else (4, 4_096, 32_768):
        yield measure("queues", count, directory / str(count), Load(queues=count))


def of_connections(directory: Path, *, full: bool) -> Iterator[Point]:
    """Measure the same number of messages under way on more and more connections."""
    for count in (1, 10, 100, 1_000) if not full else (1, 1_000, 5_000):
        yield measure("connections", count, directory / str(count), Load(connections=count))


def of_backlog(directory: Path, *, full: bool) -> Iterator[Point]:
    """More and more messages that nobody has read; the first of them are pulled."""
    for count in (10_000, 100_000, 1_000_000) if not full else (10_000, 10_000_000):
        elsewhere(fill_backlog, directory / str(count), count)
        yield measure("backlog", count, directory / str(count), Load(), backlog=count)


def of_pending(directory: Path, *, full: bool) -> Iterator[Point]:
    """More and more half messages without an outcome, whose producers are gone."""
    for count in (0, 10_000, 100_000) if not full else (0, 1_000_000):
        if count:
            elsewhere(fill_pending, directory / str(count), count)
        yield measure("pending", count, directory / str(count), Load())


def of_log(directory: Path, *, full: bool) -> Iterator[Point]:
    """A larger and larger log, in GiB."""
    for gib in (0, 10, 100) if not full else (0, 1_000):
        if gib:
            fill_sparse(directory / str(gib), gib)
        yield measure("log", gib, directory / str(gib), Load())


ROWS: dict[str, tuple[Callable[..., Iterator[Point]], str]] = {
    "topics": (of_topics, "topics, 4 queues each"),
    "queues": (of_queues, "queues of one topic"),
    "connections": (of_connections, "connections"),
    "backlog": (of_backlog, "messages not read"),
    "pending": (of_pending, "transactions without an outcome"),
    "log": (of_log, "GiB of log"),
}


def medians(points: Sequence[Point]) -> list[Point]:
    """One point for each row and amount, whose values are the medians of all rounds."""
    rounds: dict[tuple[str, int], list[Point]] = {}
    for point in points:
        rounds.setdefault((point.row, point.amount), []).append(point)
    values = [field.name for field in fields(Point)[2:]]
    return [
        Point(row, amount, *(statistics.median(getattr(one, name) for one in of_point) for name in values))
        for (row, amount), of_point in rounds.items()
    ]


def lines(points: Sequence[Point]) -> Iterator[str]:
    """The table; points of all rounds."""
    yield (
        f"{'row':12}{'amount':>12}{'sends/s':>10}{'CPU µs':>8}{'from':>7}{'to':>7}{'times':>7}{'memory MB':>11}"
        f"{'idle core':>11}{'start s':>9}{'pulled/s':>11}{'CPU µs':>8}"
    )
    first: dict[str, float] = {}
    for point in medians(points):
        base = first.setdefault(point.row, point.server_cpu_us)
        cpu_us = [one.server_cpu_us for one in points if (one.row, one.amount) == (point.row, point.amount)]
        pulled = f"{point.pulled_per_s:>11,.0f}{point.pull_cpu_us:>8.2f}" if point.pulled_per_s else ""
        yield (
            f"{point.row:12}{point.amount:>12,}{point.messages_per_s:>10,.0f}{point.server_cpu_us:>8.1f}"
            f"{min(cpu_us):>7.1f}{max(cpu_us):>7.1f}{point.server_cpu_us / base:>7.2f}{point.memory_mb:>11.1f}"
            f"{point.idle_share:>11.3f}{point.start_s:>9.1f}{pulled}"
        )


DRAWN = {"messages_per_s": "sends a second", "server_cpu_us": "CPU µs a send", "memory_mb": "memory, MB"}
"""Values of a point that have a panel."""


def panels(points: Sequence[Point]) -> list[chart.Panel]:
    """Return the measured values of each row, by amount: a line of panels."""
    drawn, of_all = [], medians(points)
    for row in dict.fromkeys(point.row for point in of_all):
        of_row = [point for point in of_all if point.row == row]
        label = f"{ROWS[row][1]}{' (0 is drawn at 1)' if of_row[0].amount == 0 else ''}"
        for value, title in DRAWN.items():
            line = {title: [(max(point.amount, 1), getattr(point, value)) for point in of_row]}
            if value == "messages_per_s" and any(point.pulled_per_s for point in of_row):
                line["pulled a second"] = [(point.amount, point.pulled_per_s) for point in of_row]
            drawn.append(chart.Panel(f"{title} by {ROWS[row][1]}", label, line, is_log=(True, False)))
    return drawn


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=(__doc__ or "").partition("\n")[0])
    rows = f"only these, comma-separated, of {', '.join(ROWS)}"
    parser.add_argument("--rows", type=row_names, default=list(ROWS), help=rows)
    parser.add_argument("--full", action="store_true", help="larger amounts; minutes more")
    parser.add_argument("--rounds", type=int, default=3, help="of which medians count (default: 3)")
    parser.add_argument("--directory", type=Path, help="where the stores are made")
    parser.add_argument("--output", type=Path, default=CACHE / "results" / "growth")
    options = parser.parse_args()
    refuse_unknown(options.rows, ROWS)
    points: list[Point] = []
    CACHE.mkdir(parents=True, exist_ok=True)
    print(str(table.machine()), os.getloadavg(), flush=True)
    for row in options.rows * options.rounds:
        directory = Path(tempfile.mkdtemp(prefix=f"growth-{row}-", dir=options.directory or CACHE))
        try:
            for point in ROWS[row][0](directory, full=options.full):
                points.append(point)
                print([*lines(points[-1:])][1], flush=True)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    shown = [str(table.machine()), *lines(points)]
    picture = chart.page("What more of everything costs", panels(points), columns=len(DRAWN))
    table.write_report(options.output, shown, picture, [asdict(point) for point in points])


if __name__ == "__main__":
    main()
