"""The page of limits names every setting that is a limit, with its default and its unit."""

from __future__ import annotations

import importlib
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from gateway.settings.declare import Declaration, Mark, declarations
from gateway.settings.tree import Settings

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
_ROW = re.compile(r"^\| `(?P<name>[\w.]+)` \| (?P<default>[^|]+) \| (?P<unit>[^|]+) \| (?P<rest>.+) \|$")
_CONSTANT = re.compile(r"(?P<module>[a-z_][\w.]*)\.(?P<constant>[A-Z][A-Z0-9_]*)")


class Row(NamedTuple):
    name: str
    default: str
    unit: str
    rest: list[str]
    """What is refused, the scope and the cost at the limit."""


def _sections() -> list[list[Row]]:
    """The rows of each table on the page."""
    sections: list[list[Row]] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            sections.append([])
        elif line.startswith("| `"):
            matched = _ROW.match(line)
            assert matched is not None, f"no row of six cells: {line}"
            rest = [cell.strip() for cell in matched["rest"].split(" | ")]
            sections[-1].append(Row(matched["name"], matched["default"], matched["unit"], rest))
    return sections


def _rows() -> list[Row]:
    return [row for section in _sections() for row in section]


def _limits() -> dict[str, Declaration]:
    return {key: declared for key, declared in declarations(Settings).items() if Mark.LIMIT in declared.marks}


def _default_of(row: Row) -> object:
    """The value in the code; the test fails for a name that nothing has."""
    declared = _limits().get(row.name)
    if declared is not None:
        return getattr(Settings, declared.attribute)
    matched = _CONSTANT.fullmatch(row.name)
    assert matched is not None, f"{row.name} is neither a setting with Mark.LIMIT nor a constant of a module"
    return getattr(importlib.import_module(matched["module"]), matched["constant"])


def test_each_limit_has_one_row() -> None:
    names = [row.name for row in _rows()]
    assert sorted(names) == sorted(set(names)), "a limit has two rows"
    assert not set(_limits()) - set(names), "settings with Mark.LIMIT that have no row"


def test_each_row_has_the_default_and_the_unit_of_the_code() -> None:
    for row in _rows():
        assert row.default == str(_default_of(row)), row.name
        declared = _limits().get(row.name)
        assert declared is None or not declared.unit or row.unit == declared.unit, row.name


def test_each_row_says_what_is_refused_where_and_what_it_costs() -> None:
    for row in _rows():
        assert len(row.rest) == 3, row.name
        assert all(row.rest), row.name


def test_rows_stand_in_the_order_of_their_names() -> None:
    for section in _sections():
        assert section, "a section without rows"
        for before, after in pairwise(row.name for row in section):
            assert before < after, f"{after} belongs before {before}"
