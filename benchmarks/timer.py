"""The question: how late timer messages are while a million others wait, and what these cost.

    python -m benchmarks.timer                       a million; takes three minutes and 500 MB of disk
    python -m benchmarks.timer --count 100000        a tenth of it
    python -m benchmarks.timer --directory /data     names the disk

The directory is filled in this process; then `rocketmq-gateway serve` takes it over, and messages become due one after
the other. How late each was is read from the log: when it was stored, against when it was due.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from twisted.internet.task import Clock

from benchmarks.pending_transactions import Row, UnsyncedFiles
from benchmarks.servers import cpu_s
from compat_tests.peers import gateway_command
from gateway.client.testing.server import free_port
from gateway.in_thread import in_this_thread
from gateway.schedule.timer_files import TimerFiles
from gateway.schedule.timer_message import placed_timed
from gateway.schedule.timer_service import TimerService
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.settings.timer import TimerSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import each_result
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, parse_records

COUNT = 1_000_000
MEASURED = 20_000
"""Messages that become due, in ``MEASURED_S`` seconds."""
MEASURED_S = 20
BURST = 1_000
"""Messages that are due in the same millisecond, after the others."""
LEAD_S = 20
"""From the fill to the first one, and twice as long as an empty server takes to start: it has started by then."""
HOUR_MS = 3_600_000
IDLE_S = 20
BATCH = 1_000
TERMS = TimerSettings()
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
SETTINGS = StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH, disk_measured_bytes=0)


def now_ms() -> int:
    """The machine's clock."""
    return int(time.time() * 1000)  # noqa: TID251 - the server goes by it too


def pause(seconds: float) -> None:
    """While the server works."""
    time.sleep(seconds)  # noqa: TID251 - measured by the clock


def message(number: int, topic: str, due_ms: int) -> OutgoingMessage:
    """A timer message as a stock producer sends it, as it waits."""
    pairs = {"UNIQ_KEY": f"7F0000010000{number:020X}", "WAIT": "true", "TIMER_DELIVER_MS": str(due_ms)}
    plain = OutgoingMessage(
        topic, number % 4, 0, 0, now_ms(), HOST, HOST, 0, 0, b"x" * 128, build_properties(pairs), pairs
    )
    return placed_timed(plain, now_ms(), TERMS, waiting_in=lambda _: 0, random_below=random.randrange)


def fill(directory: Path, count: int, lead_s: float) -> int:
    """Store what waits, and what becomes due in a while; when the first of these is."""
    clock = Clock()
    store = MessageStore(
        directory, SETTINGS, StoreSurroundings(clock_ms=now_ms, files=UnsyncedFiles(), soon=partial(_soon, clock))
    )
    timers = TimerService(
        store=store,
        files=TimerFiles(directory, 104_857_600, UnsyncedFiles()),
        settings=TERMS,
        reactor=clock,
        clock=now_ms,
        in_thread=in_this_thread,
    )
    store.open()
    timers.open()
    store.listen(lambda outcomes: timers.arrived(each_result(outcomes)))
    for number in range(count):
        due_ms = now_ms() + random.randrange(HOUR_MS, 47 * HOUR_MS)
        store.append(message(number, "far", due_ms), _stored)
        if number % BATCH == BATCH - 1:
            clock.advance(0)
    first_ms = now_ms() + round(lead_s * 1000)
    for number in range(MEASURED):
        store.append(message(number, "near", first_ms + random.randrange(MEASURED_S * 1000)), _stored)
        if number % BATCH == BATCH - 1:
            clock.advance(0)
    for number in range(BURST):
        store.append(message(number, "burst", first_ms + (MEASURED_S + 1) * 1000 + 500), _stored)
    clock.advance(0)
    store.flush()
    timers.persist_now()
    store.close()
    return first_ms


def _soon(clock: Clock, work: Callable[[], None]) -> None:
    clock.callLater(0, work)


def _stored(result: object) -> None:
    """Ignore a stored message, because nobody waits for it."""


def late_ms(directory: Path, topic: str) -> list[int]:
    """Return by how many milliseconds each delivered message of a topic was late, sorted."""
    store = MessageStore(directory, SETTINGS, StoreSurroundings(clock_ms=now_ms, files=UnsyncedFiles()))
    store.open()
    found = []
    for name, queue_id in store.queues():
        offset = 0
        while name == topic and offset < store.max_offset(topic, queue_id):
            result = store.get_messages(topic, queue_id, offset, 1_000, 1 << 24)
            for record in parse_records(b"".join(result.parts)):
                found.append(record.stored_at_ms - int(record.property_map["TIMER_DELIVER_MS"]))
            offset = result.next_begin_offset
    store.close()
    return sorted(found)


class Gateway:
    """`rocketmq-gateway serve` on a directory."""

    def __init__(self, directory: Path) -> None:
        port = free_port()
        self._begun = time.monotonic()
        self._process = subprocess.Popen(
            [
                *(*gateway_command(), "serve", "--data", str(directory)),
                *("--port", str(port), "--nameserver-port", str(free_port())),
                *("--set", "flushDiskType=ASYNC_FLUSH", "--set", "gateway.diskMeasuredBytes=0"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready"), line
        self.started_s = time.monotonic() - self._begun

    def memory_bytes(self) -> int:
        """Anonymous memory: what is the process's own."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+)", status)
        assert found
        return int(found[1]) * 1024

    def cpu_s(self) -> float:
        """Processor time so far."""
        return cpu_s(self._process.pid)

    def stop(self) -> None:
        """Stop the server in an orderly way."""
        self._process.terminate()
        assert self._process.wait(60) == 0


def measure(root: Path, count: int) -> Iterator[Row]:
    """The rows of the table."""
    empty = Gateway(root / "empty")
    pause(1)
    empty_bytes, empty_s = empty.memory_bytes(), empty.started_s
    empty.stop()
    with get_context("fork").Pool(1) as pool:
        first_ms = pool.apply(fill, (root / "full", count, LEAD_S + 2 * empty_s))
    gateway = Gateway(root / "full")
    yield Row(f"start with {count:,} waiting ({empty_s:.1f} s without)", f"{gateway.started_s:.1f} s", "", True)
    pause(max(0.0, first_ms / 1000 - now_ms() / 1000))
    begun_s = gateway.cpu_s()
    pause(MEASURED_S)
    busy = (gateway.cpu_s() - begun_s) / MEASURED_S
    pause(8)
    begun_s = gateway.cpu_s()
    pause(IDLE_S)
    idle = (gateway.cpu_s() - begun_s) / IDLE_S
    each = (gateway.memory_bytes() - empty_bytes) / count
    gateway.stop()
    yield Row("memory of each that waits", f"{each:.1f} bytes", "≤ 64", each <= 64)
    yield Row(f"processor for {MEASURED // MEASURED_S:,} deliveries a second", f"{busy:.2f} core", "", True)
    yield Row("processor when none is due", f"{idle:.3f} core", "< 0.05 core", idle < 0.05)
    for topic, wanted in (("near", MEASURED), ("burst", BURST)):
        late = late_ms(root / "full", topic)
        yield Row(f"{topic}: delivered, of {wanted:,}", f"{len(late):,}", "all, once", len(late) == wanted)
        yield Row(f"{topic}: late, p50", f"{late[len(late) // 2]} ms", "", True)
        p99 = late[len(late) * 99 // 100]
        yield Row(f"{topic}: late, p99", f"{p99} ms", "≤ 100 ms", p99 <= 100)
        yield Row(f"{topic}: late, at most; earliest", f"{late[-1]}; {late[0]} ms", "never early", late[0] >= 0)


def main() -> None:
    """Parse the command line, measure, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timer", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT, help="messages that wait")
    parser.add_argument("--directory", type=Path, help="where the store is made")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="timer-", dir=options.directory))
    try:
        for row in measure(root, options.count):
            print(row, flush=True)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
