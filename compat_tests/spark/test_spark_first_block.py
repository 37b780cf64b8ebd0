"""The first block of `docs/spark.md` in an environment that is not activated."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from compat_tests.environment import REPOSITORY
from compat_tests.spark.conftest import PATIENCE_S, Table


def test_point_13_the_first_block_works_in_an_environment_that_is_not_activated(table: Table) -> None:
    """``python3`` of the path is the one that the environment was made with: it does not have the packages."""
    table.fill([b"1", b"2", b"3"])
    first = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "spark.md").read_text(), re.DOTALL)[0]
    read = f"spark.read.format('rocketmq').options(nameServer='{table.gateway.nameserver}', subscribe='{table.topic}')"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    said = subprocess.run(
        [sys.executable, "-c", f"{first}\nprint('rows:', {read}.load().count())"],
        env={**environment, "PATH": f"{sys.base_prefix}/bin:{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )
    assert "rows: 3" in said.stdout, said.stderr
