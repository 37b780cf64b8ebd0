"""The verdict turns red for each kind of harm, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.tests.fuzz.honest import Account, Report
from gateway.tests.fuzz.verdict import FLAT_AFTER, MAX_LINES_A_MINUTE, Limits, table, wrong
from gateway.tests.fuzz.watch import Taken, Watched

START = Taken(rss_bytes=50 << 20, sockets=3, descriptors=20, threads=4)


def report() -> Report:
    return Report(waits_ms={"send": [1.0] * 299 + [900.0]}, sent=10, received=10, popped=3, machine_ms=20)


def watched(path: Path) -> Watched:
    return Watched(path / "log", START, START, START, minutes=[100])


def account(arrived: list[str]) -> list[str]:
    kept = Account()
    kept.acknowledged = {"a": True, "b": True, "rolled back": False}
    kept.unknown = {"perhaps"}
    kept.arrived = arrived
    return kept.wrong()


def test_an_account_that_is_right() -> None:
    assert account(["a", "b"]) == account(["b", "perhaps", "a"]) == []


@pytest.mark.parametrize(
    ("arrived", "sentence"),
    [
        (["a"], "message b was acknowledged and is lost"),
        (["a", "b", "b"], "message b came 2 times"),
        (["a", "b", "rolled back"], "message rolled back was rolled back and came"),
        (["a", "b", "c"], "foreign message 'c'"),
    ],
)
def test_each_harm_to_a_message(arrived: list[str], sentence: str) -> None:
    assert account(arrived) == [sentence]


def test_all_is_well(tmp_path: Path) -> None:
    assert wrong(report(), watched(tmp_path), 0, Limits()) == []
    assert any("send" in line for line in table(report(), watched(tmp_path), 5))


def long_wait(report: Report, _: Watched) -> None:
    report.waits_ms["pull"] = [1_021.0]


def many_waits(report: Report, _: Watched) -> None:
    report.waits_ms["pull"] = [1.0] * 90 + [300.0] * 10


def lost(report: Report, _: Watched) -> None:
    report.wrong.append("lost")


def nothing_done(report: Report, _: Watched) -> None:
    report.popped = 0


def memory(_: Report, watched: Watched) -> None:
    watched.most = Taken(500 << 20, 3, 20, 4)


def threads(_: Report, watched: Watched) -> None:
    watched.most = Taken(50 << 20, 3, 20, 400)


def sockets(_: Report, watched: Watched) -> None:
    watched.last = Taken(50 << 20, 9, 20, 4)


def lines(_: Report, watched: Watched) -> None:
    watched.minutes = [100, MAX_LINES_A_MINUTE + 1]


def error(_: Report, watched: Watched) -> None:
    watched.wrong_lines = ['level=error event="request failed"']


def growth(_: Report, watched: Watched) -> None:
    watched.rss_bytes = [(50 << 20) + number * (1 << 18) for number in range(FLAT_AFTER)]


@pytest.mark.parametrize(
    "harm", [long_wait, many_waits, lost, nothing_done, memory, threads, sockets, lines, error, growth]
)
def test_each_harm_to_the_service(tmp_path: Path, harm: Callable[[Report, Watched], None]) -> None:
    told, seen = report(), watched(tmp_path)
    harm(told, seen)
    assert wrong(told, seen, 0, Limits())


@pytest.mark.parametrize("exit_code", [None, 1, -9])
def test_an_end_that_is_not_orderly(tmp_path: Path, exit_code: int | None) -> None:
    assert len(wrong(report(), watched(tmp_path), exit_code, Limits())) == 1


def test_lines_are_counted_and_errors_found(tmp_path: Path) -> None:
    seen = watched(tmp_path)
    seen.log.write_text(
        't=1 level=info event=a\nt=2 level=error event="b"\nt=3 level=info event=c traceback="x"\nt=4 level=in'
    )
    seen.look(START)
    seen.minute_over()
    assert seen.minutes == [100, 3]
    assert len(seen.wrong_lines) == 2


def test_a_broken_file_of_accounts_is_no_error_nor_is_the_number_of_lines_left_out_about_it(tmp_path: Path) -> None:
    seen = watched(tmp_path)
    lines = [
        ('"users changed and cannot be used; the earlier ones stay" fault=x', True),
        ('"lines left out" of="users changed and cannot be used; the earlier ones stay" left_out=3', True),
        ('"lines left out" of="file of accounts cannot be used; its last good state stays in use" left_out=3', True),
        ('"lines left out" of="request failed" left_out=3', False),
        ('"users changed and cannot be used; the earlier ones stay" traceback="x"', False),
        ('"request failed" of="users changed and cannot be used; "', False),
    ]
    seen.log.write_text("".join(f"t=1 level=error part=access.users event={text}\n" for text, _ in lines))
    seen.look(START)
    assert len(seen.wrong_lines) == sum(not is_expected for _, is_expected in lines)
