"""The Pythons of this machine: how clients start, end, fork and are interrupted differs between them.

    python -m gateway.client.tests.programs.pythons

looks for them and installs what the client needs beside each, below ``build/pythons``. Tests then run on all of them,
and ``make test`` names the versions that are not there. The environment variable ``ROCKETMQ_GATEWAY_PYTHONS`` names
further ones: paths of interpreters, separated as in ``PATH``.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SUPPORTED: Final = ("3.11", "3.12", "3.13", "3.14")
VARIABLE: Final = "ROCKETMQ_GATEWAY_PYTHONS"

_ROOT: Final = Path(__file__).parents[4]
_BUILD: Final = _ROOT / "build" / "pythons"
_OWN: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_NEEDED: Final = ("librt", "msgspec", "mypy-extensions")
"""Packages that ``gateway.client`` and its part of ``wire`` import."""
_ASK: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


@functools.cache
def found() -> dict[str, str]:
    """Interpreters by version, the one that runs included."""
    pythons = {_OWN: sys.executable}
    for candidate in _candidates():
        version = _version_of(candidate)
        if version in SUPPORTED:
            pythons.setdefault(version, candidate)
    return {version: pythons[version] for version in SUPPORTED if version in pythons}


def ready() -> dict[str, str]:
    """Return the Pythons of ``found`` that have what the client needs."""
    return {version: path for version, path in found().items() if version == _OWN or _packages(version).is_dir()}


def missing() -> str:
    """Return the versions on which tests cannot run here, for people; empty if there is none."""
    left = [
        f"{version} (run `make test-unit`, which installs what it needs)" if version in found() else version
        for version in SUPPORTED
        if version not in ready()
    ]
    return f"not tried, since this machine lacks them: Python {', '.join(left)}" if left else ""


def environment(version: str) -> dict[str, str]:
    """The environment for a program that uses the client on one of the interpreters that are ``ready``."""
    packages = [] if version == _OWN else [str(_packages(version))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *packages]),
        "PYTHONPYCACHEPREFIX": str(_BUILD / "pycache"),
    }


def _candidates() -> Iterator[str]:
    """Return Pythons: those of the environment variable first, then of ``.ci/install-python``, ``PATH``, and pyenv."""
    yield from filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    shims = str(pyenv / "shims")  # they are there for versions that are not switched on, too
    path = os.pathsep.join(part for part in os.environ.get("PATH", "").split(os.pathsep) if part != shims)
    for version in SUPPORTED:
        yield from map(str, (_BUILD / "bin").glob(f"python{version}"))
        on_path = shutil.which(f"python{version}", path=path)
        if on_path is not None:
            yield on_path
        yield from map(str, sorted((pyenv / "versions").glob(f"{version}.*/bin/python{version}"), reverse=True))


def _version_of(interpreter: str) -> str:
    try:
        done = subprocess.run([interpreter, "-I", "-c", _ASK], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _packages(version: str) -> Path:
    return _BUILD / version


def _install(version: str) -> None:
    """Install what is needed for a version, as it is locked; the interpreter need not have pip."""
    lock = (_ROOT / "requirements.lock").read_text(encoding="utf-8")
    wanted = "".join(re.findall(rf"^(?:{'|'.join(_NEEDED)})==.*\n(?:    --hash.*\n)*", lock, re.MULTILINE))
    _BUILD.mkdir(parents=True, exist_ok=True)
    requirements = _BUILD / "requirements.txt"
    requirements.write_text(wanted, encoding="utf-8")
    partial = _BUILD / f"{version}.part"
    shutil.rmtree(partial, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    command += ["--require-hashes", "--only-binary", ":all:", "--python-version", version, "--target", str(partial)]
    if subprocess.run([*command, "-r", str(requirements)], check=False).returncode == 0:
        partial.rename(_packages(version))


def main() -> None:
    """Install what is missing and say which Pythons the tests will run on."""
    for version in found():
        if version not in ready():
            _install(version)
    lines = [f"the client is tested on Python {', '.join(ready())}", *filter(None, [missing()])]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
