"""Processors that are kept awake, as `python -m benchmarks --awake` does."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.awake import awake


@pytest.fixture
def latency(tmp_path: Path) -> Path:
    """Return a file in place of the kernel's device."""
    path = tmp_path / "latency"
    path.touch()
    return path


@pytest.fixture
def quickest(tmp_path: Path) -> Path:
    """Return a file that names the quickest state of processors that can poll."""
    path = tmp_path / "name"
    path.write_text("POLL\n")
    return path


def open_files() -> list[Path]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found.append(link.readlink())
    return found


def test_the_kernel_is_told_that_no_time_may_be_lost_by_waking_for_as_long_as_the_block(
    latency: Path, quickest: Path
) -> None:
    with awake(latency, quickest):
        assert struct.unpack("=i", latency.read_bytes()) == (0,)
        assert latency in open_files()
    assert latency not in open_files()


def test_a_machine_that_cannot_is_refused_and_not_measured_as_if_it_could(
    tmp_path: Path, latency: Path, quickest: Path
) -> None:
    with pytest.raises(SystemExit, match=r"No such file.*needs root"), awake(tmp_path / "no", quickest):
        pass
    assert not (tmp_path / "no").exists()
    with pytest.raises(SystemExit, match="No such file"), awake(latency, tmp_path / "no"):
        pass
    with pytest.raises(SystemExit, match="No space left"), awake(Path("/dev/full"), quickest):
        pass
    quickest.write_text("WFI\n")
    with pytest.raises(SystemExit, match="WFI, not POLL"), awake(latency, quickest):
        pass
    assert latency.read_bytes() == b""
