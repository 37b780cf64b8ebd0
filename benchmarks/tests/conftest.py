"""What tests of several measuring programs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks import ceiling, run


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """When a program kept the processors awake and when it no longer did; those of this machine are left alone."""
    happened = []

    @contextmanager
    def awake() -> Iterator[None]:
        happened.append("awake")
        yield
        happened.append("may sleep")

    for program in (ceiling, run):
        monkeypatch.setattr(program, "awake", awake)
    return happened
