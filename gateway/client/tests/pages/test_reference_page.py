"""The reference in the documentation says what the docstrings say."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

import pytest

import gateway.client

SCRIPT = Path(__file__).parents[4] / "docs" / "client_reference.py"
PAGE = SCRIPT.parent / "python-client" / "reference.md"


def test_the_page_is_what_its_script_writes() -> None:
    page: str = run_path(str(SCRIPT))["page"]()
    assert PAGE.read_text(encoding="utf-8") == page, "run: python docs/client_reference.py"


@pytest.mark.parametrize("name", [name for name in gateway.client.__all__ if name != "aio"])
def test_every_public_name_is_on_the_page(name: str) -> None:
    assert re.search(f"^### {name}$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in gateway.client.__all__ if name.endswith("Settings")])
def test_every_setting_is_on_the_page(name: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for setting in getattr(gateway.client, name).__dataclass_fields__:
        assert f"\n| `{setting}` |" in page
