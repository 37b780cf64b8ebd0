"""The evaluation of measured rounds: ratios within a round, verdicts, and files that count together or not."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import page, run, table
from benchmarks.java_tools import BenchmarkError
from benchmarks.row import Effort, Measured, Row
from benchmarks.servers import Kind
from gateway.client import RequestTimeout

Rounds = list[dict[str, float]]


def rates(*values: float | None) -> Rounds:
    return [{} if value is None else {"messages_per_s": value, "p99_ms": value} for value in values]


def document(apache: Rounds, gateway: Rounds, row: str = "sync-64", **changes: Any) -> dict[str, Any]:
    return {
        "date": "2026-01-01T00:00:00",
        "machine": {"cpu": "A", "cores": 2, "memory_gb": 8, "python": "3.11.2", "system": "Linux"},
        "versions": {"apache": "Apache RocketMQ 5.5.0", "gateway": "rocketmq-gateway 1"},
        "effort": "full",
        "rows": {row: {"apache": apache, "gateway": gateway}},
        **changes,
    }


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that writes documents into a page, and returns the page's text."""

    def write(*documents: dict[str, Any], before: str = f"{page.BEGIN}\nold\n{page.END}\n") -> str:
        target = tmp_path / "page.md"
        target.write_text(f"Kept.\n{before}Kept, too.\n")
        names = []
        for number, each in enumerate(documents):
            (tmp_path / f"{number}.json").write_text(json.dumps(each))
            names.append(str(tmp_path / f"{number}.json"))
        monkeypatch.setattr(sys, "argv", ["page", "--page", str(target), *names])
        page.main()
        return target.read_text()

    return write


def test_a_round_in_which_one_server_failed_is_compared_with_nothing(written: Callable[..., str]) -> None:
    text = written(document(rates(None, 10_000, 10_000), rates(1_000, 30_000, 60_000)))
    assert "| sync-64 | 2, apache failed in 1 | 10,000 | 30,000 | **4.50** (3.00 – 6.00) | ≥ 3 ✔ |" in text
    assert text.startswith("Kept.\n")
    assert text.endswith("Kept, too.\n")
    assert "old" not in text


def test_a_gateway_that_failed_once_keeps_no_promise_by_its_other_rounds(written: Callable[..., str]) -> None:
    text = written(document(rates(1_000, 10_000, 10_000), rates(None, 30_000, 60_000)))
    assert "| sync-64 | 2, gateway failed in 1 | 10,000 | 45,000 | **4.50** (3.00 – 6.00) | ≥ 3 ✘ | 4.50 ✘ |" in text


def test_values_are_shown_as_they_are_beside_the_page(written: Callable[..., str], tmp_path: Path) -> None:
    text = written(document(rates(1_000, 3_000, 1_500), rates(5_000, None, 4_000)))
    assert "[page-values.md](page-values.md)" in text
    values = (tmp_path / "page-values.md").read_text()
    assert "2 cores of A" in values
    assert "| sync-64 | messages_per_s | 1,000 / 1,500 / 3,000 | 4,000 / 4,500 / 5,000 |" in values


def test_numbers_are_shown_as_people_write_them() -> None:
    assert [table.number(value) for value in (None, 0.04567, 12.34, 999.4, 999.9, 12_345.6)] == [
        "-",
        "0.0457",
        "12.3",
        "999",
        "1,000",
        "12,346",
    ]


def test_what_the_gateway_promises_of_itself_is_judged_too(written: Callable[..., str]) -> None:
    apache, gateway = {"sync_over_async": 0.3}, {"sync_over_async": 0.6, "messages_per_sync": 9.0}
    text = written(document([apache], [gateway], row="flush-cost-64"))
    assert "| sync_over_async | 0.3 | 0.6 | **2.00** | ≥ 0.5 itself ✔ |" in text
    assert "| messages_per_sync | - | 9 |  | ≥ 10 itself ✘ |" in text


def test_that_no_processor_slept_is_said_and_runs_from_before_that_was_noted_count_as_others(
    written: Callable[..., str],
) -> None:
    assert "no processor slept meanwhile." in written(document(rates(1), rates(1), awake=True))
    forgotten = document(rates(1), rates(1), row="a row of former times")
    assert "no processor slept meanwhile." in written(document(rates(1), rates(1), awake=True), forgotten)
    both = written(document(rates(1_000), rates(3_000)), document(rates(500), rates(1_500), awake=False))
    assert "no processor slept" not in both
    assert "| sync-64 | 2 |" in both
    other = written(document(rates(1), rates(1), awake=True), document(rates(1), rates(1), row="async"))
    assert "no processor slept meanwhile, except during async." in other


def test_rounds_of_several_runs_stay_beside_each_other(written: Callable[..., str]) -> None:
    ended_between = document(rates(1_000, 10_000), rates(3_000))
    assert "| **3.00** (3.00 – 3.00) |" in written(ended_between, document(rates(500), rates(1_500)))
    assert "✔" not in written(document(rates(1_000), []), document([], rates(3_000)))


def test_verdicts_are_those_of_the_goals(written: Callable[..., str]) -> None:
    text = written(document([{"messages_per_s": 10, "p99_ms": 1.0}], [{"messages_per_s": 29, "p99_ms": 0.5}]))
    assert "| **2.90** | ≥ 3 ✘ | 0.50 ✔ |" in text
    text = written(document([{"messages_per_s": 10, "p99_ms": 1.0}], [{"messages_per_s": 30, "p99_ms": 0.51}]))
    assert "| **3.00** | ≥ 3 ✔ | 0.51 ✘ |" in text
    start = [[{"start_to_first_send_ms": 1_000.0}] * 2, [{"start_to_first_send_ms": ms} for ms in (90.0, 130.0)]]
    text = written(document(start[0], start[1], row="footprint"))
    assert "| footprint | 2 | start_to_first_send_ms | 1,000 | 110 | **0.11** (0.09 – 0.13) | ≤ 0.1 ✘ |" in text
    text = written(document([], start[1], row="footprint"))
    assert "| footprint | 0 | start_to_first_send_ms | - | 110 |  | ≤ 0.1 not compared |" in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"effort": "quick"}, "some are quick ones"),
        ({"machine": {"cpu": "B", "cores": 2, "memory_gb": 8, "python": "3.11.2", "system": ""}}, "differ in cpu"),
        (
            {"versions": {"apache": "Apache RocketMQ 5.5.0", "gateway": "rocketmq-gateway 2"}},
            "differ in apache, gateway",
        ),
        ({"rows": {}, "effort": None}, "do not count together"),
        ({"awake": True}, "processors were kept awake during sync-64, in others not"),
    ],
)
def test_unlike_runs_do_not_count_together(written: Callable[..., str], changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SystemExit, match=reason):
        written(document(rates(1), rates(1)), document(rates(1), rates(1), **changes))


def test_what_is_no_result_and_a_page_without_marks_are_named(written: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"0\.json holds no results"):
        written({})
    with pytest.raises(SystemExit, match="has no marks"):
        written(document(rates(1), rates(1)), before="")
    assert not (tmp_path / "page.svg").exists()


class Measuring:
    """A row whose measurements give what they are told to, in turn."""

    def __init__(self, *turns: float | BaseException) -> None:
        self.turns = list(turns)
        self.ticks: list[tuple[int, int]] = []
        self.row = Row("told", self.measure, {"messages_per_s": 2.0})

    def measure(self, _kind: Kind, _effort: Effort) -> Measured:
        turn = self.turns.pop(0)
        if isinstance(turn, BaseException):
            raise turn
        return Measured({"messages_per_s": turn})


def compared(monkeypatch: pytest.MonkeyPatch, output: Path, told: Measuring, *options: str) -> dict[str, Any]:
    """The row ``told`` of a run's results."""
    ticks = iter(told.ticks)
    monkeypatch.setattr(run, "_ticks", lambda: next(ticks, (0, 0)))
    monkeypatch.setattr(run, "ROWS", (told.row,))
    monkeypatch.setattr(table, "version", lambda kind: f"{kind} 1")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--output", str(output), *options])
    run.main()
    rows: dict[str, Any] = json.loads(output.read_text())["rows"]["told"]
    return rows


def test_servers_take_turns_and_the_medians_ratio_is_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(monkeypatch, tmp_path / "a.json", Measuring(1, 3, 1, 1, 1, 4), "--runs", "3", "--rows", " told,")
    assert found == {"apache": [{"messages_per_s": 1}] * 3, "gateway": [{"messages_per_s": n} for n in (3, 1, 4)]}
    assert "3.00   1.00  4.00  ≥ 2   ok" in capsys.readouterr().out
    assert "told, rate" in (tmp_path / "a.svg").read_text()


def test_a_failed_measurement_keeps_its_place_and_ends_in_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = Measuring(1, BenchmarkError("sends failed"), 10, 30, RequestTimeout("GET_STATS", "broker", 3.0), 30)
    with pytest.raises(SystemExit, match="told, gateway: sends failed\ntold, apache: RequestTimeout: "):
        compared(monkeypatch, tmp_path / "a.json", told, "--runs", "3")
    found = json.loads((tmp_path / "a.json").read_text())["rows"]["told"]
    assert found == {
        "apache": [{"messages_per_s": 1}, {"messages_per_s": 10}, {}],
        "gateway": [{}, *[{"messages_per_s": 30}] * 2],
    }
    assert "3.00   3.00  3.00  ≥ 2   MISSED" in capsys.readouterr().out


def test_what_the_host_took_meanwhile_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = Measuring(1, 3)
    told.ticks = [(1_000, 50), (1_400, 60), (2_000, 60), (2_400, 260)]
    found = compared(monkeypatch, tmp_path / "a.json", told, "--runs", "1")
    assert [found[kind][0]["stolen_share"] for kind in ("apache", "gateway")] == [0.025, 0.5]


def test_processors_are_kept_awake_for_each_server_alike_and_the_results_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sleeping: list[str]
) -> None:
    compared(monkeypatch, tmp_path / "a.json", Measuring(1, 3), "--runs", "1")
    assert not sleeping
    assert json.loads((tmp_path / "a.json").read_text())["awake"] is False
    compared(monkeypatch, tmp_path / "a.json", Measuring(1, 3), "--runs", "1", "--awake")
    assert sleeping == ["awake", "may sleep"]
    assert json.loads((tmp_path / "a.json").read_text())["awake"] is True


def test_results_are_not_replaced_when_the_processors_cannot_be_kept_awake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def refused() -> Iterator[None]:
        raise SystemExit("cannot be kept awake")
        yield

    monkeypatch.setattr(run, "awake", refused)
    (tmp_path / "a.json").write_text("hours of work")
    with pytest.raises(SystemExit, match="cannot be kept awake"):
        compared(monkeypatch, tmp_path / "a.json", Measuring(), "--awake")
    assert (tmp_path / "a.json").read_text() == "hours of work"


def test_a_run_that_is_ended_shows_what_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="when you ended it"):
        compared(monkeypatch, tmp_path / "a.json", Measuring(1, 3, 10, KeyboardInterrupt()), "--runs", "2")
    said = capsys.readouterr().out
    assert "3.00   3.00  3.00  ≥ 2   ok" in said
    assert str(tmp_path / "a.json") in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--runs", "0"], "0 is not a number from 1 to 1000"),
        (["--runs", "-1"], "not a number|expected one argument"),
        (["--rows", "told,other"], "no such row: other; there are: told"),
        (["--output", "a.svg"], r"a\.svg does not end in \.json"),
        (["--output", "/proc/nowhere/a.json"], "cannot be written"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    reason: str,
) -> None:
    told = Measuring(1, 1)
    with pytest.raises(SystemExit) as refused:
        compared(monkeypatch, tmp_path / "a.json", told, *options)
    said = f"{refused.value}{capsys.readouterr().err}"
    assert re.search(reason, said), said
    assert len(told.turns) == 2
