"""Fixtures that the tests of rare requests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.tests.broker.whole_broker import WholeBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WholeBroker]:
    """A whole broker with a topic of two queues, two messages in each, ten seconds old."""
    broker = whole_broker(tmp_path / "store")
    yield broker
    broker.stop()


def whole_broker(directory: Path, **changed: bool) -> WholeBroker:
    """Return the same broker, which is not stopped afterwards."""
    broker = WholeBroker(directory, default_topic_queue_nums=2, **changed)
    peer = broker.connect()
    for number in range(4):
        broker.send(peer, queue_id=number % 2, body=b"%d" % number, properties={"TAGS": "red"})
        broker.wait(1)
    broker.wait(6)
    return broker
