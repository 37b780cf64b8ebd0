"""A data directory knows the name under which it was served (point 18)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.metadata.saved.broker_name import FILE_NAME, keep_name, kept_name
from gateway.metadata.saved.config_disk import ConfigDisk


class CountingDisk(ConfigDisk):
    """Counts what is written, and can be full."""

    def __init__(self) -> None:
        self.writes = 0
        self.is_full = False

    def write(self, path: Path, content: bytes) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.writes += 1
        super().write(path, content)


def topics(root: Path, *names: str) -> None:
    (root / "config").mkdir()
    rows = ",".join(f'"rmq_sys_SYNC_BROKER_MEMBER_{name}":{{"topicName":"x"}}' for name in names)
    (root / "config" / "topics.json").write_text(f'{{"topicConfigTable":{{{rows}}}}}')


def test_a_name_that_was_written_down_is_read_back(tmp_path: Path) -> None:
    assert kept_name(tmp_path) is None
    assert kept_name(tmp_path / "missing") is None
    keep_name(tmp_path, "broker-a")
    assert kept_name(tmp_path) == ("broker-a", tmp_path / FILE_NAME)
    keep_name(tmp_path, "broker|%b@x.y_z")
    assert kept_name(tmp_path) == ("broker|%b@x.y_z", tmp_path / FILE_NAME)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_it_is_written_once(tmp_path: Path) -> None:
    disk = CountingDisk()
    for _ in range(3):
        keep_name(tmp_path, "broker-a", disk)
    assert disk.writes == 1


def test_on_a_full_disk_the_name_before_stays(tmp_path: Path) -> None:
    disk = CountingDisk()
    keep_name(tmp_path, "broker-a", disk)
    disk.is_full = True
    with pytest.raises(OSError, match="No space left"):
        keep_name(tmp_path, "broker-b", disk)
    assert kept_name(tmp_path) == ("broker-a", tmp_path / FILE_NAME)


def test_a_person_may_write_it(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("broker-a")
    assert kept_name(tmp_path) == ("broker-a", tmp_path / FILE_NAME)
    (tmp_path / FILE_NAME).write_text(" broker-a\r\n\n")
    assert kept_name(tmp_path) == ("broker-a", tmp_path / FILE_NAME)


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb\n", b"\xff\x00", b"a/b", b"x" * 2_000, bytes(1 << 20)])
def test_a_damaged_file_is_refused_unless_the_topics_know_the_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(GatewayError, match=rf"{FILE_NAME} does not have the broker's name .*: write the name into it"):
        kept_name(tmp_path)
    topics(tmp_path, "broker-a")
    assert kept_name(tmp_path) == ("broker-a", tmp_path / "config" / "topics.json")


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)
    with pytest.raises(GatewayError, match="it is no file"):
        kept_name(tmp_path)


def test_point_18_a_directory_of_an_earlier_version_or_of_apache_has_the_name_among_its_topics(tmp_path: Path) -> None:
    topics(tmp_path, "broker-a")
    assert kept_name(tmp_path) == ("broker-a", tmp_path / "config" / "topics.json")
    keep_name(tmp_path, "broker-b")
    assert kept_name(tmp_path) == ("broker-b", tmp_path / FILE_NAME)


@pytest.mark.parametrize("names", [(), ("broker-a", "broker-b"), ("a/b",)])
def test_topics_that_name_no_broker_or_several_say_nothing(tmp_path: Path, names: tuple[str, ...]) -> None:
    topics(tmp_path, *names)
    assert kept_name(tmp_path) is None
