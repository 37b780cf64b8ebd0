from __future__ import annotations

import pytest

from gateway.client.formats.transaction_outcome import MAX_REMARK_CHARS, Outcome, outcome_of_check, outcome_of_half
from gateway.client.message import Message, MessageQueue
from gateway.client.results import SendResult, SendStatus
from gateway.client.tests.test_message import received
from gateway.client.transaction_state import TransactionState
from wire.errors import RemoteError
from wire.headers.declare import build_header
from wire.headers.transaction import CheckTransactionStateRequest
from wire.message.message_id import build_offset_message_id, pack_host

UNIQUE_ID = "7F0000010A2B18B4AAC2345678900000"
PLACE = build_offset_message_id(pack_host("10.0.0.1", 10911), 4711)

MESSAGE = Message("orders", b"paid")


def half(offset_msg_id: str = PLACE, transaction_id: str | None = UNIQUE_ID) -> SendResult:
    queue = MessageQueue("orders", "broker-a", 3)
    return SendResult(SendStatus.SEND_OK, UNIQUE_ID, offset_msg_id, queue, 17, transaction_id)


def test_the_place_of_a_half_message_is_read_from_the_answer_to_its_send() -> None:
    outcome = outcome_of_half("pg", "orders", MESSAGE, half(), TransactionState.COMMIT)
    assert build_header(outcome.header) == {
        "topic": "orders",
        "producerGroup": "pg",
        "tranStateTableOffset": "17",
        "commitLogOffset": "4711",
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": UNIQUE_ID,
        "transactionId": UNIQUE_ID,
        "bname": "broker-a",
    }
    assert (outcome.broker_name, outcome.address, outcome.remark) == ("broker-a", "", None)


def test_a_broker_of_4_9_gives_no_transaction_id_and_gets_none() -> None:
    fields = build_header(
        outcome_of_half("pg", "orders", MESSAGE, half(transaction_id=None), TransactionState.ROLLBACK).header
    )
    assert "transactionId" not in fields
    assert fields["commitOrRollback"] == "12"


def test_an_answer_without_an_offset_id_is_refused() -> None:
    with pytest.raises(RemoteError, match="message id"):
        outcome_of_half("pg", "orders", MESSAGE, half("what?"), TransactionState.COMMIT)


def test_the_answer_to_a_check_is_about_the_place_the_broker_asked_for() -> None:
    check = CheckTransactionStateRequest(
        topic="RMQ_SYS_TRANS_HALF_TOPIC",
        tran_state_table_offset=5,
        commit_log_offset=600,
        transaction_id="t",
        bname="broker-a",
    )
    outcome = outcome_of_check(
        "pg", check, received(UNIQ_KEY=UNIQUE_ID), "10.0.0.9:10911", TransactionState.UNKNOWN, OSError("no disk")
    )
    assert build_header(outcome.header) == {
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
        "producerGroup": "pg",
        "tranStateTableOffset": "5",
        "commitLogOffset": "600",
        "commitOrRollback": "0",
        "fromTransactionCheck": "true",
        "msgId": UNIQUE_ID,
        "transactionId": "t",
        "bname": "broker-a",
    }
    assert (outcome.broker_name, outcome.address) == ("", "10.0.0.9:10911")
    assert outcome.remark == "the check raised OSError: no disk"


def test_an_outcome_says_what_it_is() -> None:
    outcome: Outcome = outcome_of_half("pg", "orders", MESSAGE, half(), TransactionState.ROLLBACK)
    assert (outcome.state, outcome.transaction) == (TransactionState.ROLLBACK, UNIQUE_ID)


def test_the_text_of_an_exception_is_cut() -> None:
    outcome = outcome_of_half("pg", "orders", MESSAGE, half(), TransactionState.UNKNOWN, ValueError("x" * 10_000))
    assert outcome.remark is not None
    assert len(outcome.remark) == MAX_REMARK_CHARS
