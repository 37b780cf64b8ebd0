"""A configuration file that survives a kill at any point of its writing."""

from __future__ import annotations

import json
import os
from errno import EIO
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.json_file import JsonFile
from wire.errors import LayoutError


def parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise LayoutError(str(error)) from error


@pytest.fixture
def file(tmp_path: Path) -> JsonFile:
    return JsonFile(tmp_path / "config" / "topics.json")


def test_there_is_nothing_before_the_first_write(file: JsonFile) -> None:
    assert file.load(parse) is None


def test_what_is_written_is_read_again_and_the_content_before_is_kept_beside_it(file: JsonFile) -> None:
    file.write(b"[1]")
    file.write(b"[2]")
    assert file.load(parse) == [2]
    assert file.backup_path.read_bytes() == b"[1]"
    assert sorted(path.name for path in file.path.parent.iterdir()) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("damage", [b"", b"  \n", b'{"cut', None])
def test_a_damaged_or_missing_file_is_replaced_by_its_backup(file: JsonFile, damage: bytes | None) -> None:
    file.write(b"[1]")
    file.write(b"[2]")
    if damage is None:
        file.path.unlink()
    else:
        file.path.write_bytes(damage)
    assert JsonFile(file.path).load(parse) == [1]


def test_the_use_of_the_backup_is_reported(file: JsonFile, caplog: pytest.LogCaptureFixture) -> None:
    file.write(b"[1]")
    file.write(b"[2]")
    file.path.write_bytes(b"x")
    with caplog.at_level("WARNING"):
        file.load(parse)
    assert "restored from its backup" in caplog.text


def test_a_damaged_file_without_a_backup_stops_the_start(file: JsonFile) -> None:
    file.write(b"x")
    with pytest.raises(GatewayError, match=r"topics\.json"):
        file.load(parse)


def test_two_damaged_files_stop_the_start_and_are_both_named(file: JsonFile) -> None:
    file.write(b"x")
    file.write(b"y")
    with pytest.raises(GatewayError, match=r"topics\.json: .*topics\.json\.bak: "):
        file.load(parse)


def test_a_directory_in_the_files_place_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "topics.json").mkdir()
    with pytest.raises(GatewayError, match="cannot read"):
        JsonFile(tmp_path / "topics.json").load(parse)


def test_a_good_backup_is_not_overwritten_by_the_damaged_file_it_replaced(file: JsonFile) -> None:
    file.write(b"[1]")
    file.write(b"[2]")
    file.path.write_bytes(b"broken")
    again = JsonFile(file.path)
    again.load(parse)
    again.write(b"[3]")
    assert file.path.read_bytes() == b"[3]"
    assert file.backup_path.read_bytes() == b"[1]"
    again.write(b"[4]")
    assert file.backup_path.read_bytes() == b"[3]"


def test_older_content_never_replaces_newer(file: JsonFile) -> None:
    file.write(b"[2]", sequence=2)
    file.write(b"[1]", sequence=1)
    assert file.load(parse) == [2]


class KilledError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("step", range(1, 6))
def test_a_kill_at_any_step_of_a_write_leaves_the_old_or_the_new_content(
    file: JsonFile, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    file.write(b"[1]")
    file.write(b"[2]")
    steps = 0

    def killed_at(original: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step:
                raise KilledError
            return original(*arguments, **keywords)

        return call

    for name in ("fsync", "link"):
        monkeypatch.setattr(os, name, killed_at(getattr(os, name)))
    monkeypatch.setattr(Path, "replace", killed_at(Path.replace))
    with pytest.raises(KilledError):
        file.write(b"[3]")
    monkeypatch.undo()
    assert JsonFile(file.path).load(parse) in ([2], [3])


def test_without_hard_links_the_backup_is_a_copy(file: JsonFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
    file.write(b"[1]")
    file.write(b"[2]")
    assert file.backup_path.read_bytes() == b"[1]"
    assert file.load(parse) == [2]


def test_an_empty_file_without_a_backup_of_use_is_not_taken_for_no_file(file: JsonFile) -> None:
    file.write(b"[1]")
    file.write(b"[2]")
    file.path.write_bytes(b"")
    file.backup_path.write_bytes(b"")
    with pytest.raises(GatewayError, match=r"topics\.json is empty"):
        JsonFile(file.path).load(parse)


def test_a_file_whose_sync_failed_is_not_written_again(tmp_path: Path) -> None:
    class Failing(ConfigDisk):
        """A disk that refuses one sync, after which nothing is certain about the file."""

        fails = True

        def write(self, path: Path, content: bytes) -> None:
            super().write(path, content)
            if self.fails:
                raise OSError(EIO, "Input/output error")

    disk = Failing()
    file = JsonFile(tmp_path / "t.json", disk)
    with pytest.raises(OSError, match="Input/output error"):
        file.write(b"1")
    assert list(tmp_path.iterdir()) == []
    disk.fails = False
    file.write(b"2")
    assert file.load(lambda content: content) == b"2"
