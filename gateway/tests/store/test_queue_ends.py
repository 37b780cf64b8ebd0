"""The list of queues at the last clean stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.consume_queues import ConsumeQueues
from gateway.store.paths import StorePaths
from gateway.store.queue_ends import forget_queue_ends, lost_queues, save_queue_ends
from gateway.tests.store.small_store import SMALL, Disk
from wire.disk.consume_queue import UNIT


def _queues(root: Path, disk: Disk) -> ConsumeQueues:
    queues = ConsumeQueues(disk, StorePaths(root), SMALL)
    queues.write(queues.make("T", 3), 0, UNIT.pack(0, 100, 0) * 2)
    return queues


def test_a_queue_that_ends_earlier_than_listed_is_lost(tmp_path: Path) -> None:
    disk, paths = Disk(), StorePaths(tmp_path)
    save_queue_ends(disk, paths, _queues(tmp_path, disk))
    assert paths.queue_ends.read_text() == "T\t3\t2\n"
    assert lost_queues(disk, paths, _queues(tmp_path, disk)) == set()
    assert lost_queues(disk, paths, ConsumeQueues(disk, paths, SMALL)) == {("T", 3)}
    forget_queue_ends(disk, paths)
    assert lost_queues(disk, paths, ConsumeQueues(disk, paths, SMALL)) == set()


@pytest.mark.parametrize("text", [b"", b"\xff\xfe\x00", b"T\t3\n", b"T\tx\t9\n", b"T\t3\t-1\n", b"T\t3\t9\t9\n"])
def test_what_cannot_be_read_is_no_loss(tmp_path: Path, text: bytes) -> None:
    disk, paths = Disk(), StorePaths(tmp_path)
    paths.queue_ends.write_bytes(text)
    assert lost_queues(disk, paths, ConsumeQueues(disk, paths, SMALL)) == set()
