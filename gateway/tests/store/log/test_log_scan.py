"""Walking through the log, and finding the next intact record behind damage."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.store.disk.files import FileLayer
from gateway.store.log.log_scan import LogScan, is_record_at, next_record
from gateway.store.put_result import PutResult
from gateway.tests.store.small_store import LOG_FILE_BYTES, SMALL, log_file, message, opened, overwrite, put

LARGE = replace(SMALL, mapped_file_size_commit_log=4 << 20, max_message_size=2 << 20)
MEMORY = Path("/dev/shm")
"""A tmpfs, where touching a hole through a map takes room, and kills the process when there is none."""


def _results(directory: Path, count: int) -> tuple[list[PutResult], LogScan]:
    store = opened(directory)
    results = [put(store, message(b"%d" % number * 900)) for number in range(count)]
    return results, LogScan(store._log.files, 0)


def test_a_scan_passes_fillers_and_ends_where_nothing_is_written(tmp_path: Path) -> None:
    results, scan = _results(tmp_path, 20)
    assert [found.commit_log_offset for found in scan] == [result.commit_log_offset for result in results]
    assert results[-1].commit_log_offset > LOG_FILE_BYTES
    assert (scan.end, scan.problem) == (results[-1].commit_log_offset + results[-1].size, "")


def test_a_scan_stops_at_its_limit(tmp_path: Path) -> None:
    results, scan = _results(tmp_path, 5)
    limited = LogScan(scan._files, results[1].commit_log_offset, results[3].commit_log_offset)
    assert len(list(limited)) == 2
    assert (limited.end, limited.problem) == (results[3].commit_log_offset, None)


def test_a_record_at_another_place_than_it_says_is_damage(tmp_path: Path) -> None:
    results, scan = _results(tmp_path, 3)
    first = log_file(tmp_path).read_bytes()[: results[0].size]
    overwrite(log_file(tmp_path), results[2].commit_log_offset, first)
    assert len(list(scan)) == 2
    assert scan.problem == f"the record says it lies at 0, found at {results[2].commit_log_offset}"
    assert not is_record_at(scan._files, results[2].commit_log_offset)


def test_the_next_record_behind_damage_is_found_also_in_the_next_file(tmp_path: Path) -> None:
    results, scan = _results(tmp_path, 12)
    files = scan._files
    assert next_record(files, results[2].commit_log_offset + 1) == results[3].commit_log_offset
    last_in_first = max(result.commit_log_offset for result in results if result.commit_log_offset < LOG_FILE_BYTES)
    assert next_record(files, last_in_first) == LOG_FILE_BYTES
    assert next_record(files, results[-1].commit_log_offset) is None


def test_a_body_that_looks_like_a_record_is_none(tmp_path: Path) -> None:
    store = opened(tmp_path)
    inner = store.record_at(put(store, b"inner").commit_log_offset)
    assert inner is not None
    put(store, message(inner * 3))
    last = put(store, b"last")
    assert next_record(store._log.files, 0) is not None
    assert next_record(store._log.files, len(inner)) == last.commit_log_offset


def test_records_larger_than_what_is_read_at_once_are_walked_and_found(tmp_path: Path) -> None:
    store = opened(tmp_path, LARGE)
    results = [put(store, message(b"x" * size)) for size in (10, 65_000, 70_000, 1_200_000, 10)]
    files = store._log.files
    scan = LogScan(files, 0)
    assert [found.commit_log_offset for found in scan] == [result.commit_log_offset for result in results]
    assert [next_record(files, result.commit_log_offset) for result in results[:-1]] == [
        result.commit_log_offset for result in results[1:]
    ]


@pytest.mark.parametrize("split", range(-3, 12))
def test_a_record_is_found_wherever_a_chunk_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: int) -> None:
    results, scan = _results(tmp_path, 3)
    monkeypatch.setattr("gateway.store.log.log_scan._CHUNK_BYTES", results[0].size - 1 + split)
    assert next_record(scan._files, 0) == results[1].commit_log_offset


def test_a_record_that_reaches_beyond_its_file_is_cut_off_by_the_end_of_the_file(tmp_path: Path) -> None:
    results, scan = _results(tmp_path, 3)
    at = results[1].commit_log_offset
    overwrite(log_file(tmp_path), at, (LOG_FILE_BYTES * 2).to_bytes(4, "big"))
    assert len(list(scan)) == 1
    assert scan.problem == f"cut off: {LOG_FILE_BYTES - at} bytes left of {LOG_FILE_BYTES * 2}"


def test_what_was_never_written_takes_no_room_when_it_is_looked_at() -> None:
    if not os.access(MEMORY, os.W_OK):
        pytest.skip("there is no tmpfs")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        results, scan = _results(Path(folder), 2)
        before = log_file(Path(folder)).stat().st_blocks
        assert len(list(scan)) == 2
        assert next_record(scan._files, results[-1].commit_log_offset) is None
        assert log_file(Path(folder)).stat().st_blocks == before


def test_a_disk_that_cannot_be_read_is_an_error_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, scan = _results(tmp_path, 2)

    def broken(files: FileLayer, fd: int, count: int, position: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(FileLayer, "pread", broken)
    with pytest.raises(OSError, match=r"Input/output error at byte 0: '.*commitlog/0{20}'"):
        list(scan)
