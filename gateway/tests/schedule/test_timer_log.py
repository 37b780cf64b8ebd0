"""The timer log: entries over several files, chains of a slot, what a start cuts off."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gateway.schedule import timer_log
from gateway.schedule.timer_log import TimerEntry, TimerLog
from gateway.store.disk.files import FileLayer
from gateway.tests.crash.disk.image import Crash, Moment
from gateway.tests.crash.disk.recording import RecordingFiles
from gateway.tests.crash.exploration import FRESH
from wire.disk.timer_log import ENTRY_BYTES, NONE

FILE_BYTES = 520
"""Room for nine entries and the end mark."""


@pytest.fixture
def log(tmp_path: Path) -> TimerLog:
    made = TimerLog(FileLayer(), tmp_path / "timerlog", FILE_BYTES)
    made.load()
    return made


def entry(number: int, previous: int = NONE) -> TimerEntry:
    return TimerEntry(52, previous, 1, 1_000, 2_000, 100 * number, 50, 0, 3_000 + number)


def append(log: TimerLog, count: int, *, chained: bool = True) -> list[int]:
    positions: list[int] = []
    for number in range(count):
        positions.append(log.append(entry(number, positions[-1] if positions and chained else NONE)))
    log.write_all()
    return positions


def offsets(log: TimerLog, position: int) -> list[int]:
    return [each.commit_log_offset for each in log.chain(position)]


def test_entries_are_found_again_over_the_ends_of_files(log: TimerLog, tmp_path: Path) -> None:
    positions = append(log, 30)
    assert positions[:10] == [*range(0, 9 * ENTRY_BYTES, ENTRY_BYTES), FILE_BYTES]
    assert [path.stat().st_size for path in sorted((tmp_path / "timerlog").iterdir())][:3] == [FILE_BYTES] * 3
    again = TimerLog(FileLayer(), tmp_path / "timerlog", FILE_BYTES)
    again.load()
    found = list(again.entries(0))
    assert [position for position, _ in found] == positions
    assert [each.commit_log_offset for _, each in found] == [100 * number for number in range(30)]
    assert [position for position, _ in again.entries(positions[5], positions[12])] == positions[5:12]


def test_a_chain_goes_from_the_newest_to_the_oldest(log: TimerLog) -> None:
    positions = append(log, 30)
    assert offsets(log, positions[-1]) == [100 * number for number in reversed(range(30))]
    assert offsets(log, positions[3]) == [300, 200, 100, 0]
    assert offsets(log, NONE) == []
    assert log.entry_at(positions[7]) == entry(7, positions[6])


def test_entries_that_wait_for_their_file_are_written_when_it_is_there(log: TimerLog) -> None:
    position = log.append(entry(1))
    assert not log.write()
    assert (log.written, log.end) == (0, ENTRY_BYTES)
    assert [each.commit_log_offset for each in log.chain(position, log.unwritten())] == [100], "its slot may open now"
    missing = log.missing_file()
    assert missing is not None
    log.make(missing)
    assert log.write()
    assert offsets(log, position) == [100]


def test_what_waits_for_a_file_has_a_limit(log: TimerLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_log, "MAX_UNWRITTEN_BYTES", 3 * ENTRY_BYTES)
    for number in range(3):
        assert not log.is_full
        log.append(entry(number))
    assert log.is_full
    log.write_all()
    assert not log.is_full


def test_a_chain_goes_on_from_what_waits_into_the_files(log: TimerLog) -> None:
    positions = append(log, 3)
    positions.append(log.append(entry(3, positions[-1])))
    assert [each.commit_log_offset for each in log.chain(positions[-1], log.unwritten())] == [300, 200, 100, 0]
    assert [each.commit_log_offset for each in log.chain(positions[1], log.unwritten())] == [100, 0]


def test_a_start_cuts_what_it_does_not_trust(log: TimerLog, tmp_path: Path) -> None:
    positions = append(log, 30)
    again = TimerLog(FileLayer(), tmp_path / "timerlog", FILE_BYTES)
    again.load()
    again.cut(positions[12])
    assert [position for position, _ in again.entries(0)] == positions[:12]
    assert again.append(entry(99)) == positions[12]
    assert again.write()
    assert [position for position, _ in again.entries(0)] == positions[:13]


def test_what_was_synced_is_there_after_a_power_failure_however_many_files_it_filled() -> None:
    files = RecordingFiles(FRESH, lambda: 0)
    directory = Path("/data/timerlog")
    log = TimerLog(files, directory, FILE_BYTES)
    log.load()
    append(log, 5)
    log.sync(log.end)
    append(log, 40)
    log.sync(log.end)
    moment = Moment(FRESH)
    for change in files.changes:
        moment.pass_over(change)
    again = TimerLog(
        RecordingFiles(moment.image(moment.choice(Crash.NOTHING, Random(1))), lambda: 0), directory, FILE_BYTES
    )
    again.load()
    assert len(list(again.entries(0))) == 45


def test_a_damaged_chain_ends_with_a_line(log: TimerLog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    positions = append(log, 8)
    path = tmp_path / "timerlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[positions[3] : positions[3] + 4] = bytes(4)
    path.write_bytes(data)
    assert offsets(log, positions[-1]) == [700, 600, 500, 400]
    assert "timer log damaged" in caplog.text


def test_files_of_delivered_messages_go_but_never_the_last(log: TimerLog, tmp_path: Path) -> None:
    positions = append(log, 30)
    assert log.take_below(positions[8]) == []
    taken = log.take_below(positions[20])
    assert [file.start_offset for file in taken] == [0, FILE_BYTES]
    log.remove(taken)
    assert sorted(path.name for path in (tmp_path / "timerlog").iterdir())[0] == f"{2 * FILE_BYTES:020d}"
    assert offsets(log, positions[20])[-1] == 100 * 18, "a chain ends where its file is gone"
    rest = log.take_below(1 << 40)
    assert all(file.start_offset < positions[-1] for file in rest)
    assert log.begin <= positions[-1]
