"""Tests of the receipts of popped messages."""

from __future__ import annotations

import pytest

from gateway.client.consume.pop.pop_handles import (
    NORMAL,
    RETRY_V1,
    PoppedMessage,
    PopReceipts,
    ReceiptWords,
    parse_receipt,
)
from gateway.client.message import ReceivedMessage
from gateway.client.tests.test_message import received_with
from wire.errors import BodyError
from wire.headers.pop import PopMessageResponse

TEXT = "10 1700000000000 60000 3 0 broker-a 2 11"


def response(starts: str | None, offsets: str | None) -> PopMessageResponse:
    return PopMessageResponse(
        pop_time=1_700_000_000_000,
        invisible_time=60_000,
        revive_qid=3,
        start_offset_info=starts,
        msg_offset_info=offsets,
    )


def test_receipts_follow_the_order_of_the_messages_in_each_queue() -> None:
    receipts = PopReceipts(response("0 2 10;1 0 4", "0 2 10,11;1 0 5"), "broker-a")
    assert str(receipts.next_receipt(NORMAL, 2, 10)) == "10 1700000000000 60000 3 0 broker-a 2 10"
    assert str(receipts.next_receipt(RETRY_V1, 0, 5)) == "4 1700000000000 60000 3 1 broker-a 0 5"
    assert str(receipts.next_receipt(NORMAL, 2, 11)) == TEXT
    with pytest.raises(BodyError, match="queue 2"):
        receipts.next_receipt(NORMAL, 2, 12)
    with pytest.raises(BodyError, match="queue 9"):
        receipts.next_receipt(NORMAL, 9, 1)


def test_an_answer_without_offsets_makes_each_message_its_own_start() -> None:
    assert PopReceipts(response(None, None), "b").next_receipt(NORMAL, 2, 7).start_offset == "7"


def test_a_receipt_is_read_back() -> None:
    receipt = parse_receipt(TEXT)
    assert receipt.queue_offset == "11"
    assert str(receipt) == TEXT
    with pytest.raises(BodyError, match="8 words"):
        parse_receipt(TEXT + " more")


def test_a_changed_time_makes_a_receipt_of_one_message() -> None:
    assert str(parse_receipt(TEXT).renewed(5, 6, 7)) == "11 5 6 7 0 broker-a 2 11"


@pytest.mark.parametrize(("retry", "expected"), [("0", "t"), ("1", "%RETRY%g_t"), ("2", "%RETRY%g+t")])
def test_the_topic_to_acknowledge_at_is_the_one_it_was_read_from(retry: str, expected: str) -> None:
    receipt = ReceiptWords("1", "2", "3", "4", retry, "b", "0", "1")
    assert receipt.real_topic("t", "g") == expected
    assert receipt.real_topic("%RETRY%g_t", "g") == "%RETRY%g_t"


def test_offsets_that_are_not_understood_are_refused() -> None:
    with pytest.raises(BodyError, match="retry queue offset"):
        PopReceipts(response("0 2", None), "b")


@pytest.mark.parametrize("word", ["", "x", "1e9", "-", "9" * 20, "٣", "1_0", "0x1"])
@pytest.mark.parametrize("place", [0, 1, 2, 3, 6, 7])
def test_a_receipt_has_numbers_where_they_belong(word: str, place: int) -> None:
    words = TEXT.split(" ")
    words[place] = word
    with pytest.raises(BodyError, match="number"):
        parse_receipt(" ".join(words))


@pytest.mark.parametrize("word", ["x", "1e9", "9" * 20])
def test_offsets_of_an_answer_are_numbers(word: str) -> None:
    with pytest.raises(BodyError, match="number"):
        PopReceipts(response(f"0 2 {word}", "0 2 1"), "b").next_receipt(NORMAL, 2, 1)
    with pytest.raises(BodyError, match="number"):
        PopReceipts(response("0 2 1", f"0 2 {word}"), "b").next_receipt(NORMAL, 2, 1)


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
