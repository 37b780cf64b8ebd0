"""Docstrings, and the texts below attributes, begin with a verb or a noun: the first word says what they are about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
NO_FIRST_WORDS = frozenset(
    [
        "of",
        "so",
        "see",
        "as",
        "what",
        "which",
        "whether",
        "how",
        "where",
        "who",
        "whom",
        "whose",
        "why",
        "when",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "they",
        "he",
        "some",
        "others",
        "same",
        "none",
        "with",
    ]
)
HARD_WORDS = re.compile(r"\b(anew|hence|thereof|therein|whereof|wherein|heretofore|inasmuch)\b", re.IGNORECASE)
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _product() -> list[Path]:
    """The modules of the product."""
    return [
        path for room in ("wire", "gateway") for path in (REPOSITORY / room).rglob("*.py") if "tests" not in path.parts
    ]


def _texts(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module, and the texts below its attributes."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            yield ast.get_docstring(node) or "Nothing"
            for before, after in pairwise(node.body):
                if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
                    match after.value:
                        case ast.Constant(value=str(text)):
                            yield text


def test_docstrings_have_no_words_that_a_reader_has_to_look_up() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}: {text}"
        for path in _product()
        for text in _texts(ast.parse(path.read_text(encoding="utf-8")))
        if HARD_WORDS.search(text)
    ]
    assert found == []


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = []
    for path in _product():
        for text in _texts(ast.parse(path.read_text(encoding="utf-8"))):
            if re.split(r"\W", text, maxsplit=1)[0].lower() in NO_FIRST_WORDS:
                found.append(f"{path.relative_to(REPOSITORY)}: {text.splitlines()[0]}")
    assert found == []
