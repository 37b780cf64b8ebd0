"""What the package says of itself, and what building it needs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement

import gateway

ROOT = Path(gateway.__file__).parent.parent


@pytest.fixture
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_point_20_the_license_is_there_and_named(project: dict[str, Any]) -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "Apache Software\nFoundation" in (ROOT / "NOTICE").read_text()
    assert project["license"] == "Apache-2.0"
    metadata = ProjectMetadata(str(ROOT), PluginManager())
    assert metadata.core.license_files == ["LICENSE", "NOTICE"]


def test_point_20_the_metadata_says_who_made_it_and_for_whom(project: dict[str, Any]) -> None:
    assert project["authors"] == [{"name": "The RocketMQ Gateway authors"}]
    assert "Intended Audience :: Developers" in project["classifiers"]
    assert "Programming Language :: Python :: 3.11" in project["classifiers"]
    assert sorted(project["keywords"]) == project["keywords"]
    assert "urls" not in project, "there is no public address yet; see pyproject.toml"


def test_point_20_a_compiled_wheel_names_what_its_build_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HATCH_BUILD_HOOKS_ENABLE", raising=False)
    assert WheelBuilder(str(ROOT)).config.dependencies == []
    monkeypatch.setenv("HATCH_BUILD_HOOKS_ENABLE", "1")
    needed = {Requirement(text).name for text in WheelBuilder(str(ROOT)).config.dependencies}
    assert {"mypy", "mypy-zope", "setuptools", "construct-typing", "librt", "twisted"} <= needed
