"""The head and the properties of a message are read without its body."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.message_store import MessageStore
from gateway.store.queues.extended_units import NotInMemory
from gateway.tests.store.small_store import SMALL, Disk, message, opened, put

LARGE = replace(SMALL, mapped_file_size_commit_log=8 << 20, max_message_size=4 << 20)
BODY = b"x" * (3 << 20)


class Counting(Disk):
    """A disk that counts the bytes that are read; those of closed files are not in memory."""

    def __init__(self, *, in_memory: bool = True) -> None:
        super().__init__()
        self.read_bytes = 0
        self.in_memory = in_memory

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        data = super().pread(fd, count, offset)
        self.read_bytes += len(data)
        return data

    def pread_now(self, fd: int, count: int, offset: int) -> bytes | None:
        return self.pread(fd, count, offset) if self.in_memory else None


def _opened_again(directory: Path, disk: Disk) -> MessageStore:
    store = opened(directory, LARGE)
    put(store, message(BODY, KEYS="k", much="p" * 30_000))
    put(store, message(b"short", KEYS="k"))
    store.close()
    return opened(directory, LARGE, disk=disk)


@pytest.mark.parametrize("is_new", [True, False])
def test_of_a_large_message_little_is_read(tmp_path: Path, is_new: bool) -> None:
    disk = Counting()
    store = opened(tmp_path, LARGE, disk=disk) if is_new else _opened_again(tmp_path, disk)
    if is_new:
        put(store, message(BODY, KEYS="k", much="p" * 30_000))
    whole = store.message_at(0)
    assert whole is not None
    for find in (store.head_at, store.head_now):
        disk.read_bytes = 0
        head = find(0)
        assert disk.read_bytes < 40_000
        assert head is not None
        assert not head.has_body
        assert (head.topic, head.property_map, head.total_size) == (whole.topic, whole.property_map, whole.total_size)
        assert (head.body_bytes, head.queue_offset, head.store_host) == (len(BODY), 0, whole.store_host)
    assert [found.body for found in store.query_by_key("T", "k", 1, 0, 1 << 60)] == [b"" if is_new else b"short"]


def test_where_no_record_starts_there_is_no_head(tmp_path: Path) -> None:
    store = _opened_again(tmp_path, Counting())
    first = store.message_at(0)
    assert first is not None
    short = store.head_at(first.total_size)
    assert short is not None
    end = first.total_size + short.total_size
    for nothing in (-1, 1, first.total_size - 1, first.total_size + 1, end, end + 100, 8 << 20, 1 << 60):
        assert store.head_at(nothing) is None
        assert store.head_now(nothing) is None


def test_a_short_message_is_read_whole_and_a_damaged_one_not_at_all(tmp_path: Path) -> None:
    store = opened(tmp_path, LARGE)
    put(store, message(b"12345"))
    store.close()
    store = opened(tmp_path, LARGE)
    head = store.head_at(0)
    assert head is not None
    assert head.body == b"12345"
    log = next((tmp_path / "commitlog").iterdir())
    data = log.read_bytes()
    with log.open("r+b") as file:
        file.seek(data.index(b"12345"))
        file.write(b"1234x")
    assert store.head_at(0) is None


def test_what_waits_for_the_disk_is_not_read_now(tmp_path: Path) -> None:
    disk = Counting(in_memory=False)
    store = _opened_again(tmp_path, disk)
    with pytest.raises(NotInMemory):
        store.head_now(0)
    assert store.head_at(0) is not None, "and its file is open from now on"
    disk.read_bytes = 0
    with pytest.raises(NotInMemory):
        store.head_now(0)
    assert disk.read_bytes == 0
