"""Messages that the log should have: as many as can have been there are looked for, however many these are."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store_tool.checks.findings import Findings
from gateway.store_tool.checks.queue_check import QueueCheck, QueueRun
from gateway.store_tool.files.directory import opened as opened_directory
from gateway.tests.store.small_store import SMALL, opened, put
from wire.disk.consume_queue import UNIT

GIB = 1024**3
IN_A_FILE = GIB // 200
"""Messages of 200 bytes in a commit log file of the usual size."""


@pytest.mark.parametrize(("count", "is_plausible"), [(IN_A_FILE, True), (GIB // 20, False), (2**62, False)])
def test_as_many_as_a_lost_log_file_can_have_had_are_looked_for(
    tmp_path: Path, count: int, *, is_plausible: bool
) -> None:
    store = opened(tmp_path)
    sizes = [put(store, b"body").size for _ in range(3)]
    store.close()
    with opened_directory(tmp_path, SMALL) as directory:
        check = QueueCheck(directory, Findings(directory.root), None, lambda level: None)
        check.add(QueueRun("T", 0, 0, bytearray(UNIT.pack(0, sizes[0], 0))))
        check.add(QueueRun("T", 0, 1 + count, bytearray(UNIT.pack(GIB, sizes[0], 0))))
        check.finish(GIB + sizes[0], lambda _: None)
    assert sum(orphan.count for orphan in check.orphans) == (count - 2 if is_plausible else 0)
    assert [(orphan.place, orphan.count) for orphan in check.orphans if not orphan.size] == (
        [(("T", 0, 3), count - 2)] if is_plausible else []
    )
    assert sorted(check.misplaced) == ([sizes[0], 2 * sizes[0]] if is_plausible else [])
