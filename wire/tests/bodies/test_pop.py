"""Bodies of pop consumption, as the proxy and clients of Apache RocketMQ 5.5.0 write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.message_queue import MessageQueue
from wire.bodies.pop import (
    BatchAck,
    BatchAckMessage,
    MessageQueueAssignment,
    MessageRequestMode,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    build_bit_set,
)
from wire.errors import BodyError


def test_a_batch_names_offsets_by_bits() -> None:
    batch = BatchAckMessage.parse(
        '{"brokerName":"broker-a","acks":[{"b":"CQ==","c":"mail","it":60000,"pt":17,"q":2,"r":"0","rq":3,"so":100,'
        '"t":"orders"}]}'
    )
    (ack,) = batch.acks
    assert ack.offsets() == [100, 103]
    assert (ack.group, ack.topic, ack.queue_id, ack.revive_queue_id, ack.popped_at_ms) == ("mail", "orders", 2, 3, 17)


@given(st.sets(st.integers(0, 300)))
def test_a_set_of_numbers_survives_being_bits(numbers: set[int]) -> None:
    ack = BatchAck("g", "t", "0", 7, 0, 0, 0, 0, build_bit_set(sorted(numbers)))
    assert ack.offsets() == [7 + number for number in sorted(numbers)]


def test_bits_may_be_bytes_as_numbers() -> None:
    assert BatchAck("g", "t", "0", 0, 0, 0, 0, 0, [-128, 1]).offsets() == [7, 8]


@pytest.mark.parametrize("bits", ["?", 5, {"a": 1}, ["x"], "A" * 400, [float("inf")], [float("nan")], ["9" * 5_000]])
def test_bits_that_are_none_or_too_many_are_refused(bits: object) -> None:
    with pytest.raises(BodyError):
        BatchAck("g", "t", "0", 0, 0, 0, 0, 0, bits).offsets()


def test_a_client_asks_for_its_queues() -> None:
    asked = QueryAssignmentRequest.parse(
        '{"clientId":"10.0.0.1@1","consumerGroup":"mail","messageModel":"CLUSTERING","strategyName":"AVG",'
        '"topic":"orders"}'
    )
    assert (asked.client_id, asked.strategy_name, asked.message_model) == ("10.0.0.1@1", "AVG", "CLUSTERING")


def test_queues_are_told_with_the_mode() -> None:
    answer = QueryAssignmentResponse([MessageQueueAssignment(MessageQueue("orders", "broker-a", -1), "POP")])
    assert json.loads(answer.build()) == {
        "messageQueueAssignments": [
            {"messageQueue": {"topic": "orders", "brokerName": "broker-a", "queueId": -1}, "mode": "POP"}
        ]
    }
    assert json.loads(QueryAssignmentResponse().build()) == {}


def test_a_mode_is_set_as_mqadmin_does() -> None:
    mode = MessageRequestMode.parse('{"consumerGroup":"mail","mode":"POP","popShareQueueNum":2,"topic":"orders"}')
    assert mode == MessageRequestMode("orders", "mail", "POP", 2)
