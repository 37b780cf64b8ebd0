"""One reading of the log: chunks, odd records, and what does not fit into memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.log.log_scan import LogScan
from gateway.store.log.log_walk import LogWalk
from gateway.tests.store.small_store import bodies, killed, log_file, message, opened, overwrite, put, small_store
from wire.disk.consume_queue import UNIT_BYTES
from wire.disk.unit_collector import UnitCollector
from wire.message.tags import tags_code


def _walk(directory: Path, *, max_units: int = 1000, limit: int | None = None) -> tuple[LogWalk, LogScan]:
    store = opened(directory)
    for number in range(40):
        put(store, message(b"%d" % number * (number * 30), queue_id=number % 3, TAGS="x"))
    collector = UnitCollector(unit_code=lambda topic, properties, _: tags_code(properties.get("TAGS")))
    files = store._log.files
    return LogWalk(files, 0, limit, collector, max_units=max_units), LogScan(files, 0, limit)


@pytest.mark.parametrize("chunk", [1, 100, 1000, 5000, 1 << 20])
def test_a_walk_ends_where_a_scan_ends_whatever_it_reads_at_a_time(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.log.log_walk.CHUNK_BYTES", chunk)
    walk, scan = _walk(tmp_path)
    told: list[int] = []
    walk.run(told.append)
    found = [message.commit_log_offset for message in scan]
    assert (walk.end, walk.problem, walk.collected_end) == (scan.end, scan.problem, scan.end)
    assert (walk.collector.records, walk.collector.units) == (len(found), 40)
    assert told == sorted(told)
    assert [queue.runs[0][0] for queue in walk.collector.queues()] == [0, 0, 0]


def test_a_walk_says_what_is_wrong_in_the_words_of_the_scan(tmp_path: Path) -> None:
    walk, scan = _walk(tmp_path)
    overwrite(log_file(tmp_path, 8192), 4, b"\x00\x00\x00\x01")
    walk.run()
    list(scan)
    assert (walk.end, walk.problem) == (8192, "unknown magic 0x00000001") == (scan.end, scan.problem)


def test_a_full_walk_goes_on_judging_or_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.log.log_walk.CHUNK_BYTES", 3000)
    walk, scan = _walk(tmp_path, max_units=10)
    list(scan)
    walk.run()
    assert walk.end == scan.end
    assert 10 <= walk.collector.units < 40
    assert 0 < walk.collected_end < walk.end
    again = LogWalk(walk._files, walk.collected_end, walk.end, UnitCollector(unit_code=lambda *_: 0), max_units=10)
    again.run(stop_when_full=True)
    assert walk.collected_end < again.collected_end == again.end < walk.end


def test_a_log_with_more_units_than_memory_allows_is_recovered_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.log.log_walk.CHUNK_BYTES", 1000)
    store = opened(tmp_path / "s")
    for number in range(60):
        put(store, message(b"%d" % number * 50, queue_id=number % 2))
    directory = killed(tmp_path / "s")
    (directory / "checkpoint").unlink()
    monkeypatch.setattr("gateway.store.recovery.recovery.MAX_COLLECTED_UNITS", 7)
    store = small_store(directory)
    report = store.open()
    assert (report.records, report.units) == (60, 60)
    assert bodies(store, queue_id=1) == [b"%d" % number * 50 for number in range(1, 60, 2)]
    size = sum(path.stat().st_size for path in (directory / "consumequeue" / "T" / "0").iterdir())
    assert size == 600 == 30 * UNIT_BYTES
