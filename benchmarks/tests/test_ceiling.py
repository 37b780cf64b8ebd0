"""The evaluation of how far the client gets; the servers themselves are not started."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ceiling, table
from benchmarks.java_tools import BenchmarkError
from benchmarks.row import Effort, Measured


def found(monkeypatch: pytest.MonkeyPatch, output: Path, rates: list[float | None], *options: str) -> dict[str, Any]:
    """The results of a run in which the servers reach these rates in turn; None: measuring failed."""

    def measure(_row: str, _side: ceiling.Side, _effort: Effort) -> Measured:
        rate = rates.pop(0)
        if rate is None:
            raise BenchmarkError("sends failed")
        return Measured(dict.fromkeys(ceiling._KEPT, rate))

    monkeypatch.setattr(ceiling, "_measure", measure)
    monkeypatch.setattr(table, "version", lambda kind: f"{kind} 1")
    monkeypatch.setattr(sys, "argv", ["ceiling", "--rows", "sync-64", "--output", str(output), *options])
    ceiling.main()
    document: dict[str, Any] = json.loads(output.read_text())
    return document


def test_servers_take_turns_and_ratios_are_of_the_same_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="sync-64, gateway: sends failed"):
        found(monkeypatch, tmp_path / "a.json", [10, None, 50, 10, 30, 40], "--runs", "2")
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]["sync-64"]
    assert [[one["messages_per_s"] for one in rows[side]] for side in ceiling.SIDES] == [[10, 10], [30], [50, 40]]
    gateway = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("sync-64  gateway"))
    assert gateway.split()[2:5] == ["30", "3.00", "0.75"]


def test_processors_are_kept_awake_when_asked_for_and_the_results_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sleeping: list[str]
) -> None:
    assert found(monkeypatch, tmp_path / "a.json", [1, 2, 3], "--runs", "1")["awake"] is False
    assert not sleeping
    assert found(monkeypatch, tmp_path / "a.json", [1, 2, 3], "--runs", "1", "--awake")["awake"] is True
    assert sleeping == ["awake", "may sleep"]
