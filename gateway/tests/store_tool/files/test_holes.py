"""Holes of files stay holes: on a file system in memory, one that is filled takes room."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.store_tool.checks.stretch_walk import LogStretch, walk
from gateway.tests.store_tool.small_directory import index_file, log_file, run

PAGE = mmap.PAGESIZE
MEMORY = Path("/dev/shm")
"""A tmpfs, where reading a hole through a map takes room."""


@pytest.fixture
def folder() -> Iterator[Path]:
    if not os.access(MEMORY, os.W_OK):
        pytest.skip("there is no tmpfs")
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


def _sparse(path: Path, size: int, parts: dict[int, bytes]) -> None:
    with path.open("wb") as file:
        file.truncate(size)
        for position, part in parts.items():
            file.seek(position)
            file.write(part)


def test_walking_through_a_log_file_fills_no_hole_of_it(folder: Path, original: Path) -> None:
    path = folder / "file"
    content = log_file(original, 0).read_bytes()
    size = len(content) + 256 * PAGE
    _sparse(path, size, {0: content})
    before = path.stat().st_blocks
    result = walk(LogStretch(path, 0, size, 0, size))
    assert result.records > 0
    assert path.stat().st_blocks == before


def test_verifying_fills_no_hole_of_any_file(folder: Path, original: Path) -> None:
    data = folder / "data"
    files = [path for path in original.rglob("*") if path.is_file()]
    for path in files:
        content = path.read_bytes()
        target = data / path.relative_to(original)
        target.parent.mkdir(parents=True, exist_ok=True)
        pages = {at: content[at : at + PAGE] for at in range(0, len(content), PAGE)}
        _sparse(target, len(content), {at: part for at, part in pages.items() if part.strip(b"\x00")})
    before = {path: path.stat().st_blocks for path in data.rglob("*")}
    assert run("verify", data).exit_code == 0
    assert run("dump", data, "--scan").exit_code == 0
    assert index_file(data) in before
    assert {path: path.stat().st_blocks for path in data.rglob("*") if path in before} == before
