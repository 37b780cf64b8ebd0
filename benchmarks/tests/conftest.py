"""Fixtures that the tests of several measuring programs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks import ceiling, run


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the events: a program keeps processors awake, or lets them sleep. This machine's are left alone."""
    happened = []

    @contextmanager
    def awake() -> Iterator[None]:
        happened.append("awake")
        yield
        happened.append("may sleep")

    for program in (ceiling, run):
        monkeypatch.setattr(program, "awake", awake)
    return happened
