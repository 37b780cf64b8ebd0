"""Compiling the hot modules into the wheel, when ``HATCH_BUILD_HOOKS_ENABLE=1`` asks for it.

The sources are the same with and without: mypyc turns the modules that have the line ``MARK`` into one extension
module, which Python prefers to the source beside it. A module without that line is run too seldom, or is made by
msgspec.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("wire", "gateway")
MARK = "# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md"
"""The line that a compiled module has below its docstring."""
OPTIMISATION = "2"
"""Of the C compiler."""
WITHIN_ITSELF = ("-fvisibility=hidden", "-fno-plt") if os.name == "posix" else ()
"""What compiled functions call is one of them and cannot be replaced from outside: such calls go there directly, or are
put in their place, instead of looking up an address each time.
"""
UNASKED = ("-Wno-misleading-indentation",) if os.name == "posix" else ()
"""Switches off a warning of ``-Wall`` about source that people write: GCC took a third of its time to look for it."""


class AcceleratedBuildHook(BuildHookInterface):
    """hatchling finds it by its kind; an editable install stays pure Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the results beside their sources in the wheel."""
        if version != "standard":
            return
        output = Path(self.root, "build", "mypyc")
        for path in compiled(Path(self.root), marked(Path(self.root)), output):
            build_data["force_include"][str(path)] = str(path.relative_to(output / "lib"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def marked(root: Path) -> list[str]:
    """Return the paths below ``root`` of the modules to compile, in order."""
    paths = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    return sorted(
        str(path.relative_to(root))
        for path in paths
        if "tests" not in path.relative_to(root).parts and MARK in path.read_text(encoding="utf-8").splitlines()
    )


def compiled(root: Path, modules: list[str], output: Path) -> Iterator[Path]:
    """Compile modules, named by their paths below ``root``; the extension modules, below ``output / "lib"``.

    ``output`` is made anew.
    """
    from mypyc.build import mypycify  # needed by the hook only, see its dependencies in pyproject.toml
    from setuptools import Distribution

    shutil.rmtree(output, ignore_errors=True)  # or what an earlier list of modules left would be found too
    output.mkdir(parents=True)
    with _working_directory(root):
        extensions = mypycify(
            ["--config-file", "pyproject.toml", *modules],
            opt_level=OPTIMISATION,
            debug_level="0",
            target_dir=str(output / "source"),
        )
        for extension in extensions:
            extension.extra_compile_args += WITHIN_ITSELF + UNASKED
        command: Any = Distribution({"name": "accelerated", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(output / "lib"), str(output / "temp")
        command.ensure_finalized()
        command.run()
    return (output / "lib").rglob("*.so")


@contextmanager
def _working_directory(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
