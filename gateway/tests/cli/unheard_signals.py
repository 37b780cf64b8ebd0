"""Signals that a test sends to its own process: one that nobody listens to fails the test, not all tests with it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

SENT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@contextmanager
def unheard_signals_fail() -> Iterator[None]:
    """Until the end; handlers that are set meanwhile are taken back then."""
    before = {number: signal.signal(number, _unheard) for number in SENT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _unheard(number: int, frame: FrameType | None) -> None:
    del frame
    pytest.fail(f"nobody listens to {signal.Signals(number).name}, which would end the process")
