from __future__ import annotations

import pytest

from gateway.cli.output import MAX_RANGES, SHOWN, RepeatedErrors


def told(capsys: pytest.CaptureFixture[str], errors: RepeatedErrors) -> list[str]:
    errors.end()
    return capsys.readouterr().err.splitlines()


def test_a_few_errors_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    errors = RepeatedErrors("line")
    for number in range(1, SHOWN + 1):
        errors.tell("full", number, f"line {number}: disk full")
    assert told(capsys, errors) == [f"Error: line {number}: disk full" for number in range(1, SHOWN + 1)]


def test_point_21_many_errors_of_one_kind_are_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    errors = RepeatedErrors("line")
    for number in [*range(1, 100), 200, *range(300, 303)]:
        errors.tell("full", number, f"line {number}: disk full")
    said = told(capsys, errors)
    assert len(said) == SHOWN + 2
    assert said[SHOWN:] == [
        "Error: more lines fail like line 1; they are counted only",
        "Error: 98 more lines failed like line 1: 6-99, 200, 300-302",
    ]


def test_kinds_are_counted_each_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    errors = RepeatedErrors("ID")
    for name in [f"k{number}" for number in range(SHOWN + 1)]:
        errors.tell("denied", name, f"{name}: denied")
    errors.tell("unknown", "x", "x: unknown")
    said = told(capsys, errors)
    assert "Error: x: unknown" in said
    assert said[-1] == f"Error: 1 more ID failed like ID k0: k{SHOWN}"
    assert told(capsys, errors) == []


def test_a_summary_lists_only_so_many_places(capsys: pytest.CaptureFixture[str]) -> None:
    errors = RepeatedErrors("line")
    for number in range(0, 20_000, 2):
        errors.tell("full", number, f"line {number}: disk full")
    summary = told(capsys, errors)[-1]
    assert summary.startswith(f"Error: {10_000 - SHOWN} more lines failed like line 0: 10, 12, ")
    assert summary.endswith(", …")
    assert summary.count(",") == MAX_RANGES
