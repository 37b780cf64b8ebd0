"""``store dump``: messages as JSON lines, chosen by queue, offset, time and key."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.readable import moment_text
from gateway.tests.store.small_store import START_MS, killed, message, opened, put
from gateway.tests.store_tool.small_directory import COUNT, flip, log_file, records, run, tree


def dumped(*arguments: str | Path) -> list[dict[str, Any]]:
    result = run("dump", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_everything_in_log_order(directory: Path) -> None:
    before = tree(directory)
    found = dumped(directory)
    assert len(found) == COUNT
    places = [one["commit_log_offset"] for one in found]
    assert places == sorted(places)
    assert found[1]["topic"] == "stock"
    assert found[1]["body"] == "body 1 body 1 "
    assert found[1]["properties"]["KEYS"] == "order-1 customer-1"
    assert found[1]["message_id"] == f"7F00000100002A{1:018d}"
    assert found[1]["born_host"] == "127.0.0.1:10911"
    assert found[1]["stored_at"] == moment_text(found[1]["stored_at_ms"])
    assert found[1]["born_at"].endswith("Z")
    assert tree(directory) == before


def test_by_queue_and_offset(directory: Path) -> None:
    found = dumped(directory, "--topic", "orders", "--queue", "1", "--offset", "3:6")
    assert [(one["queue_id"], one["queue_offset"]) for one in found] == [(1, 3), (1, 4), (1, 5)]
    assert len(dumped(directory, "--topic", "orders", "--offset", ":2")) == 4
    assert dumped(directory, "--topic", "orders", "--scan") == dumped(directory, "--topic", "orders")
    assert dumped(directory, "--topic", "orders", "--offset", "1000:") == []


def test_by_time_in_milliseconds_and_as_a_date(directory: Path) -> None:
    middle = START_MS + 700 * 60
    found = dumped(directory, "--from", str(middle), "--to", str(middle + 1400))
    assert [one["stored_at_ms"] for one in found] == [middle, middle + 700]
    assert len(dumped(directory, "--topic", "orders", "--to", str(middle))) < 60
    assert dumped(directory, "--to", "2001-01-01") == []
    assert len(dumped(directory, "--from", "2001-01-01T10:00")) == COUNT


def test_by_key_and_by_unique_id(directory: Path) -> None:
    assert [one["properties"]["KEYS"] for one in dumped(directory, "--key", "order-7")] == ["order-7 customer-0"]
    assert len(dumped(directory, "--topic", "stock", "--key", f"7F00000100002A{7:018d}")) == 1


def test_messages_whose_units_a_killed_server_had_in_memory(tmp_path: Path) -> None:
    store = opened(tmp_path / "data")
    for number in range(3):
        for topic in ("plain", "other"):
            put(store, message(b"%d" % number, topic=topic))
        if number == 0:
            store.flush()
    put(store, message(b"rolled back", topic="plain", sys_flag=0xC))
    directory = killed(tmp_path / "data")
    store.close()
    found = dumped(directory, "--topic", "plain")
    assert [one["body"] for one in found] == ["0", "1", "2"]
    assert found == dumped(directory, "--topic", "plain", "--scan")
    assert [one["body"] for one in dumped(directory, "--topic", "plain", "--offset", "1:2")] == ["1"]


def test_messages_of_a_topic_deleted_before_a_kill_are_not_dumped_with_those_of_the_new_one(tmp_path: Path) -> None:
    store = opened(tmp_path / "data")
    put(store, message(b"old", topic="plain"))
    put(store, message(b"old too", topic="plain"))
    store.delete_topic("plain")
    put(store, message(b"new", topic="plain"))
    put(store, message(b"new too", topic="plain"))
    store._queues.write_held()
    directory = killed(tmp_path / "data")
    store.close()
    assert [one["body"] for one in dumped(directory, "--topic", "plain")] == ["new", "new too"]


def test_no_more_than_asked_for(directory: Path) -> None:
    assert len(dumped(directory, "--limit", "3")) == 3


def test_half_messages_and_hidden_ones_only_when_asked_for(tmp_path: Path) -> None:
    store = opened(tmp_path / "data")
    put(store, message(b"\xff\xfe", topic="plain"))
    put(store, message(b"half", topic="RMQ_SYS_TRANS_HALF_TOPIC", REAL_TOPIC="plain"))
    put(store, message(b"rolled back", topic="plain", sys_flag=0xC))
    store.close()
    (plain,) = dumped(tmp_path / "data")
    assert base64.b64decode(plain["body_base64"]) == b"\xff\xfe"
    assert "body" not in plain
    found = dumped(tmp_path / "data", "--system")
    assert [one.get("transaction") for one in found] == [None, None, "rollback"]
    assert found[1]["properties"] == {"REAL_TOPIC": "plain"}


@pytest.mark.parametrize("arguments", [[], ["--topic", "orders"], ["--topic", "orders", "--scan"]])
def test_damaged_records_are_told_of_and_passed_over(directory: Path, arguments: list[str]) -> None:
    position, _ = records(directory)[4]
    flip(log_file(directory), position + 92)
    result = run("dump", directory, *arguments)
    assert result.exit_code == 1
    place = f"{log_file(directory)} byte {position} (commit log offset {position})"
    assert f"Damaged: {place}: body checksum is 0x" in result.stderr
    assert "1 damaged record was skipped" in result.stderr
    assert result.stdout.count("\n") >= 40


@pytest.mark.parametrize(
    ("option", "text"),
    [("--offset", "'3' is not A:B with numbers"), ("--from", "'3 o'clock' is not a time such as 2026-05-04T10:11:12")],
)
def test_a_wrong_range_is_a_usage_error(directory: Path, option: str, text: str) -> None:
    result = run("dump", directory, option, "3" if option == "--offset" else "3 o'clock")
    assert result.exit_code == 2
    assert text.replace("'", '"') in result.stderr.replace("'", '"')


def test_a_reader_that_has_seen_enough_ends_it_without_a_word(directory: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code = "from gateway.cli.main import main\nmain()\n"
    command = [sys.executable, "-c", code, "store", "dump", str(directory)]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
