"""``store inspect``: figures of everything, for people and for programs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from gateway.store_tool.files.directory import record_at
from gateway.tests.store.small_store import SMALL, opened, put
from gateway.tests.store_tool.small_directory import COUNT, fill, log_file, run, tree


def test_tables_for_people(directory: Path) -> None:
    before = tree(directory)
    result = run("inspect", directory)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == f"{directory}: closed properly"
    assert re.sub(" +", " ", lines[2]) == "COMMIT LOG FILE DATA ON DISK OF HOLES FIRST MESSAGE STORED"
    assert lines[3].startswith(f"{0:020d}  ")
    assert [line for line in lines if line.startswith("offsets 0 … ")]
    assert next(line.split() for line in lines if line.startswith("orders  "))[:5] == ["orders", "0", "0", "28", "28"]
    assert "ON DISK ARE" in result.stdout
    assert tree(directory) == before


def test_json_for_programs(directory: Path) -> None:
    values = json.loads(run("inspect", directory, "--json").stdout)
    assert (values["killed"], values["holder"]) == (False, None)
    assert [file["start"] for file in values["commit_log"]["files"]] == [0, 8192, 16384]
    assert values["commit_log"]["data_end"] <= values["checkpoint"]["durable_offset"]
    assert sum(queue["max_offset"] - queue["min_offset"] for queue in values["queues"]) == COUNT
    assert {index["slots"] for index in values["index_files"]} == {16}


def test_one_topic(directory: Path) -> None:
    values = json.loads(run("inspect", directory, "--json", "--topic", "stock").stdout)
    assert [(queue["topic"], queue["queue_id"]) for queue in values["queues"]] == [("stock", 0), ("stock", 1)]


def test_a_killed_server_shows(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    (tmp_path / "data" / "abort").touch()
    assert run("inspect", tmp_path / "data").stdout.startswith(
        f"{tmp_path / 'data'}: killed: the next start recovers\n"
    )


def test_a_first_message_of_more_than_four_mebibytes_has_its_store_time(tmp_path: Path) -> None:
    large = replace(SMALL, max_message_size=8 << 20, mapped_file_size_commit_log=8 << 20)
    store = opened(tmp_path / "data", large)
    stored = put(store, b"x" * (5 << 20))
    store.close()
    assert stored.status.is_stored
    path = log_file(tmp_path / "data")
    first = record_at(path, 0, check_crc=True)
    assert first is not None
    assert len(first.body) == 5 << 20
    values = json.loads(run("inspect", tmp_path / "data", "--json").stdout)
    assert values["commit_log"]["files"][0]["first_stored_at_ms"] == first.stored_at_ms
    assert record_at(path, first.total_size, check_crc=True) is None
    assert record_at(path, 8 << 20, check_crc=True) is None
    assert record_at(tmp_path / "none", 0, check_crc=True) is None
