"""The objects that a worker has loaded are left out of later collections; the driver's heap is left alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from gateway.spark import worker_heap
from gateway.spark.worker_heap import keep_what_is_loaded


@pytest.fixture(autouse=True)
def heap() -> Iterator[None]:
    """Give a test the heap of a process that has not read yet."""
    worker_heap._keep_once.cache_clear()
    gc.unfreeze()
    yield
    worker_heap._keep_once.cache_clear()
    gc.unfreeze()


def test_a_first_task_leaves_nothing_to_look_at_and_later_ones_only_what_is_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    keep_what_is_loaded()
    kept = gc.get_freeze_count()
    assert kept > 10_000
    later = [[number] for number in range(1000)]
    keep_what_is_loaded()
    assert gc.get_freeze_count() <= kept
    assert sum(entry in later for entry in gc.get_objects() if type(entry) is list and len(entry) == 1) >= len(later)


def test_garbage_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self
            self.count = counts

        def __del__(self) -> None:
            self.count.append(1)

    counts: list[int] = []
    Node()
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    keep_what_is_loaded()
    assert counts == [1]


def test_the_driver_keeps_its_heap_as_it_is() -> None:
    keep_what_is_loaded()
    assert gc.get_freeze_count() == 0
