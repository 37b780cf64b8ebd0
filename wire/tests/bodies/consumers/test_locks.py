from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.message_queue import LockBatchRequest, LockBatchResponse, MessageQueue, UnlockBatchRequest
from wire.errors import BodyError
from wire.tests.bodies.strategies import assert_comes_back, int32s, texts
from wire.tests.message.strategies import QUICK

QUEUE = MessageQueue("t", "b", 0)


def test_a_claim_of_a_java_client_is_read() -> None:
    text = '{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":0,"topic":"t"}]}'
    assert LockBatchRequest.parse(text) == LockBatchRequest("g", "c", (QUEUE,))
    assert UnlockBatchRequest.parse(text) == UnlockBatchRequest("g", "c", (QUEUE,))


def test_the_answer_names_the_queues_that_are_the_clients() -> None:
    assert LockBatchResponse([QUEUE]).build() == (b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"t"}]}')
    assert LockBatchResponse().build() == b'{"lockOKMQSet":[]}'


@QUICK
@given(
    texts,
    texts,
    st.lists(st.builds(MessageQueue, texts, texts, int32s), max_size=4).map(tuple),
    st.booleans(),
)
def test_claims_come_back(group: str, client: str, queues: tuple[MessageQueue, ...], here: bool) -> None:
    assert_comes_back(LockBatchRequest(group, client, queues, here))
    assert_comes_back(UnlockBatchRequest(group, client, queues, here))
    assert_comes_back(LockBatchResponse(queues))


@pytest.mark.parametrize("text", ["{}", '{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t"}]}'])
def test_a_damaged_claim_is_refused(text: str) -> None:
    with pytest.raises(BodyError, match="is missing"):
        LockBatchRequest.parse(text)
