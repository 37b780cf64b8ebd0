"""The journal of check counts: what survives, and what a damaged end costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.in_thread import in_this_thread
from gateway.store.disk.files import Buffer, FileLayer
from gateway.tests.store.small_store import Disk
from gateway.transaction.checks import check_journal
from gateway.transaction.checks.check_journal import (
    HEAD,
    MARK,
    RECORD_BYTES,
    Check,
    CheckJournal,
    build_check,
    parse_checks,
)


def no_checks() -> list[Check]:
    return []


def opened(path: Path, files: FileLayer | None = None) -> CheckJournal:
    journal = CheckJournal(path, in_thread=in_this_thread, files=files)
    journal.load()
    return journal


def reread(path: Path) -> tuple[dict[int, Check], int]:
    journal = CheckJournal(path, in_thread=in_this_thread)
    checks = {offset: check for offset, check in journal.load().items() if offset != MARK}
    journal.close()
    return checks, journal.mark


def test_the_newest_check_of_each_half_message_survives(tmp_path: Path) -> None:
    journal = opened(tmp_path / "deep" / "checks")
    journal.checked(5, 1_000, 77, 1)
    journal.checked(6, 1_100, 78, 1)
    journal.write(2, no_checks)
    journal.checked(5, 1_000, 99, 2)
    journal.write(2, no_checks)
    journal.close()
    assert reread(tmp_path / "deep" / "checks") == ({5: (5, 1_000, 99, 2), 6: (6, 1_100, 78, 1)}, 0)


def test_the_mark_only_rises(tmp_path: Path) -> None:
    journal = opened(tmp_path / "checks")
    for log_offset in (100, 700, 300):
        journal.settled_below(log_offset)
    journal.write(0, no_checks)
    journal.close()
    assert reread(tmp_path / "checks") == ({}, 700)


def test_nothing_is_written_when_there_is_nothing_new(tmp_path: Path) -> None:
    journal = opened(tmp_path / "checks")
    journal.write(0, no_checks)
    journal.close()
    assert (tmp_path / "checks").read_bytes() == HEAD


@pytest.mark.parametrize("lost", range(1, RECORD_BYTES + 1))
def test_a_torn_end_is_cut_off_and_written_over(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "checks"
    path.write_bytes((HEAD + build_check((1, 2, 3, 4)) + build_check((2, 3, 4, 5)))[:-lost])
    journal = CheckJournal(path, in_thread=in_this_thread)
    assert journal.load() == {1: (1, 2, 3, 4)}
    journal.checked(9, 9, 9, 9)
    journal.write(1, no_checks)
    journal.close()
    assert reread(path)[0] == {1: (1, 2, 3, 4), 9: (9, 9, 9, 9)}


@pytest.mark.parametrize("content", [b"x", HEAD[:-1], b"\x00" * 100, b"something else entirely, and long"])
def test_a_file_that_is_no_journal_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checks"
    path.write_bytes(content)
    assert reread(path) == ({}, 0)
    assert path.read_bytes() == HEAD


def test_records_after_a_damaged_one_are_not_trusted() -> None:
    good, bad = build_check((1, 1, 1, 1)), bytearray(build_check((2, 2, 2, 2)))
    bad[3] ^= 1
    checks, good_bytes = parse_checks(HEAD + good + bytes(bad) + good)
    assert (dict(checks), good_bytes) == ({1: (1, 1, 1, 1)}, len(HEAD) + RECORD_BYTES)


def test_a_grown_file_is_written_anew_with_what_came_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_journal, "REWRITE_BYTES", 10 * RECORD_BYTES)
    path = tmp_path / "checks"
    waiting: list[Callable[[], None]] = []
    journal = CheckJournal(path, in_thread=lambda work, done: waiting.append(lambda: done(work())))
    journal.load()
    journal.settled_below(500)
    for number in range(12):
        journal.checked(1, 2, 3, number)
    journal.write(1, lambda: [(1, 2, 3, 11)])
    journal.checked(7, 7, 7, 7)
    journal.write(1, no_checks)
    assert len(waiting) == 1, "one rewrite at a time"
    waiting[0]()
    journal.checked(8, 8, 8, 8)
    journal.write(1, no_checks)
    journal.close()
    assert reread(path) == ({1: (1, 2, 3, 11), 7: (7, 7, 7, 7), 8: (8, 8, 8, 8)}, 500)
    assert path.stat().st_size == len(HEAD) + 4 * RECORD_BYTES


def test_a_rewrite_that_ends_after_closing_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_journal, "REWRITE_BYTES", 0)
    waiting: list[Callable[[], None]] = []
    journal = CheckJournal(tmp_path / "checks", in_thread=lambda work, done: waiting.append(lambda: done(work())))
    journal.load()
    journal.checked(1, 2, 3, 4)
    journal.write(0, no_checks)
    journal.close()
    waiting[0]()
    assert reread(tmp_path / "checks")[0] == {1: (1, 2, 3, 4)}


class FullDisk(FileLayer):
    full = False

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().pwrite(fd, data, offset)


def test_a_full_disk_loses_counts_and_nothing_else(tmp_path: Path) -> None:
    files = FullDisk()
    journal = opened(tmp_path / "checks", files)
    files.full = True
    journal.checked(1, 1, 1, 1)
    journal.write(1, no_checks)
    files.full = False
    journal.checked(2, 2, 2, 2)
    journal.write(1, no_checks)
    journal.close()
    assert reread(tmp_path / "checks")[0] == {2: (2, 2, 2, 2)}


def test_a_full_disk_during_a_rewrite_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_journal, "REWRITE_BYTES", 0)
    files = FullDisk()

    def in_thread(work: Callable[[], object], done: Callable[[Any], None]) -> None:
        files.full = True
        in_this_thread(work, done)
        files.full = False

    journal = CheckJournal(tmp_path / "checks", in_thread=in_thread, files=files)
    journal.load()
    journal.checked(1, 1, 1, 1)
    journal.write(0, no_checks)
    journal.checked(2, 2, 2, 2)
    journal.close()
    assert reread(tmp_path / "checks")[0] == {1: (1, 1, 1, 1)}


class NoRenames(Disk):
    def rename(self, source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")


def test_a_rewrite_that_cannot_take_the_place_of_the_file_gives_its_descriptor_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_journal, "REWRITE_BYTES", 0)
    disk = NoRenames()
    journal = opened(tmp_path / "checks", disk)
    journal.checked(1, 1, 1, 1)
    journal.write(0, no_checks)
    assert [path.name for path in disk.open_fds.values()] == ["checks"]
    journal.close()
    assert reread(tmp_path / "checks")[0] == {1: (1, 1, 1, 1)}


class SyncedDirectories(FileLayer):
    """Notes in which order names change and directories are brought to the disk."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def rename(self, source: Path, target: Path) -> None:
        self.events.append("rename")
        super().rename(source, target)

    def fsync_directory(self, path: Path) -> None:
        self.events.append("directory synced")


def test_a_new_file_and_its_replacement_are_brought_to_the_disk_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_journal, "REWRITE_BYTES", 0)
    files = SyncedDirectories()
    journal = opened(tmp_path / "checks", files)
    assert files.events == ["directory synced"]
    journal.checked(1, 2, 3, 4)
    journal.write(0, no_checks)
    journal.close()
    assert files.events[1:] == ["rename", "directory synced"]
