"""A batch as one record, for topics with batch queues."""

from __future__ import annotations

import pytest

from gateway.broker.requests.sending.batches import as_one_record
from gateway.errors import RequestRefused
from wire.message.batch import MAX_INNER_MESSAGES, BatchPart, build_batch
from wire.message.flags import SysFlag
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage

HOST = bytes(8)
OUTER = {"UNIQ_KEY": "outer", "WAIT": "true"}


def batch() -> OutgoingMessage:
    body = build_batch([BatchPart(0, b"0", b"a\x011\x02"), BatchPart(1, b"1", b"")])
    return OutgoingMessage("orders", 3, 0, 1, 99, HOST, HOST, 2, 0, body, build_properties(OUTER), OUTER)


def test_one_record_keeps_the_body_and_says_how_many_it_holds() -> None:
    whole = batch()
    body = whole.body
    record = as_one_record(whole, 2)
    assert record.body == body
    assert record.sys_flag & SysFlag.INNER_BATCH
    assert parse_properties(record.properties) == record.property_map == {**OUTER, "INNER_NUM": "2"}


def test_more_messages_than_a_record_may_hold_are_refused() -> None:
    assert as_one_record(batch(), MAX_INNER_MESSAGES).property_map["INNER_NUM"] == str(MAX_INNER_MESSAGES)
    with pytest.raises(RequestRefused, match=f"more than {MAX_INNER_MESSAGES} messages"):
        as_one_record(batch(), MAX_INNER_MESSAGES + 1)
