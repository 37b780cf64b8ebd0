"""The checkpoint file: marks of ours behind the times of Apache RocketMQ."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths
from gateway.store.durability.checkpoint import MARKS_AT, UNKNOWN, CheckpointFile, Marks
from gateway.store.index.index import IndexMark
from gateway.tests.left_open import left_open
from gateway.tests.store.small_store import LOG_FILE_BYTES, bodies, killed, message, opened, put, small_store
from wire.disk.checkpoint import StoreCheckpoint

MARKS = Marks(durable=1000, queues=900, index=IndexMark(800, 700, 33))


def _loaded(root: Path) -> CheckpointFile:
    checkpoint = CheckpointFile(FileLayer(), StorePaths(root))
    checkpoint.load()
    left_open(checkpoint.close)
    return checkpoint


def _saved(root: Path) -> bytes:
    checkpoint = _loaded(root)
    checkpoint.save(MARKS, log_stored_at_ms=11, queues_stored_at_ms=22)
    checkpoint.close()
    return (root / "checkpoint").read_bytes()


def test_a_new_file_knows_nothing_and_has_its_full_size(tmp_path: Path) -> None:
    checkpoint = _loaded(tmp_path)
    assert (checkpoint.marks, checkpoint.times, checkpoint.is_foreign) == (None, StoreCheckpoint(), False)
    assert (tmp_path / "checkpoint").stat().st_size == 4096


def test_marks_and_times_are_read_back(tmp_path: Path) -> None:
    _saved(tmp_path)
    checkpoint = _loaded(tmp_path)
    assert checkpoint.marks == MARKS
    assert checkpoint.times == StoreCheckpoint(11, 22, 33)
    assert not checkpoint.is_foreign


def test_a_group_commit_moves_the_durable_mark_forward_only(tmp_path: Path) -> None:
    _saved(tmp_path)
    checkpoint = _loaded(tmp_path)
    checkpoint.log_is_durable(2000, 44)
    checkpoint.log_is_durable(1500, 40)
    checkpoint.save(MARKS, log_stored_at_ms=11, queues_stored_at_ms=22)
    found = _loaded(tmp_path)
    assert found.marks is not None
    assert (found.marks.durable, found.marks.queues) == (2000, 900)
    assert found.times.log_stored_at_ms == 44


@pytest.mark.parametrize("at", [MARKS_AT, MARKS_AT + 10, MARKS_AT + 60, MARKS_AT + 75])
def test_a_flipped_bit_in_the_marks_counts_as_nothing_known(tmp_path: Path, at: int) -> None:
    data = bytearray(_saved(tmp_path))
    data[at] ^= 1
    (tmp_path / "checkpoint").write_bytes(data)
    assert _loaded(tmp_path).marks is None


def test_times_of_another_broker_make_the_marks_stale(tmp_path: Path) -> None:
    data = _saved(tmp_path)
    (tmp_path / "checkpoint").write_bytes(StoreCheckpoint(12, 22, 33).build()[:40] + data[40:])
    checkpoint = _loaded(tmp_path)
    assert (checkpoint.marks, checkpoint.is_foreign) == (None, True)


@pytest.mark.parametrize("size", [0, 7, 40, 300])
def test_a_cut_off_file_counts_as_nothing_known(tmp_path: Path, size: int) -> None:
    (tmp_path / "checkpoint").write_bytes(_saved(tmp_path)[:size])
    assert _loaded(tmp_path).marks is None


def test_after_forgetting_a_lower_mark_is_saved(tmp_path: Path) -> None:
    _saved(tmp_path)
    checkpoint = _loaded(tmp_path)
    checkpoint.forget()
    checkpoint.save(Marks(5, 5, MARKS.index), log_stored_at_ms=1, queues_stored_at_ms=1)
    assert checkpoint.marks is not None
    assert checkpoint.marks.durable == 5


def test_where_the_log_begins_is_on_disk_before_files_go(tmp_path: Path) -> None:
    _saved(tmp_path)
    checkpoint = _loaded(tmp_path)
    assert checkpoint.log_begin == UNKNOWN
    checkpoint.begin_log(500)
    assert (_loaded(tmp_path).log_begin, _loaded(tmp_path).marks) == (500, MARKS)
    checkpoint.save(MARKS, log_stored_at_ms=11, queues_stored_at_ms=22)
    assert _loaded(tmp_path).log_begin == 500


def test_another_broker_may_have_deleted_files(tmp_path: Path) -> None:
    checkpoint = _loaded(tmp_path)
    checkpoint.begin_log(500)
    checkpoint.save(MARKS, log_stored_at_ms=11, queues_stored_at_ms=22)
    data = (tmp_path / "checkpoint").read_bytes()
    (tmp_path / "checkpoint").write_bytes(StoreCheckpoint(12, 22, 33).build()[:40] + data[40:])
    assert _loaded(tmp_path).log_begin == UNKNOWN


def test_marks_without_the_begin_of_the_log_are_read(tmp_path: Path) -> None:
    data = bytearray(_saved(tmp_path))
    packed = bytes(data[MARKS_AT : MARKS_AT + 64]).replace(b"RMQGW\x00\x00\x02", b"RMQGW\x00\x00\x01")
    data[MARKS_AT : MARKS_AT + 76] = packed + zlib.crc32(packed).to_bytes(4, "big") + bytes(8)
    (tmp_path / "checkpoint").write_bytes(data)
    checkpoint = _loaded(tmp_path)
    assert (checkpoint.marks, checkpoint.log_begin) == (MARKS, UNKNOWN)


def _in_former_layout(data: bytes) -> bytes:
    """A checkpoint file as it was written before the marks had moved into its first sector."""
    return (data[:MARKS_AT].ljust(2048, b"\x00") + data[MARKS_AT:2048]).ljust(4096, b"\x00")


def test_marks_of_the_former_layout_count_as_nothing_known_and_do_not_come_back(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(_in_former_layout(_saved(tmp_path)))
    checkpoint = _loaded(tmp_path)
    assert (checkpoint.marks, checkpoint.times, checkpoint.is_foreign) == (None, StoreCheckpoint(11, 22, 33), False)
    checkpoint.save(Marks(5, 5, IndexMark(4, 3, 34)), log_stored_at_ms=12, queues_stored_at_ms=23)
    found = _loaded(tmp_path)
    assert (found.marks, found.times) == (Marks(5, 5, IndexMark(4, 3, 34)), StoreCheckpoint(12, 23, 34))


@pytest.mark.parametrize("kill", [False, True])
def test_a_store_with_marks_of_the_former_layout_opens_with_all_messages(tmp_path: Path, kill: bool) -> None:
    directory = tmp_path / "s"
    store = opened(directory)
    written = [put(store, message(b"%d" % number * 100, KEYS=f"k{number}")) for number in range(60)]
    assert written[-1].commit_log_offset > LOG_FILE_BYTES, "more than one file, so that times decide where to start"
    if kill:
        directory = killed(directory)
    else:
        store.close()
    marks = _marks(directory)
    (directory / "checkpoint").write_bytes(_in_former_layout((directory / "checkpoint").read_bytes()))
    store = small_store(directory)
    report = store.open()
    assert report.clean is not kill
    assert (report.durable_bytes_lost, report.torn_bytes) == (0, 0)
    assert bodies(store) == [b"%d" % number * 100 for number in range(60)]
    for number in (0, 30, 59):
        assert [found.queue_offset for found in store.query_by_key("T", f"k{number}", 9, 0, 1 << 60)] == [number]
    store.close()
    assert _marks(directory).durable == marks.durable


def _marks(directory: Path) -> Marks:
    checkpoint = _loaded(directory)
    checkpoint.close()
    assert checkpoint.marks is not None
    return checkpoint.marks
