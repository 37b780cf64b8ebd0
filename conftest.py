"""Tests begin with the signals of a terminal, and none leaves the process with many files open."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # a busy machine may stand still for seconds while one example is made

OPEN_AT_MOST = 400
"""Descriptors after a test, of which some are waiting for the collector of garbage; `select` takes numbers below 1,024.
"""


def pytest_configure() -> None:
    """Take back what this process was started with; its children start with the same.

    `nohup`, or a shell in the background, has some signals ignored.
    """
    for name in ("SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)  # Windows has neither
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with long tests: others use the processors while these wait, and no worker is left alone with one."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Modules and tests live to the end: the collector looks at them no more, so that each of its rounds is short."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """A test that ends with too many open descriptors has failed, and so have those before it that left some."""
    yield
    if len(list(open_descriptors())) > OPEN_AT_MOST:
        gc.collect()
        left = [os.path.realpath(descriptor) for descriptor in open_descriptors()]
        assert len(left) <= OPEN_AT_MOST, f"{len(left)} descriptors are open, among them {left[-50:]}"


def open_descriptors() -> Iterator[Path]:
    """Their links, where the system tells them."""
    return Path("/proc/self/fd").glob("*")
