"""A store with tiny files, a clock and executors driven by hand, and a disk that fails on demand."""

from __future__ import annotations

import errno
import os
import shutil
from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock as TaskClock

from gateway.in_thread import Failed, InThread, Soon, in_this_thread
from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.disk.files import Buffer, DiskSpace, FileLayer
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.durability.surroundings import (
    BatchObserver,
    Cancel,
    Later,
    StoreSurroundings,
    at_once,
    never,
    no_stage,
)
from gateway.store.errors import DiskFull, WriteFailed
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult
from gateway.store.reading.get_result import GetStatus
from wire.message.record import OutgoingMessage, StoredMessage, parse_records

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
LOG_FILE_BYTES = 8192
START_MS = 1_700_000_000_000
SMALL = StoreSettings(
    mapped_file_size_commit_log=LOG_FILE_BYTES,
    mapped_file_size_consume_queue=200,  # ten units
    max_hash_slot_num=16,
    max_index_num=64,
    max_message_size=4096,
    file_ahead_bytes=0,
)
ASYNC = replace(SMALL, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
GIB = 1024**3


class Clock:
    """Epoch milliseconds that pass when told to."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class Executor:
    """Runs nothing until told to."""

    def __init__(self) -> None:
        self.turn: deque[Callable[[], None]] = deque()
        self.threads: deque[tuple[Callable[[], object], Callable[[Any], None]]] = deque()

    def soon(self, function: Callable[[], None]) -> None:
        self.turn.append(function)

    def in_thread(self, work: Callable[[], object], on_result: Callable[[Any], None]) -> None:
        self.threads.append((work, on_result))

    def run_turn(self) -> None:
        for _ in range(len(self.turn)):
            self.turn.popleft()()

    def work(self) -> Callable[[], None]:
        """Do the oldest blocking work; returns what tells the reactor's thread of it."""
        work, on_result = self.threads.popleft()
        result: object
        try:
            result = work()
        except (OSError, DiskFull, WriteFailed) as error:
            result = Failed(error)
        return lambda: on_result(result)

    def run(self) -> None:
        while self.turn or self.threads:
            self.run_turn()
            if self.threads:
                self.work()()


def later_by(clock: TaskClock) -> Later:
    """``Later`` by a clock that is moved by hand."""

    def later(delay_ms: int, function: Callable[[], None]) -> Cancel:
        return clock.callLater(delay_ms / 1000, function).cancel

    return later


class Disk(FileLayer):
    """Real files, with faults: ``fault`` is asked before every change and may raise; ``open_fds`` are counted.

    ``on_open`` is called while a file is being opened.
    """

    def __init__(self, fault: Callable[[str, Path], None] | None = None) -> None:
        self.fault = fault
        self.space = DiskSpace(100 * GIB, 90 * GIB)
        self.calls: list[tuple[str, Path]] = []
        self.open_fds: dict[int, Path] = {}
        self.most_open = 0
        self.on_open: Callable[[Path], None] | None = None

    def fail(self, operation: str, part: str, number: int = errno.EIO) -> None:
        """From now on an operation on paths that contain ``part`` fails."""

        def fault(called: str, path: Path) -> None:
            if called == operation and part in str(path):
                raise OSError(number, os.strerror(number), str(path))

        self.fault = fault

    def _ask(self, operation: str, path: Path) -> None:
        self.calls.append((operation, path))
        if self.fault is not None:
            self.fault(operation, path)

    def open(self, path: Path, *, create: bool = False) -> int:
        if create:
            self._ask("create", path)
        fd = super().open(path, create=create)
        if self.on_open is not None:
            self.on_open(path)
        self.open_fds[fd] = path
        self.most_open = max(self.most_open, len(self.open_fds))
        return fd

    def close(self, fd: int) -> None:
        self.open_fds.pop(fd, None)
        super().close(fd)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        self._ask("write", self.open_fds[fd])
        super().pwrite(fd, data, offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
        self._ask("write", self.open_fds[fd])
        super().pwritev(fd, buffers, offset)

    def truncate(self, fd: int, size: int) -> None:
        self._ask("truncate", self.open_fds[fd])
        super().truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self._ask("sync", self.open_fds[fd])

    def fsync_directory(self, path: Path) -> None:
        self._ask("sync", path)

    def unlink(self, path: Path) -> None:
        self._ask("unlink", path)
        super().unlink(path)

    def disk_space(self, path: Path) -> DiskSpace:
        return self.space


def message(
    body: bytes = b"body",
    *,
    topic: str = "T",
    queue_id: int = 0,
    sys_flag: int = 0,
    **properties: str,
) -> OutgoingMessage:
    packed = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    return OutgoingMessage(topic, queue_id, 0, sys_flag, START_MS, HOST, HOST, 0, 0, body, packed)


def small_store(
    directory: Path,
    settings: StoreSettings = SMALL,
    *,
    clock: Clock | None = None,
    disk: FileLayer | None = None,
    soon: Soon = at_once,
    in_thread: InThread = in_this_thread,
    later: Later = never,
    stage: Callable[[BatchObserver], BatchObserver] = no_stage,
    delay_of: Callable[[int], int | None] | None = None,
    topics: Callable[[], Container[str] | None] = lambda: None,
) -> MessageStore:
    return MessageStore(
        directory,
        settings,
        StoreSurroundings(
            clock_ms=clock or Clock(),
            files=disk or Disk(),
            soon=soon,
            in_log_thread=in_thread,
            later=later,
            stage=stage,
        ),
        delay_of=delay_of,
        topics=topics,
    )


def opened(directory: Path, settings: StoreSettings = SMALL, **others: object) -> MessageStore:
    store = small_store(directory, settings, **others)  # type: ignore[arg-type]
    store.open()
    return store


def put(store: MessageStore, outgoing: OutgoingMessage | bytes) -> PutResult:
    """Append one message, with executors that run at once."""
    results: list[PutResult] = []
    store.append(message(outgoing) if isinstance(outgoing, bytes) else outgoing, results.append)
    (result,) = results
    return result


def put_all(store: MessageStore, messages: Sequence[OutgoingMessage]) -> list[PutResult]:
    told: list[list[PutResult]] = []
    store.append_all(messages, told.append)
    (results,) = told
    return results


def read_all(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
    """Every message of a queue, read as a consumer does."""
    found: list[StoredMessage] = []
    offset = max(store.min_offset(topic, queue_id), 0)
    while (result := store.get_messages(topic, queue_id, offset, 7, 1 << 20)).status is GetStatus.FOUND:
        found += parse_records(b"".join(result.parts))
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
    assert result.status in (
        GetStatus.OFFSET_OVERFLOW_ONE,
        GetStatus.NO_MESSAGE_IN_QUEUE,
        GetStatus.NO_MATCHED_LOGIC_QUEUE,
    ), result
    return found


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [found.body for found in read_all(store, topic, queue_id)]


def killed(directory: Path, number: int = 0) -> Path:
    """Return a copy of the directory as it is now, which is what a kill of the process leaves."""
    copy = directory.with_name(f"{directory.name}-killed-{number}")
    shutil.copytree(directory, copy)
    return copy


def content(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def log_file(directory: Path, start: int = 0) -> Path:
    return directory / "commitlog" / f"{start:020d}"


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def remove_first(files: MappedFileQueue) -> MappedFile:
    """Delete the oldest file, as retention does."""
    file = files.take_first()
    file.path.unlink()
    return file
