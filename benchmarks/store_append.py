"""The question: what one message costs in the store alone, by batch size, with and without a real disk sync.

No Java, no sockets, no reactor: run it as ``python -m benchmarks.store_append``. It prints one table; "CPU µs" is the
processor time of append, write, dispatch, key index and callback together, per message.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gateway.clock import wall_clock_ms
from gateway.settings.store import StoreSettings
from gateway.store.disk.files import FileLayer
from gateway.store.durability.surroundings import StoreSurroundings
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus
from wire.message.record import OutgoingMessage

BODY = b"x" * 128
QUEUES = 8
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
BATCHES = (1, 16, 64, 1000)
LEAST_SECONDS = 1.0


class UnsyncedFiles(FileLayer):
    """Files whose sync does nothing: what is left is the program's own work."""

    def fdatasync(self, fd: int) -> None:
        """Pretend."""


class Turns:
    """A reactor turn by hand: one batch per ``run``."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def soon(self, function: Callable[[], None]) -> None:
        """Keep until ``run``."""
        self._waiting.append(function)

    def run(self) -> None:
        """Do what was asked for, and what that asks for."""
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            for function in waiting:
                function()


def build_messages(count: int) -> list[OutgoingMessage]:
    """Messages as a stock Java producer sends them: a unique key and a tag, eight queues in turn."""
    messages = []
    for number in range(count):
        key = f"7F0000010000{18_000_000 + number:020X}"
        properties = f"UNIQ_KEY\x01{key}\x02TAGS\x01TagA\x02WAIT\x01true\x02".encode()
        found = {"UNIQ_KEY": key, "TAGS": "TagA", "WAIT": "true"}
        messages.append(
            OutgoingMessage("Bench", number % QUEUES, 0, 0, wall_clock_ms(), HOST, HOST, 0, 0, BODY, properties, found)
        )
    return messages


def measure(batch: int, files: FileLayer, directory: Path, settings: StoreSettings) -> tuple[float, float]:
    """(messages a second, processor µs a message) of appending in batches of one size."""
    turns = Turns()
    store = MessageStore(directory, settings, StoreSurroundings(clock_ms=wall_clock_ms, files=files, soon=turns.soon))
    store.open()
    messages = build_messages(batch)
    stored = 0

    def on_stored(result: PutResult) -> None:
        nonlocal stored
        if result.status is PutStatus.PUT_OK:
            stored += 1

    appended = 0
    cpu, begin = time.process_time(), time.perf_counter()
    while (took := time.perf_counter() - begin) < LEAST_SECONDS:
        for message in messages:
            store.append(message, on_stored)
        turns.run()
        appended += batch
    cpu = time.process_time() - cpu
    store.close()
    if stored != appended:
        raise RuntimeError(f"{appended} messages appended, {stored} stored")
    return appended / took, cpu / appended * 1e6


def main() -> None:
    """Print the table; an argument names the directory, and thereby the disk, to measure on."""
    where = sys.argv[1] if len(sys.argv) > 1 else None
    print(f"{'sync':<8}{'index':<8}{'batch':>6}{'messages/s':>14}{'CPU µs':>9}")
    for name, files in (("none", UnsyncedFiles()), ("real", FileLayer())):
        for with_index in (True, False):
            settings = StoreSettings(message_index_enable=with_index)
            for batch in BATCHES:
                directory = Path(tempfile.mkdtemp(prefix="store-append-", dir=where))
                try:
                    rate, cpu_us = measure(batch, files, directory, settings)
                finally:
                    shutil.rmtree(directory)
                index = "yes" if with_index else "no"
                print(f"{name:<8}{index:<8}{batch:>6}{rate:>14,.0f}{cpu_us:>9.2f}")


if __name__ == "__main__":
    main()
