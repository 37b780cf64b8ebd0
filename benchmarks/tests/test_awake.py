"""Processors that are kept awake, as `python -m benchmarks --awake` does."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.awake import awake


def driven_by(directory: Path, name: str) -> Path:
    driver = directory / "driver"
    driver.write_text(f"{name}\n")
    return driver


def test_the_kernel_is_told_that_no_time_may_be_lost_by_waking(tmp_path: Path) -> None:
    latency = tmp_path / "latency"
    latency.touch()
    with awake(latency, driven_by(tmp_path, "intel_idle")):
        assert struct.unpack("=i", latency.read_bytes()) == (0,)


def test_it_is_told_for_no_longer_than_the_block(tmp_path: Path) -> None:
    latency = tmp_path / "latency"
    latency.touch()
    with awake(latency, driven_by(tmp_path, "haltpoll")):
        assert latency in open_files()
    assert latency not in open_files()


def open_files() -> list[Path]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found.append(link.readlink())
    return found


def test_a_machine_that_cannot_is_refused_and_not_measured_as_if_it_could(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"No such file.*without --awake"), awake(tmp_path / "no", tmp_path / "none"):
        pass
    with pytest.raises(SystemExit, match="Is a directory"), awake(tmp_path, driven_by(tmp_path, "haltpoll")):
        pass
    latency = tmp_path / "latency"
    latency.touch()
    with pytest.raises(SystemExit, match="no driver"), awake(latency, driven_by(tmp_path, "none")):
        pass
    assert latency.read_bytes() == b""
