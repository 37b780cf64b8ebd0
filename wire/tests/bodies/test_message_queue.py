from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.message_queue import MessageQueue
from wire.errors import BodyError
from wire.tests.bodies.strategies import assert_comes_back, int32s, texts
from wire.tests.message.strategies import QUICK


@QUICK
@given(st.builds(MessageQueue, texts, texts, int32s))
def test_queues_come_back(queue: MessageQueue) -> None:
    assert_comes_back(queue)
    assert hash(MessageQueue.parse(queue.build())) == hash(queue)


@pytest.mark.parametrize("member", ["topic", "brokerName", "queueId"])
def test_a_queue_needs_all_its_members(member: str) -> None:
    members = {"topic": '"t"', "brokerName": '"b"', "queueId": "0"}
    del members[member]
    text = "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"
    with pytest.raises(BodyError, match=f"MessageQueue: {member} is missing"):
        MessageQueue.parse(text)
