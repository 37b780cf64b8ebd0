"""Receipts are texts that clients compute and carry: made exactly as upstream's, and checked when they come back."""

from __future__ import annotations

import pytest

from gateway.delivery.pop.receipts import (
    Receipt,
    build_receipt,
    msg_offset_info,
    order_count_info,
    parse_receipt,
    pop_retry_topic,
    real_topic,
    start_offset_info,
)
from gateway.errors import RequestRefused
from wire.codes import ResponseCode

TEXT = "5 1750000000000 60000 3 0 broker-a 2 7"
RECEIPT = Receipt(5, 1_750_000_000_000, 60_000, 3, "0", "broker-a", 2, 7)


def test_a_receipt_survives_being_text() -> None:
    assert build_receipt(RECEIPT) == TEXT
    assert parse_receipt(TEXT, "broker-a", 2, 7) == RECEIPT


def test_a_receipt_without_its_last_word_is_older_and_good() -> None:
    older = parse_receipt(TEXT.rpartition(" ")[0], "broker-a", 2, 7)
    assert older == RECEIPT._replace(queue_offset=None)


def test_what_follows_from_the_words() -> None:
    assert RECEIPT.expires_at_ms == 1_750_000_060_000
    assert not RECEIPT.is_order
    assert RECEIPT._replace(revive_queue_id=999).is_order


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "1 words"),
        ("5 1750000000000", "2 words"),
        ("x 1750000000000 60000 3 0 broker-a 2 7", "no receipt"),
        ("5 1750000000000 60000 3 0 broker-a two 7", "no receipt"),
        ("5 " * 1_000, "0 words"),
        (TEXT.replace("broker-a", "broker-b"), "of broker 'broker-b'"),
        (TEXT.replace(" 2 7", " 3 7"), "queue 3"),
        (TEXT.replace(" 2 7", " 2 8"), "message 8"),
        (TEXT.replace("5 17", "8 17"), "belong together"),
        (TEXT.replace("60000", "-1"), "belong together"),
    ],
)
def test_a_receipt_that_cannot_be_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        parse_receipt(text, "broker-a", 2, 7)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert reason in refused.value.remark


def test_the_texts_of_a_pop_answer() -> None:
    assert start_offset_info("1", 0, 17) == "1 0 17"
    assert msg_offset_info("0", 3, [5, 6, 9]) == "0 3 5,6,9"
    assert order_count_info(2, [(5, 1), (6, 3)], 1) == "0 qo2%5 1;0 qo2%6 3;0 2 1"
    assert order_count_info(2, [], 0) == "0 2 0"


def test_the_names_of_retry_topics() -> None:
    assert pop_retry_topic("orders", "mail", "1") == "%RETRY%mail_orders"
    assert pop_retry_topic("orders", "mail", "2") == "%RETRY%mail+orders"
    assert [real_topic("orders", "mail", kind) for kind in "012"] == [
        "orders",
        "%RETRY%mail_orders",
        "%RETRY%mail+orders",
    ]


def test_a_receipt_of_a_lite_topic_says_where_its_message_lies_in_the_log() -> None:
    receipt = parse_receipt("0 17 60000 999 0 broker-a 0 3 9274", "broker-a", 0, 3)
    assert (receipt.queue_offset, receipt.commit_log_offset) == (3, 9274)
    assert build_receipt(receipt) == "0 17 60000 999 0 broker-a 0 3 9274"
