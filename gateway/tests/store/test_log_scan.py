"""Walking through the log, and finding the next intact record behind damage."""

from __future__ import annotations

from pathlib import Path

from gateway.store.log_scan import LogScan, is_record_at, next_record
from gateway.store.put_result import PutResult
from gateway.tests.store.small_store import LOG_FILE_BYTES, log_file, message, opened, overwrite, put


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
    assert scan.problem == "the record says it lies at 0"
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
