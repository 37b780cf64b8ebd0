"""The script that measures how easy the product is to read, on a small product that was made up."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from textwrap import dedent
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "measure.py"


class Product:
    """Files below a folder, and what the script finds in them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._script: dict[str, Any] = run_path(str(SCRIPT))
        for package in ("wire", "gateway"):
            self.write(f"{package}/__init__.py", "")

    def write(self, path: str, text: str) -> None:
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))

    def places(self, title: str) -> list[tuple[int, str]]:
        """The places of the one figure whose title has these words."""
        [figure] = [found for found in self._script["figures"](self._root) if title in found.title]
        return sorted(tuple(place) for place in figure.places)

    def printed(self, *, with_places: bool) -> list[str]:
        return list(self._script["page"](self._script["figures"](self._root), with_places=with_places))


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(tmp_path)


def test_parameters_are_counted_without_self(product: Product) -> None:
    product.write(
        "gateway/wide.py",
        """
        def six(a, b, c, /, d, *, e, f): ...
        def seven(a, b, c, d, *rest, e, **more): ...
        class Store:
            def six(self, a, b, c, d, e, f): ...
            @classmethod
            async def seven(cls, a, b, c, d, e, f, g): ...
            def outer(self):
                if True:
                    def inner(a, b, c, d, e, f, g, h): ...
        """,
    )
    product.write("gateway/tests/test_wide.py", "def test(a, b, c, d, e, f, g): ...")
    assert product.places("parameters") == [
        (7, "gateway/wide.py:3 seven"),
        (7, "gateway/wide.py:7 Store.seven"),
        (8, "gateway/wide.py:10 Store.outer.inner"),
    ]


VALUES = """
    Place = NewType("Place", int)
    Rows: TypeAlias = "Sequence[Mode]"
    Told = Callable[[int], None]
    class Mode(Enum): ...
    class Pair(NamedTuple):
        mode: Mode
    @dataclass(frozen=True)
    class Terms:
        mode: Mode
        places: tuple[Place, ...]
    @dataclass(frozen=True)
    class Desk:
        told: Told
"""


def test_plain_values_are_no_collaborators(product: Product) -> None:
    product.write("gateway/values.py", VALUES)
    product.write(
        "gateway/working.py",
        """
        class Plain:
            def __init__(self, a: int, b: Place, c: Rows | None, d: Mode, e: Pair, f: Terms, g: Literal["x"]): ...
        class Eight:
            def __init__(self, a: Told, b: Desk, c: "Clock", d: list[Clock], e: Desk, f: Told, g: v.Desk, h: Told): ...
        class Seven(Eight):
            def __init__(self, a: Told, b: Told, c: Told, d: Told, e: Told, f: Told, g: Told, *, h: int = 0): ...
        """,
    )
    assert product.places("collaborators") == [(8, "gateway/working.py:4 Eight")]


def test_a_dataclass_works_if_it_has_a_method(product: Product) -> None:
    fields = "\n".join(f"    field_{number}: Clock" for number in range(8))
    made = "    made: Clock = field(init=False)\n    shared: ClassVar[Clock]"
    head = f"@dataclass\nclass {{}}:\n{fields}\n"
    product.write("gateway/data.py", head.format("Data") + "    @property\n    def first(self): ...\n")
    product.write("gateway/works.py", head.format("Works") + made + "\n    def run(self): ...\n")
    assert product.places("collaborators") == [(8, "gateway/works.py:2 Works")]


def test_full_folders_are_those_of_their_own_files(product: Product) -> None:
    for number in range(16):
        product.write(f"gateway/store/file_{number}.py", "")
        product.write(f"gateway/tests/file_{number}.py", "")
    product.write("gateway/store/log/file.py", "")
    assert product.places("folders") == []
    product.write("gateway/store/__init__.py", "")
    assert product.places("folders") == [(17, "gateway/store")]


def test_names_of_public_classes_are_compared_between_modules(product: Product) -> None:
    for path in ("wire/first.py", "gateway/second.py"):
        product.write(path, "class Same: ...\nclass _Hidden: ...\nclass Outer:\n    class Inner: ...\n")
    product.write("gateway/third.py", "class Same: ...\nclass Inner: ...")
    assert product.places("names") == [
        (2, "Outer: wire/first.py, gateway/second.py"),
        (3, "Same: wire/first.py, gateway/second.py, gateway/third.py"),
    ]


def test_results_that_are_told_apart_by_their_type(product: Product) -> None:
    product.write(
        "gateway/results.py",
        """
        isinstance(result, BaseException)
        isinstance(result, (int, BaseException))
        isinstance(result, int | Exception)
        isinstance(result, OSError)
        """,
    )
    assert product.places("told apart") == [(1, f"gateway/results.py:{line}") for line in (2, 3, 4)]


def test_a_line_for_each_figure_and_its_places_where_they_are_wanted(product: Product) -> None:
    product.write("gateway/wide.py", "def seven(a, b, c, d, e, f, g): ...\n\n")
    short, long = product.printed(with_places=False), product.printed(with_places=True)
    assert [line.split()[:5] for line in short[:1]] == [["1", "at", "most", "15", "functions"]]
    assert "2  at most 76,000  lines" in short[-1]
    assert len(short) == 6
    assert [line for line in long if line not in short] == [
        "              7  gateway/wide.py:1 seven",
        "              2  gateway",
        "              0  wire",
    ]
