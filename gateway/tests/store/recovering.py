"""Directories to recover: filled with numbered messages, in both ways of flushing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings.store import StoreSettings
from gateway.tests.store.small_store import ASYNC, SMALL, opened, put

MODES = pytest.mark.parametrize("settings", [SMALL, ASYNC], ids=["sync", "async"])


def fill(directory: Path, count: int, settings: StoreSettings = SMALL, *, close: bool = True) -> list[int]:
    store = opened(directory, settings)
    ends = []
    for number in range(count):
        result = put(store, b"%04d" % number * 25)
        ends.append(result.commit_log_offset + result.size)
    store.flush()
    if close:
        store.close()
    return ends


def expected(count: int) -> list[bytes]:
    return [b"%04d" % number * 25 for number in range(count)]
