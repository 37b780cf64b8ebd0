"""One filled directory for all tests; each gets a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.tests.store_tool.small_directory import fill


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    directory = tmp_path_factory.mktemp("original") / "data"
    fill(directory)
    return directory


@pytest.fixture
def directory(original: Path, tmp_path: Path) -> Path:
    """To be damaged."""
    return Path(shutil.copytree(original, tmp_path / "data"))
