"""Brokers that a test left running are closed when it ends: a process may have a thousand files open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.tests.broker.whole_broker import WholeBroker


@pytest.fixture(autouse=True)
def closed_brokers() -> Iterator[None]:
    """After the test."""
    yield
    WholeBroker.close_those_left()
