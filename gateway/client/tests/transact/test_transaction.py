"""Tests of what sending within a transaction answers."""

from __future__ import annotations

import pickle

from gateway.client.errors import NotSent, RocketMQError
from gateway.client.message_queue import MessageQueue
from gateway.client.results import SendResult, SendStatus
from gateway.client.transact.transaction import AlreadyDecided, HalfNotSafe, TransactionSendResult
from gateway.client.transaction_state import TransactionState

PLACE = {
    "msg_id": "AB",
    "offset_msg_id": "CD",
    "queue": MessageQueue("orders", "broker-a", 1),
    "queue_offset": 7,
    "transaction_id": "AB",
}


def test_a_result_says_where_the_half_message_is_and_what_was_decided() -> None:
    result = TransactionSendResult(status=SendStatus.SEND_OK, state=TransactionState.COMMIT, **PLACE)  # type: ignore[arg-type]
    assert isinstance(result, SendResult)
    assert (result.queue_offset, result.state, result.error) == (7, TransactionState.COMMIT, None)


def test_a_half_message_that_is_not_safe_was_rolled_back_and_may_be_tried_again() -> None:
    half = SendResult(status=SendStatus.FLUSH_DISK_TIMEOUT, **PLACE)  # type: ignore[arg-type]
    error = HalfNotSafe(half)
    assert isinstance(error, NotSent)
    assert error.retriable
    assert not error.outcome_unknown
    assert NotSent(half).outcome_unknown  # other messages are stored, and nobody takes them back
    for part in ("AB", "FLUSH_DISK_TIMEOUT", "was not run", "try again"):
        assert part in str(error)


def test_a_second_outcome_names_both() -> None:
    error = AlreadyDecided("AB", TransactionState.COMMIT, TransactionState.ROLLBACK)
    assert isinstance(error, RocketMQError)
    assert not error.retriable
    assert (error.state, error.wanted) == (TransactionState.COMMIT, TransactionState.ROLLBACK)
    assert "AB is to be ROLLBACK and its outcome is COMMIT already" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
