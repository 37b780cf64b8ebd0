from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.spark.pipelines import commands, session
from gateway.spark.pipelines.commands import pipeline
from gateway.spark.pipelines.transactions import TransactionOptions


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["archive", "--to", "x"], "give topics or --pattern"),
        (["archive", "orders", "--pattern", "o.*", "--to", "x"], "give topics or --pattern"),
        (["transactions"], "give --table, --report or both"),
        (["archive", "orders", "--to", "x", "-o", "accessKey"], "-o takes NAME=VALUE, not 'accessKey'"),
        (["replay", "x", "--from", "yesterday"], "is not a time like 2026-05-01"),
    ],
)
def test_a_wrong_command_is_a_line_and_exit_code_2(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(pipeline, arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_the_gateway_has_the_same_commands() -> None:
    result = CliRunner().invoke(cli, ["pipeline", "--help"])
    assert result.exit_code == 0
    for name in ("archive", "transactions", "replay", "script"):
        assert name in result.stdout


def test_what_is_missing_is_said_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "package_problems", lambda: ["pyspark is not installed"])
    result = CliRunner().invoke(pipeline, ["replay", "x"])
    assert result.exit_code == 1
    assert result.stderr == "Error: pyspark is not installed\n"


def test_the_script_for_spark_submit_is_there() -> None:
    result = CliRunner().invoke(pipeline, ["script"])
    assert Path(result.stdout.strip()).is_file()


def test_days_are_whole_days_in_utc() -> None:
    options = TransactionOptions(source={}, first_day=date(2026, 5, 1), last_day=date(2026, 5, 2))
    assert options.begin == datetime(2026, 5, 1, tzinfo=UTC)
    assert options.end == datetime(2026, 5, 3, tzinfo=UTC)


def test_a_workers_trace_is_told_by_its_last_line() -> None:
    trace = "Job aborted\nTraceback (most recent call last):\n  File x\ngateway.spark.errors.DataLoss: queue a\n\tat x"
    assert commands._cause(trace) == "gateway.spark.errors.DataLoss: queue a"
    assert commands._cause("one\ntwo\n\nthree\nfour") == "one\ntwo\nthree"
