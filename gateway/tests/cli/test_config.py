"""``config`` shows every setting with its source, in forms for people, files and programs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.main import cli
from gateway.settings import Settings
from gateway.settings.declare import declarations
from gateway.settings.files.load import Role, load_settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=broker-a\ntransferMsgByHeap=false\nflushDiskTyp=x\n")
    return path


def config(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    result = CliRunner(env=environment).invoke(cli, ["config", *arguments])
    assert result.exit_code == 0, result.output
    return result


def rows_of(result: Result) -> list[str]:
    """The lines of settings, without the head and the titles of sections."""
    return [line for line in result.stdout.splitlines()[1:] if line and not line.endswith(":")]


def test_the_table_has_one_row_for_each_setting() -> None:
    result = config()
    assert result.stdout.splitlines()[0].split() == ["KEY", "VALUE", "SOURCE", "DESCRIPTION"]
    assert [row.split()[0] for row in rows_of(result)] == list(declarations(Settings))


def test_point_21_the_rows_stand_in_sections_that_can_be_looked_through() -> None:
    lines = config().stdout.splitlines()
    titles = [line for line in lines if line.endswith(":")]
    assert {"Transactions:", "Name server:", "Retention and disk space:"} <= set(titles)
    assert lines[lines.index("Transactions:") - 1] == ""
    assert lines[lines.index("Transactions:") + 1].startswith("rejectTransactionMessage ")
    for section in "\n".join(lines).split("\n\n")[1:]:
        assert 2 <= len(section.splitlines()) <= 20, section


def test_only_sections_with_changes_are_shown(file: Path) -> None:
    lines = config("-c", str(file), "--changed").stdout.splitlines()
    assert [line for line in lines if line.endswith(":")] == ["Names and addresses of the broker:"]
    assert config("--changed").stdout.splitlines() == ["KEY  VALUE  SOURCE  DESCRIPTION"]


def test_a_row_says_value_source_and_meaning(file: Path) -> None:
    rows = rows_of(config("-c", str(file), "--port", "0", environment={"ROCKETMQ_GATEWAY_REGION_ID": "eu"}))
    by_key = {row.split()[0]: row.split(maxsplit=3)[1:] for row in rows}
    assert by_key["brokerName"][:2] == ["broker-a", f"{file}:1"]
    assert by_key["regionId"][0] == "eu"
    assert by_key["listenPort"][:2] == ["0", "--port"]
    assert by_key["fileReservedTime"] == [
        "72",
        "default",
        "Age at which commit log files may be deleted. (hours)",
    ]


def test_changed_leaves_out_what_nobody_set(file: Path) -> None:
    rows = rows_of(config("-c", str(file), "--changed"))
    assert [row.split()[0] for row in rows] == ["brokerName"]


def test_the_settings_for_disk_space_are_shown_as_what_they_come_to_here(tmp_path: Path) -> None:
    arguments = (
        "--set",
        f"storePathRootDir={tmp_path / 'not' / 'yet'}",
        "--set",
        "gateway.diskMeasuredBytes=1000000000",
    )
    (line,) = config(*arguments).stderr.splitlines()
    assert line.startswith("Disk space: ")
    assert "older than 72 h are deleted at any hour below 238 MiB free" in line
    assert "messages are refused below 95 MiB" in line
    told = json.loads(config("--format", "json", *arguments).stdout)["disk_space"]
    of_now = re.compile(r"\d+ MiB of \d+ MiB free, \d+ % used")  # another program may have written meanwhile
    assert of_now.search(line)
    assert of_now.sub("", told) in of_now.sub("", line)
    assert config("--for", "nameserver").stderr == ""


def test_keys_without_effect_are_named_beside_the_table(file: Path) -> None:
    known, misspelt, _ = config("-c", str(file)).stderr.splitlines()
    assert known == f"Warning: transferMsgByHeap ({file}:2): known to Apache RocketMQ, without effect here"
    assert misspelt.startswith(f"Warning: flushDiskTyp ({file}:3): unknown setting, kept without effect")
    assert misspelt.endswith("; did you mean flushDiskType?")


def test_the_properties_read_back_as_the_same_settings(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.conf"
    arguments = ["-c", str(file), "--set", "messageDelayLevel=1s 2s", "--set", "regionId= a\\b"]
    copy.write_text(config(*arguments, "--format", "properties").stdout)
    again = load_settings(Role.SERVE, config_file=copy)
    assert again.settings.message_delay_level == "1s 2s"
    assert again.settings.region_id == "a\\b"
    assert again.settings.broker_name == "broker-a"
    assert [entry.key for entry in again.kept] == ["transferMsgByHeap", "flushDiskTyp"]


def test_json_has_types_and_what_may_be_written(file: Path) -> None:
    found = json.loads(config("-c", str(file), "--format", "json").stdout)
    by_key = {row["key"]: row for row in found["settings"]}
    assert by_key["brokerName"]["value"] == "broker-a"
    assert by_key["listenPort"]["value"] == 10911
    assert by_key["traceOn"]["value"] is True
    assert by_key["flushDiskType"] == {
        "key": "flushDiskType",
        "section": "Flushing to disk",
        "value": "SYNC_FLUSH",
        "source": "default",
        "default": "SYNC_FLUSH",
        "expected": "SYNC_FLUSH or ASYNC_FLUSH",
        "environment": "ROCKETMQ_GATEWAY_FLUSH_DISK_TYPE",
        "description": by_key["flushDiskType"]["description"],
    }
    assert [row["key"] for row in found["without_effect"]] == ["transferMsgByHeap", "flushDiskTyp"]


@pytest.mark.parametrize("form", ["table", "properties", "json"])
def test_a_secret_is_not_shown(form: str) -> None:
    result = config("--set", "tls.server.keyPassword=geheim", "--format", form)
    assert "geheim" not in result.output
    assert "******" in result.output


def test_another_command_can_be_meant() -> None:
    (row,) = rows_of(config("--for", "nameserver", "--port", "0", "--changed"))
    assert row.split()[:2] == ["gateway.nameserverPort", "0"]
