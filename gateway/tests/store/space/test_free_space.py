"""A small disk: what is appended between two looks at it counts, and room is left for what is no message."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.settings.store import FlushDiskType, StoreSettings
from gateway.store.disk.files import Buffer, DiskSpace
from gateway.store.put_result import PutStatus
from gateway.tests.store.small_store import ASYNC, SMALL, START_MS, Disk, Executor, message, opened, put, put_all
from wire.message.record import OutgoingMessage

KIB = 1024
MIB = 1024 * KIB
PAGE_BYTES = 4 * KIB
CAPACITY = 16 * MIB
REFUSED_BELOW = CAPACITY // 10
BODY = bytes(60_000)
TIGHT = replace(SMALL, mapped_file_size_commit_log=2 * MIB, max_message_size=MIB, max_hash_slot_num=100_000)


class TightDisk(Disk):
    """A disk of ``CAPACITY`` bytes, of which each page that is written takes its part."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: set[tuple[Path, int]] = set()
        self.overruns = 0

    @property
    def free_bytes(self) -> int:
        return CAPACITY - len(self.pages) * PAGE_BYTES

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        self._take(fd, offset, len(data))
        super().pwrite(fd, data, offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
        self._take(fd, offset, sum(map(len, buffers)))
        super().pwritev(fd, buffers, offset)

    def _take(self, fd: int, offset: int, count: int) -> None:
        path = self.open_fds[fd]
        self.pages |= {(path, page) for page in range(offset // PAGE_BYTES, (offset + count - 1) // PAGE_BYTES + 1)}
        if self.free_bytes < 0:
            self.overruns += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.pages = {(of, page) for of, page in self.pages if of != path}

    def disk_space(self, path: Path) -> DiskSpace:
        del path
        return DiskSpace(CAPACITY, max(self.free_bytes, 0))


@pytest.mark.parametrize("settings", [TIGHT, replace(TIGHT, flush_disk_type=FlushDiskType.ASYNC_FLUSH)])
def test_point_8_what_is_appended_between_two_looks_counts(tmp_path: Path, settings: StoreSettings) -> None:
    disk = TightDisk()
    store = opened(tmp_path, settings, disk=disk)
    taken = [put(store, message(BODY, KEYS=f"k{number}")).status for number in range(400)].count(PutStatus.PUT_OK)
    assert 200 < taken <= 251
    assert disk.overruns == 0
    assert disk.free_bytes > REFUSED_BELOW - len(BODY) - 300 * KIB  # zeros ahead of the log
    assert store.refusal is not None
    assert "messages are refused below 1638 KiB (diskSpaceWarningLevelRatio 90 %)" in store.refusal
    assert store.flush()
    store.delete_expired(START_MS + 400 * 86_400_000)
    assert put(store, BODY).status is PutStatus.PUT_OK


def test_point_8_tables_that_need_more_room_keep_it(tmp_path: Path) -> None:
    disk = TightDisk()
    store = opened(tmp_path, TIGHT, disk=disk)
    store.deletion.reserved_bytes = lambda: 6 * MIB
    store.look_at_space(store.deletion.look())
    while put(store, BODY).status is PutStatus.PUT_OK:
        continue
    assert disk.free_bytes > 6 * MIB - len(BODY) - 300 * KIB
    assert "below 6144 KiB (topics, groups and offsets are written anew as a whole)" in str(store.refusal)
    assert put_all(store, [message(b"a"), message(b"b")])[0].status is PutStatus.SERVICE_NOT_AVAILABLE


def test_point_8_a_key_index_that_finds_no_room_is_made_anew_by_the_next_start(tmp_path: Path) -> None:
    disk = TightDisk()
    store = opened(tmp_path, TIGHT, disk=disk)
    put(store, message(b"found", KEYS="key"))
    store.deletion.reserved_bytes = lambda: CAPACITY
    store.query_by_key("T", "key", 1, 0, 1 << 60)
    written = {path for path, _ in disk.pages}
    assert store.flush()
    assert store.close()
    assert not any(path.parent.name == "index" for path, _ in disk.pages if path not in written)
    assert [found.body for found in opened(tmp_path, TIGHT).query_by_key("T", "key", 1, 0, 1 << 60)] == [b"found"]


def test_point_8_senders_wait_for_no_more_than_the_look_that_is_due(tmp_path: Path) -> None:
    executor, disk = Executor(), TightDisk()
    settings = replace(ASYNC, mapped_file_size_commit_log=2 * MIB, max_message_size=MIB)
    store = opened(tmp_path, settings, disk=disk, soon=executor.soon, in_thread=executor.in_thread)
    told: list[PutStatus] = []

    def send(outgoing: OutgoingMessage) -> None:
        store.append(outgoing, lambda result: told.append(result.status))

    while PutStatus.SERVICE_NOT_AVAILABLE not in told:
        send(message(BODY))
        executor.run_turn()  # while the threads are slow
        assert len(told) < 400
    assert disk.overruns == 0
    assert "it is looked at now" in str(store.refusal)
    for path, page in list(disk.pages):  # somebody deletes files
        if page % 2:
            disk.pages.discard((path, page))
    executor.run()
    assert store.refusal is None
    send(message(BODY))
    executor.run()
    assert told[-1] is PutStatus.PUT_OK
