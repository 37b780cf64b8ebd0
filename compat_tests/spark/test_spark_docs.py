"""The blocks of `docs/spark.md` do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from compat_tests.environment import REPOSITORY
from gateway.client.testing.plugin import GatewayForTest

PAGE = REPOSITORY / "docs" / "spark.md"


def test_every_block_of_the_page_runs(spark: Any, rocketmq_gateway: GatewayForTest, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    for topic in ("orders", "totals"):
        rocketmq_gateway.admin.topics.create(topic, queues=2)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        text = block.replace("localhost:9876", rocketmq_gateway.nameserver).replace("/data/", f"{tmp_path}/")
        exec(compile(text, str(PAGE), "exec"), names)
    assert names["paid"].count() == 1
    assert names["archived"].count() == 3
