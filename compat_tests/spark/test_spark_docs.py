"""The blocks of `docs/spark.md` and its folder and the cells of `examples/spark.ipynb` do what they say."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from compat_tests.environment import REPOSITORY
from gateway.client.testing.plugin import GatewayForTest

DOCS = REPOSITORY / "docs"
PAGES = [DOCS / "spark.md", *(DOCS / "spark" / f"{name}.md" for name in ("writing", "reading", "streams", "pipelines"))]
"""In the order in which a reader takes them; their blocks share one session."""
NOTEBOOK = REPOSITORY / "examples" / "spark.ipynb"


def test_every_block_of_the_pages_runs(spark: Any, rocketmq_gateway: GatewayForTest, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", "".join(page.read_text() for page in PAGES), re.DOTALL)
    assert len(blocks) >= 5
    for topic in ("orders", "totals"):
        rocketmq_gateway.admin.topics.create(topic, queues=2)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        text = block.replace("localhost:9876", rocketmq_gateway.nameserver).replace("/data/", f"{tmp_path}/")
        exec(compile(text, str(DOCS), "exec"), names)
    assert names["paid"].count() == 1
    assert names["archived"].count() == 3


def test_every_cell_of_the_notebook_runs_and_shows_what_was_committed(spark: Any) -> None:
    """In the session of the tests, which is the one that the notebook gets: no kernel is needed."""
    notebook = json.loads(NOTEBOOK.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells), "it is kept without what it showed"
    names: dict[str, Any] = {"__name__": "notebook"}
    try:
        shown = [_run(names, "".join(cell["source"])) for cell in cells]
    finally:
        names["server"].stop()
    assert shown[0] == names["server"].nameserver
    assert [value for value in shown if isinstance(value, int)] == [20, 20]
    [plot] = [value for value in shown if hasattr(value, "_repr_html_")]
    assert plot._repr_html_().startswith("<svg")
    assert "paid" in plot


def _run(names: dict[str, Any], cell: str) -> Any:
    """Run a cell; the value of its last line is what a notebook shows."""
    *body, last = ast.parse(cell, str(NOTEBOOK)).body
    shown = last.value if isinstance(last, ast.Expr) else None
    before = ast.Module(body if shown is not None else [*body, last], [])
    exec(compile(before, str(NOTEBOOK), "exec"), names)
    return None if shown is None else eval(compile(ast.Expression(shown), str(NOTEBOOK), "eval"), names)
