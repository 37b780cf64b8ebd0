"""The timer checkpoint: what it says comes back, and another broker's writing is noticed."""

from __future__ import annotations

from pathlib import Path

from gateway.schedule.timer_check import MARKS_AT, TimerCheckFile, TimerMarks
from gateway.store.disk.files import FileLayer
from wire.disk.timer_checkpoint import TimerCheckpoint

MARKS = TimerMarks(read_to_ms=5_000, scan_from=77, log_end=104, queue_offset=2, waits_from=52)


def check(path: Path) -> TimerCheckFile:
    return TimerCheckFile(FileLayer(), path / "config" / "timercheck")


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    assert check(tmp_path).load() == TimerMarks(is_foreign=True)
    file = check(tmp_path)
    file.save(MARKS, 9)
    file.save(MARKS, 10)
    assert check(tmp_path).load() == MARKS
    assert file.newest == TimerCheckpoint(5_000, 104, 2, 2, 0, 10, 2)
    assert (tmp_path / "config" / "timercheck").stat().st_size == 4096


def test_after_another_broker_only_its_values_count(tmp_path: Path) -> None:
    check(tmp_path).save(MARKS, 9)
    path = tmp_path / "config" / "timercheck"
    other = TimerCheckpoint(8_000, 208, 4, 4).build()
    path.write_bytes(other + path.read_bytes()[len(other) :])
    assert check(tmp_path).load() == TimerMarks(read_to_ms=8_000, log_end=208, queue_offset=4, is_foreign=True)


def test_damaged_marks_are_not_believed(tmp_path: Path) -> None:
    check(tmp_path).save(MARKS, 9)
    path = tmp_path / "config" / "timercheck"
    data = bytearray(path.read_bytes())
    data[MARKS_AT + 70] ^= 1
    path.write_bytes(data)
    assert check(tmp_path).load().is_foreign


def test_a_file_that_a_crash_left_empty_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    for content in (b"", bytes(4096)):
        (tmp_path / "config" / "timercheck").write_bytes(content)
        assert check(tmp_path).load() == TimerMarks(is_foreign=True)
    check(tmp_path).save(MARKS, 9)
    assert check(tmp_path).load() == MARKS
