"""Tests of popped messages."""

from __future__ import annotations

from gateway.client.consume.pop.pop_handles import parse_receipt
from gateway.client.consume.pop.popped import PoppedMessage
from gateway.client.message import ReceivedMessage
from gateway.client.tests.test_message import received_with

RECEIPT = parse_receipt("10 1700000000000 60000 3 0 broker-a 2 11")


def test_a_popped_message_is_a_received_one_with_its_receipt() -> None:
    record = received_with({"TAGS": "T"}, topic="ns%orders").record
    message = PoppedMessage(record, "broker-a", RECEIPT, 65.0, "ns")
    assert isinstance(message, ReceivedMessage)
    assert (message.topic, message.tags, message.queue.broker_name) == ("orders", "T", "broker-a")
    assert (message.receipt, message.hidden_until, message.given_back) == (RECEIPT, 65.0, False)


def test_what_acknowledging_needs_can_be_changed_and_nothing_can_be_added() -> None:
    message = PoppedMessage(received_with({}).record, "broker-a", RECEIPT, 65.0, "")
    message.hidden_until, message.given_back = 95.0, True
    assert (message.hidden_until, message.given_back) == (95.0, True)
    assert not hasattr(message, "__dict__")  # thousands of them may wait
