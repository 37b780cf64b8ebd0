"""Docstrings begin with a verb or a noun: a reader knows with the first word what a sentence is about."""

from __future__ import annotations

import ast
import re
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
    ]
)
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _product() -> list[Path]:
    """The modules of the product."""
    return [
        path for room in ("wire", "gateway") for path in (REPOSITORY / room).rglob("*.py") if "tests" not in path.parts
    ]


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = []
    for path in _product():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, _DOCUMENTED):
                text = ast.get_docstring(node) or "Nothing"
                if re.split(r"\W", text, maxsplit=1)[0].lower() in NO_FIRST_WORDS:
                    found.append(f"{path.relative_to(REPOSITORY)}: {text.splitlines()[0]}")
    assert found == []
