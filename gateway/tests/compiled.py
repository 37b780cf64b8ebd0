"""The check that loaded modules are compiled: a long compiled run must not run interpreted by mistake."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from runpy import run_path

import click

ROOT = Path(__file__).parents[2]
MODULES: list[str] = run_path(str(ROOT / "hatch_build.py"))["marked"](ROOT)
"""Paths of the modules that `make accelerate` compiles."""


def interpreted() -> list[str]:
    """Return the modules that are loaded from their source."""
    names = [path.removesuffix(".py").replace("/", ".") for path in MODULES]
    return [name for name in names if str(import_module(name).__file__).endswith(".py")]


def refuse_interpreted() -> None:
    """Refuse to go on unless all of them are compiled.

    :raises click.ClickException: naming one that is not.
    """
    found = interpreted()
    if found:
        raise click.ClickException(f"{len(found)} of {len(MODULES)} modules are not compiled, {found[0]} for one")
