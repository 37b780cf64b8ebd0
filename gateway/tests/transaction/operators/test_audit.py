"""The file of what people did."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.in_thread import Failed, in_this_thread
from gateway.transaction.operators import audit
from gateway.transaction.operators.audit import AuditLog

NOW_MS = 1_750_000_000_123


def opened(directory: Path) -> AuditLog:
    return AuditLog(directory, lambda: NOW_MS, in_thread=in_this_thread)


def write(log: AuditLog, **facts: object) -> object:
    results: list[object] = []
    log.write(facts, results.append)
    [result] = results
    return result


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_action_is_one_line_that_is_on_disk_before_anyone_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    log = opened(tmp_path / "transaction")
    assert write(log, event="asked", operator="alice\n", half_offset=7) is None
    assert synced == ["audit.jsonl", "transaction"]
    assert write(log, event="done") is None
    assert synced == ["audit.jsonl", "transaction", "audit.jsonl"]
    first, second = lines(log.path)
    assert first == {"time": "2025-06-15T15:06:40.123Z", "event": "asked", "operator": "alice\n", "half_offset": 7}
    assert second["event"] == "done"


def test_a_line_whose_name_is_not_on_disk_is_told_of_until_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == tmp_path:
            raise OSError(5, "Input/output error")

    log = opened(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        for _ in range(2):
            assert isinstance(write(log, event="asked"), Failed)
    assert write(log, event="asked") is None


def test_full_files_are_kept_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(audit, "KEPT_FILES", 2)
    log = opened(tmp_path)
    for number in range(9):
        write(log, number=number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    kept = [entry["number"] for name in reversed(names) for entry in lines(tmp_path / name)]
    assert kept == list(range(kept[0], 9))
    assert kept[0] > 0


def test_a_line_cut_short_by_a_kill_does_not_spoil_the_next(tmp_path: Path) -> None:
    log = opened(tmp_path)
    write(log, number=1)
    with log.path.open("ab") as file:
        file.write(b'{"time": "20')
    write(log, number=2)
    good = [line for line in log.path.read_text().splitlines() if line.endswith("}")]
    assert [json.loads(line)["number"] for line in good] == [1, 2]


def test_a_long_text_is_cut(tmp_path: Path) -> None:
    log = opened(tmp_path)
    write(log, reason="x" * 10_000)
    assert len(lines(log.path)[0]["reason"]) == audit.MAX_TEXT_CHARACTERS + 1


def test_a_disk_that_refuses_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    result = write(opened(tmp_path), event="asked")
    assert isinstance(result, Failed)
    assert isinstance(result.error, OSError)


def test_no_line_can_move_a_cursor_or_be_two(tmp_path: Path) -> None:
    log = opened(tmp_path)
    bad = "\x1b[2J\x7f\x85\x9b\u2028\u202e\ud800"
    assert write(log, operator=bad) is None
    (line,) = log.path.read_text(encoding="utf-8").splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["operator"] == bad
