"""Pages of the documentation are short, say first what the reader can do after them, and have short lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
LINE_CHARACTERS = 120
PAGE_WORDS = 1_300
"""Of prose: rows of tables and blocks of code do not count."""
GENERATED = {
    "compatibility.md",
    "performance-values.md",
    "python-client/reference.md",
    "request-codes.md",
    "rewritten-messages.md",
}
"""Made by programs of their own; their tests compare them with what they are made of."""
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if "decisions" not in page.parts and str(page.relative_to(DOCS)) not in GENERATED
)
"""Decisions are never rewritten, so only their lines are judged."""


def _prose(page: Path) -> Iterator[str]:
    """The lines of a page that are neither code nor a row of a table."""
    in_code = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith(("|", "    ")):
            yield line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_says_first_what_the_reader_can_do_after_it_and_is_read_in_five_minutes(page: Path) -> None:
    lines = list(_prose(page))

    assert lines[0].startswith("# ")
    assert lines[2].startswith(("After this page you ", "After reading this page you ", "Read this page to "))
    assert [line for line in lines if len(line) > LINE_CHARACTERS and not line.startswith("`")] == []
    assert sum(len(line.split()) for line in lines) <= PAGE_WORDS


@pytest.mark.parametrize("decision", sorted((DOCS / "decisions").iterdir()), ids=lambda decision: decision.name)
def test_a_decision_has_short_lines(decision: Path) -> None:
    assert [line for line in _prose(decision) if len(line) > LINE_CHARACTERS] == []
