"""The last save of the tables: all that can be written is, and the rest is told in a line each."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.broker.upkeep.last_save import LastSave, NotAllSaved, save_all


class Saved:
    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.times = 0

    def persist_now(self) -> None:
        self.times += 1
        if self.error is not None:
            raise self.error


def test_each_table_that_cannot_be_written_is_a_line_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    tables = [Saved(OSError(28, "No space left on device")), Saved(), Saved(OSError("odd")), Saved()]
    saves = [LastSave(table, Path(f"{number}.json"), "messages come again") for number, table in enumerate(tables)]
    with caplog.at_level(logging.ERROR, "gateway"):
        failed = save_all(saves)
    assert failed == [Path("0.json"), Path("2.json")]
    assert [table.times for table in tables] == [1, 1, 1, 1]
    assert [record.getMessage() for record in caplog.records] == ["table not saved"] * 2
    assert [record.facts["reason"] for record in caplog.records] == ["No space left on device", "odd"]  # type: ignore[attr-defined]
    assert all(record.failure is None for record in caplog.records)  # type: ignore[attr-defined]
    assert caplog.records[0].facts["lost"] == "messages come again"  # type: ignore[attr-defined]


def test_the_error_names_the_files_and_ends_the_process_with_1() -> None:
    error = NotAllSaved([Path("a.json"), Path("b.json")])
    assert str(error) == "not saved at the stop, and as they were saved last: a.json, b.json"
    assert error.exit_code == 1
