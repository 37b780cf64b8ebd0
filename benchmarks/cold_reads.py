"""The question: what a read of the store costs, and how long it keeps the reactor, by where the messages are.

No Java, no sockets: run it as ``python -m benchmarks.cold_reads [directory] [MiB]``. It fills a store, drops it from
the page cache where that is asked for, and reads it as consumers that catch up do: one row for each way of reading.
"kept" is what one read keeps the caller's thread, which is the reactor's when it must not wait for the disk.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.store_append import Turns, UnsyncedFiles
from gateway.clock import wall_clock_ms
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.reading.get_result import GetStatus
from wire.message.record import OutgoingMessage

TOPIC = "Bench"
QUEUES = 8
BODY = b"x" * 900
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
HOT = (32, 262_144)
COLD = (8, 65_536)
MIB = 1 << 20


@dataclass(slots=True)
class Reading:
    """The cost of one way of reading; times in seconds."""

    messages: int = 0
    took: float = 0.0
    kept: list[float] = field(default_factory=list)
    waited: int = 0

    def row(self, name: str) -> str:
        """One line of the table."""
        kept = sorted(self.kept)
        share = 100 * self.waited / max(len(kept), 1)
        return (
            f"{name:<34}{self.messages / self.took:>12,.0f}{self.took / len(kept) * 1e6:>10.1f}"
            f"{kept[len(kept) // 2] * 1e6:>10.1f}{kept[-1] * 1e3:>10.2f}{share:>9.1f}"
        )


def fill(store: MessageStore, turns: Turns, size: int) -> None:
    """Messages of about a KiB, round the queues, until the log has a size."""
    message = [OutgoingMessage(TOPIC, queue, 0, 0, wall_clock_ms(), HOST, HOST, 0, 0, BODY) for queue in range(QUEUES)]
    while store.max_commit_log_offset < size:
        for _ in range(64):
            for each in message:
                store.append(each, lambda _: None)
        turns.run()


def drop(directory: Path) -> None:
    """Take the whole store out of the page cache."""
    for path in directory.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDWR)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def measure(store: MessageStore, places: Iterable[tuple[int, int]], *, now: bool, ahead: bool = True) -> Reading:
    """Read from (queue, offset) after (queue, offset); with an offset below 0 go on where that queue was left."""
    reading, left = Reading(), dict.fromkeys(range(QUEUES), 0)
    begin = time.perf_counter()
    for queue, asked in places:
        offset = left[queue] if asked < 0 else asked
        start = time.perf_counter()
        result = (
            store.get_messages_now(TOPIC, queue, offset, *HOT)
            if now
            else store.get_messages(TOPIC, queue, offset, *HOT)
        )
        reading.kept.append(time.perf_counter() - start)
        if result is None:  # what the broker does in a thread
            reading.waited += 1
            result = store.get_messages(TOPIC, queue, offset, *COLD)
            if ahead:
                store.read_ahead(TOPIC, queue, result.next_begin_offset)
        if result.status is GetStatus.FOUND:
            reading.messages += result.count
            left[queue] = result.next_begin_offset
    reading.took = time.perf_counter() - begin
    return reading


def main() -> None:
    """Print the table; arguments name the directory, and thereby the disk, and the size of the log in MiB."""
    where = sys.argv[1] if len(sys.argv) > 1 else None
    size = int(sys.argv[2]) * MIB if len(sys.argv) > 2 else 512 * MIB
    directory = Path(tempfile.mkdtemp(prefix="cold-reads-", dir=where))
    settings = StoreSettings(flush_disk_type=FlushDiskType.ASYNC_FLUSH, message_index_enable=False)
    try:
        turns = Turns()
        store = MessageStore(
            directory, settings, StoreSurroundings(clock_ms=wall_clock_ms, files=UnsyncedFiles(), soon=turns.soon)
        )
        store.open()
        fill(store, turns, size)
        store.close()
        compare(directory, settings)
    finally:
        shutil.rmtree(directory)


def compare(directory: Path, settings: StoreSettings) -> None:
    """One row for each way of reading, each from a store opened anew."""
    print(f"{'reads':<34}{'messages/s':>12}{'µs each':>10}{'kept µs':>10}{'most ms':>10}{'waited %':>9}")

    def row(name: str, places: Callable[[int], list[tuple[int, int]]], *, cold: bool, **how: bool) -> None:
        store = MessageStore(directory, settings, StoreSurroundings(clock_ms=wall_clock_ms))
        store.open()
        store.get_messages(TOPIC, 0, 0, 1, 1)
        end = store.max_offset(TOPIC, 0)
        chosen = places(end)
        if cold:
            drop(directory)
        print(measure(store, chosen, **how).row(name))
        store.close()

    def in_order(end: int) -> list[tuple[int, int]]:
        return [(queue, -1) for _ in range(min(end, 48_000) // 32) for queue in range(QUEUES)]

    def anywhere(end: int) -> list[tuple[int, int]]:
        chance = random.Random(1)
        return [(chance.randrange(QUEUES), chance.randrange(end - 32)) for _ in range(2_000)]

    for name, places in (("in order", in_order), ("anywhere", anywhere)):
        row(f"{name}, in memory, may wait", places, cold=False, now=False)
        row(f"{name}, in memory, now", places, cold=False, now=True)
        row(f"{name}, from disk, may wait", places, cold=True, now=False)
        row(f"{name}, from disk, now", places, cold=True, now=True)
        row(f"{name}, from disk, now, no ahead", places, cold=True, now=True, ahead=False)


if __name__ == "__main__":
    main()
