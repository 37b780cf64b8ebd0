"""What the modules that `make accelerate` compiles must not do."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
    "hooks"
]["custom"]["modules"]


@pytest.mark.parametrize("module", MODULES)
def test_no_function_within_a_function(module: str) -> None:
    """Compiled, it and its surroundings are a circle, which stays in memory until all garbage is collected.

    A method and ``functools.partial`` do the same.
    """
    tree = ast.parse((ROOT / module).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {
        f"{node.name}, line {node.lineno}"
        for function in functions
        for node in ast.walk(function)
        if node is not function and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not inner
