"""Fixtures that the tests of requests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.broker.requests.small_broker import SmallBroker


@pytest.fixture
def broker(tmp_path: Path) -> SmallBroker:
    """A broker with its system topics and groups, like one that has just started."""
    broker = SmallBroker(tmp_path)
    broker.topics.create_system_topics()
    broker.groups.create_system_groups()
    return broker
