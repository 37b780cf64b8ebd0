"""The metadata of the package, and the needs of its build."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from trove_classifiers import classifiers

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
    assert {"mypy", "mypy-zope", "setuptools", "librt", "twisted"} <= needed
    assert "construct" not in needed


def test_point_20_every_classifier_is_one(project: dict[str, Any]) -> None:
    assert set(project["classifiers"]) <= classifiers


def last_stage() -> list[str]:
    """Instructions of the image that is made, each in one line."""
    text = (ROOT / "docker" / "gateway" / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    first = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    return lines[first:]


def test_point_20_the_image_runs_without_privileges_and_is_watched() -> None:
    """``test_container.py`` asks the image itself, where there is a Docker engine."""
    stage = last_stage()
    users = [line for line in stage if line.startswith("USER ")]
    assert users == ["USER 10001:10001"]
    kinds = [line.split()[0] for line in stage]
    assert kinds.index("USER") > max(number for number, kind in enumerate(kinds) if kind == "RUN")
    (watch,) = (line for line in stage if line.startswith("HEALTHCHECK "))
    assert "/readyz" in watch


def test_compose_takes_away_what_the_container_does_not_need() -> None:
    """``test_container.py`` looks at a container with these options."""
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    wanted = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
    assert services["gateway"].items() >= wanted.items()
    assert services["gateway"]["tmpfs"] == ["/tmp:size=16m"]


def test_the_unit_of_systemd_takes_away_what_the_service_does_not_need() -> None:
    lines = (ROOT / "systemd" / "rocketmq-gateway.service").read_text().splitlines()
    wanted = {"User=rocketmq-gateway", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="}
    assert wanted <= set(lines)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there")
def test_systemd_understands_the_unit_and_finds_it_little_exposed() -> None:
    unit = str(ROOT / "systemd" / "rocketmq-gateway.service")
    said = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False).stderr
    about_us = [line for line in said.splitlines() if "rocketmq-gateway.service" in line]
    assert [line for line in about_us if "is not executable: No such file or directory" not in line] == []
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout[-200:]


@pytest.mark.parametrize(("undisturbed_turn", "chosen"), [(1, 0), (6, 0), (9, 0), (10, 1)])
def test_a_python_that_a_neighbour_slows_down_in_most_turns_is_still_known_as_the_faster_one(
    tmp_path: Path, undisturbed_turn: int, chosen: int
) -> None:
    functions = (ROOT / ".ci" / "make-venv").read_text().partition("\npython=")[0]
    stand_in = f"""
        work_us() {{
            [ "$1" = fast ] || {{ echo 180; return; }}
            echo turn >> turns
            [ "$(wc -l < turns)" -lt {undisturbed_turn} ] && echo 200 || echo 100
        }}
        is_faster fast slow
    """
    said = subprocess.run(["sh", "-c", functions + stand_in, "make-venv", "venv"], cwd=tmp_path, check=False)
    assert said.returncode == chosen


def test_point_20_the_image_is_compiled() -> None:
    text = " ".join((ROOT / "docker" / "gateway" / "Dockerfile").read_text().replace("\\\n", " ").split())
    assert "HATCH_BUILD_HOOKS_ENABLE=1 venv/bin/pip wheel" in text


def test_point_20_the_readme_has_the_commands_for_an_image_and_a_compiled_wheel() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = [line.strip() for line in readme.splitlines() if line.startswith("    docker ")]
    build, run = commands
    assert build == "docker build -t rocketmq-gateway -f docker/gateway/Dockerfile ."
    assert run.split()[-1] == "rocketmq-gateway"
    for port in ("9876", "10911"):
        assert f":{port}:{port}" in run
    assert ":/data " in run
    assert "HATCH_BUILD_HOOKS_ENABLE=1 pip wheel ." in readme
