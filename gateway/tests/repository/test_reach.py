from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.tests import reach
from gateway.tests.reach import main, reaches_compiled


def forget() -> None:
    """Forget the sources that were read."""
    reach.imported.cache_clear()
    reach.source_of.cache_clear()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with one compiled module, `gateway.hot`, and one that imports it, `gateway.warm`."""
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "tests").mkdir()
    lazy = "if TYPE_CHECKING:\n    from gateway.hot import work\ndef __getattr__(name): ..."
    for name, text in {
        "__init__.py": "",
        "tests/__init__.py": "",
        "lazy.py": lazy,
        "hot.py": "",
        "warm.py": "def later():\n    from gateway.hot import work\n",
        "cold.py": "'gateway.hot'\nfrom gateway import tepid\nimport os.path\n",
        "tepid.py": "import gateway.cold\n",
    }.items():
        (tmp_path / "gateway" / name).write_text(text)
    monkeypatch.setattr(reach, "ROOT", tmp_path)
    monkeypatch.setattr(reach, "COMPILED", frozenset({"gateway.hot"}))
    monkeypatch.chdir(tmp_path)
    forget()
    yield tmp_path
    forget()


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("from gateway.hot import work", True),
        ("from gateway import hot", True),
        ("import gateway.hot as other", True),
        ("from gateway.warm import later", True),
        ("def test():\n    from gateway import warm", True),
        ("import_module('gateway.warm')", True),
        ("run('-c', 'import gateway.hot; gateway.hot.work()')", True),
        ("from gateway.lazy import work", True),
        ("from gateway.cold import name", False),
        ("if TYPE_CHECKING:\n    from gateway.hot import work", False),
        ("import gateway, click, nowhere.hot", False),
        ("work('gateway.hotter')", False),
        ("def test():\n    'The opposite of gateway.hot.'", False),
    ],
)
def test_a_file_reaches_what_it_imports_or_names_by_any_way(tree: Path, text: str, does: bool) -> None:
    (tree / "gateway" / "tests" / "test_it.py").write_text(text)
    assert reaches_compiled(Path("gateway/tests/test_it.py")) is does


def test_the_command_prints_those_that_do(tree: Path) -> None:
    for name, text in {"test_b.py": "import gateway.warm", "test_a.py": "import gateway.hot", "test_c.py": ""}.items():
        (tree / "gateway" / name).write_text(text)
    printed = CliRunner().invoke(main, ["gateway"]).output
    assert printed.split() == ["gateway/test_a.py", "gateway/test_b.py"]


def test_tests_of_sends_are_run_compiled_and_those_of_pages_are_not() -> None:
    assert reaches_compiled(Path("gateway/tests/broker/requests/sending/test_send.py"))
    assert not reaches_compiled(Path("gateway/tests/test_limits_page.py"))
