"""The blocks of `docs/python-client.md` do what the page says, against a gateway."""

from __future__ import annotations

import re
from typing import Any

from compat_tests.environment import REPOSITORY
from gateway.client.testing.plugin import GatewayForTest

PAGE = REPOSITORY / "docs" / "python-client.md"


def test_every_block_of_the_page_runs(rocketmq_gateway: GatewayForTest) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 7
    rocketmq_gateway.admin.topics.create("orders", queues=4)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block.replace("localhost:9876", rocketmq_gateway.nameserver), str(PAGE), "exec"), names)
    assert {message.topic for message in names["received"]} == {"orders"}
    assert names["count"] >= 200
    names["test_an_order_is_announced"](rocketmq_gateway)
