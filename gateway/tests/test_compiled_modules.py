"""The rules for modules that `make accelerate` compiles, because compiled code would behave otherwise.

Why: docs/decisions/0023-compiled-is-not-interpreted.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from runpy import run_path

import pytest

from gateway.tests.compiled import MODULES, ROOT


@pytest.mark.parametrize("module", MODULES)
def test_no_function_within_a_function(module: str) -> None:
    """Compiled, it and its surroundings are a circle, which stays in memory until all garbage is collected.

    A method and ``functools.partial`` do the same.
    """
    tree = tree_of(module)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {
        f"{node.name}, line {node.lineno}"
        for function in functions
        for node in ast.walk(function)
        if node is not function and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not inner


def test_the_modules_to_compile_are_those_with_the_mark(tmp_path: Path) -> None:
    build = run_path(str(ROOT / "hatch_build.py"))
    mark = build["MARK"]
    for path, text in {
        "wire/marked.py": f'"""What it is for."""\n\n{mark}\n\nimport os\n',
        "wire/deep/marked.py": f"{mark}\n",
        "wire/mentions.py": f'"""About ``{mark}``."""\n',
        "wire/plain.py": "",
        "wire/tests/marked.py": f"{mark}\n",
        "other/marked.py": f"{mark}\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert build["marked"](tmp_path) == ["wire/deep/marked.py", "wire/marked.py"]


def test_no_mark_is_misspelt() -> None:
    """A module whose mark differs in one letter would not be compiled, and nobody would notice."""
    mark = "mypyc" + ":"
    sources = [path for package in ("wire", "gateway") for path in (ROOT / package).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in sources
        if any(
            line.startswith("#") and mark in line.casefold() for line in path.read_text(encoding="utf-8").split("\n")
        )
    }
    assert found == set(MODULES)


RECURSIVE = {
    "wire/message/digits.py": {"write_decimal"},  # once for each digit of 64 bits
}
"""Functions that call themselves, and why they end soon."""


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text())


def nodes_of(module: str) -> Iterator[ast.AST]:
    return ast.walk(tree_of(module))


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes of a function, or of a part of one, without its lambdas and generator expressions."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.Lambda | ast.GeneratorExp):
            yield node
            yield from own_nodes(node)


@pytest.mark.parametrize("module", MODULES)
def test_no_field_has_a_type_that_is_imported_for_type_checkers_only(module: str) -> None:
    """Compiled, the annotations of fields are evaluated when the module is imported, which then fails."""
    absent = {
        alias.asname or alias.name
        for node in nodes_of(module)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for part in ast.walk(node)
        if isinstance(part, ast.ImportFrom)
        for alias in part.names
    }
    fields = [
        field
        for node in nodes_of(module)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    ]
    found = {
        f"{ast.unparse(field.target)}: {name.id}, line {field.lineno}"
        for field in fields
        for name in ast.walk(field.annotation)
        if isinstance(name, ast.Name) and name.id in absent
    }
    assert not found


@pytest.mark.parametrize("module", MODULES)
def test_no_generator_waits_where_something_has_to_be_done_afterwards(module: str) -> None:
    """Compiled, a generator that is dropped half-way never gets to its ``finally``, nor to the end of a ``with``."""
    waits = {
        node.lineno
        for node in nodes_of(module)
        if isinstance(node, ast.With) or (isinstance(node, ast.Try) and node.finalbody)
        for inner in own_nodes(node)
        if isinstance(inner, ast.Yield | ast.YieldFrom)
    }
    assert not waits


@pytest.mark.parametrize("module", MODULES)
def test_no_function_calls_itself(module: str) -> None:
    """Compiled, nobody counts how deep it goes: the process ends with a segmentation fault."""
    tree = tree_of(module)
    methods = [(method, "self") for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for method in node.body]
    found = {
        function.name
        for function, owner in [*[(node, "") for node in tree.body], *methods]
        if isinstance(function, ast.FunctionDef)
        for node in own_nodes(function)
        if isinstance(node, ast.Call) and called(node.func, owner) == function.name
    }
    assert found == RECURSIVE.get(module, set())


def called(function: ast.expr, owner: str) -> str | None:
    """The name of a method of the owner, or of a plain function where there is none."""
    if owner:
        is_own = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
        return function.attr if is_own and function.value.id == owner else None  # type: ignore[attr-defined]
    return function.id if isinstance(function, ast.Name) else None


@pytest.mark.parametrize("module", MODULES)
def test_nothing_depends_on_when_an_object_goes(module: str) -> None:
    """Compiled, a local goes after its last use, which may be before the call that was given something of it."""
    finalisers = [
        node.lineno for node in nodes_of(module) if isinstance(node, ast.FunctionDef) and node.name == "__del__"
    ]
    names = {node.id for node in nodes_of(module) if isinstance(node, ast.Name)}
    assert len(finalisers) == (module == "gateway/store/disk/open_files.py"), "which only closes what nobody can use"
    assert "weakref" not in names


@pytest.mark.parametrize("module", MODULES)
def test_no_class_makes_a_default_of_an_attribute_for_all_objects(module: str) -> None:
    """Compiled, the expression is evaluated for each of them."""
    calls = {
        value.lineno
        for node in nodes_of(module)
        if isinstance(node, ast.ClassDef)
        for value in [statement.value for statement in node.body if isinstance(statement, ast.Assign | ast.AnnAssign)]
        if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp)
        or (isinstance(value, ast.Call) and called(value.func, "") != "field")
    }
    assert not calls


WORDS_OF_GCC = frozenset(
    {
        *("alignof", "asm", "attribute", "complex", "const", "imag", "inline", "real", "restrict", "signed"),
        *("thread", "typeof", "volatile"),
    }
)


@pytest.mark.parametrize("module", MODULES)
def test_no_attribute_becomes_a_word_of_the_compiler(module: str) -> None:
    """Compiled, ``self._signed`` is a member ``__signed`` of a C structure, which gcc does not take for a name."""
    attributes = {node.attr for node in ast.walk(tree_of(module)) if isinstance(node, ast.Attribute)}
    assert not attributes & {f"_{word}" for word in WORDS_OF_GCC}
