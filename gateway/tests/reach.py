"""The test files that have to run with the compiled packages too: those that import a compiled module, by any way.

    python -m gateway.tests.reach wire gateway/tests    prints their paths

A module that a test names in a text counts as imported: it may be loaded by its name, or started as a process.
What a test file does not name it cannot call, and run interpreted it has said all there is to say.
"""

from __future__ import annotations

import ast
import gc
import re
from functools import cache
from pathlib import Path

import click

from gateway.tests.compiled import MODULES, ROOT

COMPILED = frozenset(path.removesuffix(".py").replace("/", ".") for path in MODULES)
PACKAGES = frozenset({"wire", "gateway"})
NAME = re.compile(r"\b(?:wire|gateway)(?:\.\w+)+")


def path_of(module: str) -> Path | None:
    """The source of a module or package of ours; None for what is neither."""
    path = ROOT.joinpath(*module.split("."))
    for source in (path.with_suffix(".py"), path / "__init__.py"):
        if source.exists():
            return source
    return None


@cache
def imported(module: str) -> frozenset[str]:
    """The modules of ours that a module imports anywhere, with the packages that they lie in.

    ``from a import b`` may mean a module ``b``. A package that loads its names when they are used is taken for all
    that it can load when one of them is wanted, or the package as a whole.
    """
    tree = source_of(module)
    names = _imported_names(tree)
    if ".tests." in module:
        names += _named_in_texts(tree)
    lazy = {package for package in map(_module_of, names) if package and _loads_later(package)}
    names += [name for package in lazy for name in _imported_names(source_of(package), of_types=True)]
    parts = [name.split(".") for name in names]
    found = {".".join(words[:length]) for words in parts for length in range(1, len(words) + 1)}
    return frozenset(name for name in found if _module_of(name) == name)


def _module_of(name: str) -> str | None:
    """The module of ours that a name means, or that it lies in."""
    for module in (name, name.rpartition(".")[0]):
        if module.split(".")[0] in PACKAGES and path_of(module) is not None:
            return module
    return None


@cache
def source_of(module: str) -> ast.Module:
    """Return the source of a module of ours."""
    path = path_of(module)
    assert path is not None, module
    return ast.parse(path.read_text())


def _loads_later(package: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in source_of(package).body)


def _imported_names(tree: ast.Module, *, of_types: bool = False) -> list[str]:
    """Return the imported names; ``of_types``: also those that only type checkers import."""
    names = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "modules are named in full"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif of_types or not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(node)
    return names


def _named_in_texts(tree: ast.Module) -> list[str]:
    """Return the modules that texts name; docstrings do not count."""
    nodes = list(ast.walk(tree))
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and node not in docstrings]
    return [name for text in texts if isinstance(text, str) for name in NAME.findall(text)]


def reaches_compiled(test_file: Path) -> bool:
    """Return whether a test file, given from the top of the repository, imports a compiled module, by any way."""
    waiting = [".".join(test_file.with_suffix("").parts)]
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in COMPILED:
            return True
        if module not in seen:
            seen.add(module)
            waiting += imported(module)
    return False


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
def main(folders: tuple[Path, ...]) -> None:
    """Print the test files below FOLDERS that reach a compiled module."""
    for folder in folders:
        for path in sorted(folder.rglob("test_*.py")):
            if reaches_compiled(path):
                click.echo(path)


if __name__ == "__main__":
    gc.disable()  # no tree is given back, and looking at them again and again takes more than half of the time
    main()
