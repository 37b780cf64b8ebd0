"""The page of request codes says what the servers do."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

SCRIPT = Path(__file__).parents[2] / "docs" / "request_codes.py"


def test_the_page_is_what_its_script_writes() -> None:
    script = run_path(str(SCRIPT))
    page: str = script["page"]()
    assert script["PAGE"].read_text(encoding="utf-8") == page, "run: python docs/request_codes.py"


def test_each_code_belongs_to_one_kind_of_server() -> None:
    script = run_path(str(SCRIPT))
    assert not script["TO_NAME_SERVERS"] & script["TO_OTHERS"]
