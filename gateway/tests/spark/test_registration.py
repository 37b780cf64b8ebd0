"""The check of a session's needs before the session is used."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.spark import register, registration
from gateway.spark.errors import NotReady
from gateway.spark.registration import (
    java_before_start,
    java_problems,
    numbers,
    package_problems,
    worker_problems,
)


class Session:
    """A session that notes what is registered."""

    def __init__(self, java: str, python: str = sys.executable, master: str = "local[2]") -> None:
        system = SimpleNamespace(getProperty=lambda _: java)
        self._sc = SimpleNamespace(_jvm=SimpleNamespace(System=system), master=master, pythonExec=python)
        self.registered: list[Any] = []
        self.dataSource = SimpleNamespace(register=self.registered.append)


def test_the_source_is_registered_with_a_session_that_has_all_it_needs() -> None:
    session: Any = Session("17")
    register(session)
    assert [source.name() for source in session.registered] == ["rocketmq"]


def test_everything_that_is_missing_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"pyspark": "4.1.1", "pyarrow": None, "numpy": "2.4.6", "pandas": "2.3.3"}
    monkeypatch.setattr(registration, "_installed", installed.get)
    session: Any = Session("17")
    with pytest.raises(NotReady) as caught:
        register(session)
    assert "pyspark is 4.1.1; it takes 4.2 or later" in str(caught.value)
    assert 'pyarrow is not installed: pip install "rocketmq-gateway[spark]"' in str(caught.value)
    assert session.registered == []


def test_an_old_java_is_told_of() -> None:
    session: Any = Session("11")
    with pytest.raises(NotReady, match="Java is 11; Spark takes 17"):
        register(session)


def test_a_session_over_connect_has_its_java_and_its_workers_elsewhere() -> None:
    session: Any = SimpleNamespace()
    assert java_problems(session) == []
    assert worker_problems(session) == []


def a_python(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python for the workers is named, whatever the session says that it is."""
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")


@pytest.mark.parametrize("master", ["local", "local[2]"])
def test_point_13_workers_of_this_machine_run_on_this_python_unless_one_is_named(
    monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    session: Any = Session("17", "/nowhere/python3", master)
    register(session)
    assert session._sc.pythonExec == sys.executable
    assert len(session.registered) == 1


def test_workers_of_a_cluster_run_on_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    session: Any = Session("17", "python3", "spark://master:7077")
    register(session)
    assert session._sc.pythonExec == "python3"


@pytest.mark.usefixtures("named")
def test_workers_on_another_python_without_the_packages_are_told_of(tmp_path: Path) -> None:
    bare = a_python(tmp_path / "python3", "echo \"ModuleNotFoundError: No module named 'pyarrow'\" >&2; exit 1")
    session: Any = Session("17", bare)
    with pytest.raises(NotReady, match=f"run on {bare}, which lacks .* 'pyarrow'; .*PYSPARK_PYTHON={sys.executable}"):
        register(session)


def test_workers_on_another_python_that_is_not_there_are_told_of(tmp_path: Path) -> None:
    session: Any = Session("17", str(tmp_path / "python3"))
    assert worker_problems(session)[0].endswith(f"PYSPARK_PYTHON={sys.executable} in the environment")


def test_workers_on_a_python_that_cannot_be_run_are_told_of(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_bytes(b"\x7fELF, but no program")
    python.chmod(0o755)
    session: Any = Session("17", str(python))
    assert "python3, which cannot be run (" in worker_problems(session)[0]


@pytest.mark.parametrize("master", ["local", "local[2]"])
def test_workers_on_another_python_with_the_packages_are_fine(tmp_path: Path, master: str) -> None:
    session: Any = Session("17", a_python(tmp_path / "python3", "exit 0"), master)
    assert worker_problems(session) == []


def test_workers_of_a_cluster_are_elsewhere() -> None:
    session: Any = Session("17", "/nowhere/python3", "spark://master:7077")
    assert worker_problems(session) == []


def test_this_environment_has_what_it_needs() -> None:
    assert package_problems() == []


def a_java(home: Path, version: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IEXEC)


@pytest.mark.parametrize(
    ("version", "is_fine"), [("17.0.15", True), ("21", True), ("11.0.2", False), ("1.8.0_402", False)]
)
def test_java_is_looked_at_before_a_session_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_fine: bool
) -> None:
    a_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    problem = java_before_start()
    assert (problem is None) == is_fine
    assert is_fine or version in str(problem)


def test_no_java_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no Java" in str(java_before_start())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "cannot be run" in str(java_before_start())


def test_versions_are_compared_by_their_numbers() -> None:
    assert numbers("4.10.0.dev1") > numbers("4.2") > numbers("4.1.9")
    assert numbers("unknown") == ()
