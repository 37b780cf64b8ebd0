"""A name that the directory does not have is an error with the names that are near, not silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.metadata.names import HALF_TOPIC
from gateway.tests.store.small_store import killed, message, put
from gateway.tests.store_tool.small_directory import fill, run


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--topic", "order"], "has no topic order; did you mean orders?"),
        (["--topic", "ORDERS"], "has no topic ORDERS; did you mean orders?"),
        (["--topic", "zzz"], "has no topic zzz; there are SCHEDULE_TOPIC_XXXX, orders, stock"),
        (["--topic", "zzz", "--scan"], "has no topic zzz; there are SCHEDULE_TOPIC_XXXX, orders, stock"),
        (["--topic", "orders", "--queue", "7"], "has no queue 7; there are 0, 1"),
        (["--queue", "9"], "has no queue 9; there are 0 … 2"),
    ],
)
def test_an_unknown_name_ends_a_dump(tmp_path: Path, arguments: list[str], text: str) -> None:
    fill(tmp_path / "data")
    result = run("dump", tmp_path / "data", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert text in result.stderr


def test_a_known_topic_without_a_fitting_message_says_so_and_is_no_error(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    result = run("dump", tmp_path / "data", "--topic", "orders", "--offset", "5000:")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No message matches.\n")


def test_an_unknown_topic_ends_an_inspection(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    result = run("inspect", tmp_path / "data", "--topic", "stocks")
    assert result.exit_code == 2
    assert "has no topic stocks; did you mean stock?" in result.stderr


def test_a_name_that_only_the_log_has_after_a_kill_is_known(tmp_path: Path) -> None:
    data = tmp_path / "data"
    store = fill(data, close=False)
    put(store, message(b"new", topic="new", queue_id=4))
    put(store, message(b"another queue", topic="orders", queue_id=3))
    put(store, message(b"half", topic=HALF_TOPIC))
    put(store, message(b"gone", topic="gone"))
    store.delete_topic("gone")
    directory = killed(data)
    store.close()
    for arguments, body in (
        (["--topic", "new"], "new"),
        (["--topic", "new", "--queue", "4"], "new"),
        (["--topic", "orders", "--queue", "3"], "another queue"),
        (["--queue", "3"], "another queue"),
        (["--topic", HALF_TOPIC, "--system"], "half"),
    ):
        result = run("dump", directory, *arguments)
        assert (result.exit_code, result.stdout.count("\n")) == (0, 1), (arguments, result.stderr)
        assert f'"body":"{body}"' in result.stdout.replace(": ", ":")
    assert run("inspect", directory, "--topic", "new").exit_code == 0
    for wrong in (["--topic", "newer"], ["--topic", "gone"], ["--topic", "new", "--queue", "5"], ["--queue", "9"]):
        result = run("dump", directory, *wrong)
        assert (result.exit_code, result.stdout) == (2, ""), wrong
    assert "has no topic gone" in run("inspect", directory, "--topic", "gone").stderr


def test_a_lost_queue_is_still_found_by_a_scan(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data)
    for folder in ("0", "1"):
        for path in (data / "consumequeue" / "stock" / folder).iterdir():
            path.unlink()
        (data / "consumequeue" / "stock" / folder).rmdir()
    (data / "consumequeue" / "stock").rmdir()
    for path in (data / "config").iterdir():
        path.unlink()
    assert run("dump", data, "--topic", "stock").exit_code == 2
    assert run("dump", data, "--topic", "stock", "--queue", "1", "--scan").stdout.count("\n") == 22
