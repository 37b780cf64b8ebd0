"""Clean-up of objects that tests leave open as a kill would: freed when the test ends, and nothing is flushed.

A store's lock, its checkpoint, its journals and its note of what is replicated are descriptors that no collector of
garbage closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from gateway.replication.replicated_mark import ReplicatedMark
from gateway.store.disk.files import FileLayer
from gateway.store.message_store import MessageStore
from gateway.transaction.state_stores.table import TableStates

_left: list[Callable[[], None]] = []


def left_open(give_back: Callable[[], None]) -> None:
    """Call ``give_back`` when the test has ended; it may be done already."""
    _left.append(give_back)


@contextmanager
def given_back() -> Iterator[None]:
    """At the end give back what was left open since the beginning."""
    before = len(_left)
    try:
        yield
    finally:
        while len(_left) > before:
            _left.pop()()


@contextmanager
def stores_noted() -> Iterator[None]:
    """Every store of real files that is opened meanwhile may be left open."""
    with pytest.MonkeyPatch.context() as patch:
        for kind, method, give_back in (
            (MessageStore, "open", _store),
            (TableStates, "__init__", _table),
            (ReplicatedMark, "begin", _mark),
        ):
            patch.setattr(kind, method, _noting(getattr(kind, method), give_back))
        yield


def _noting(opens: Callable[..., Any], give_back: Callable[[Any], None]) -> Callable[..., Any]:
    def noting(opened: Any, *arguments: Any, **more: Any) -> Any:
        left_open(partial(give_back, opened))
        return opens(opened, *arguments, **more)

    return noting


def _store(store: MessageStore) -> None:
    """Without waiting for threads that a test holds up."""
    if isinstance(store._layer, FileLayer):
        store._queues.close()
        store._checkpoint.close()
        store._lock.release()


def _table(states: TableStates) -> None:
    if isinstance(states._files, FileLayer):
        states._table.close()
        states._redo.close()
        if states._mark_fd >= 0:
            states._files.close(states._mark_fd)
            states._mark_fd = -1


def _mark(mark: ReplicatedMark) -> None:
    if isinstance(mark._files, FileLayer):
        mark.close()
