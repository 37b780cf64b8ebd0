"""What becomes of the messages in a batch: whose properties count, and one record for all of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.broker.requests.batch import as_one_record, batch_messages
from gateway.errors import RequestRefused
from wire.codes import ResponseCode
from wire.message.batch import BatchPart, build_batch
from wire.message.flags import SysFlag
from wire.message.inner_batch import MAX_INNER_MESSAGES
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage

HOST = bytes(8)
OUTER = {"UNIQ_KEY": "outer", "WAIT": "true"}


def batch(*properties: Mapping[str, str], raw: bytes | None = None) -> OutgoingMessage:
    parts = [BatchPart(number, b"%d" % number, build_properties(one)) for number, one in enumerate(properties)]
    if raw is not None:
        parts = [BatchPart(0, b"0", raw)]
    return OutgoingMessage("orders", 3, 0, 1, 99, HOST, HOST, 2, 0, build_batch(parts), build_properties(OUTER), OUTER)


def test_messages_are_what_the_batch_is_but_for_flag_body_and_properties() -> None:
    for number, message in enumerate(batch_messages(batch({"a": "1"}, {"a": "2"}))):
        assert (message.topic, message.queue_id, message.sys_flag, message.born_at_ms) == ("orders", 3, 1, 99)
        assert (message.reconsume_times, message.flag, message.body) == (2, number, b"%d" % number)
        assert message.property_map == {"a": str(number + 1), **OUTER} == parse_properties(message.properties)


def test_properties_of_a_message_win_over_those_of_the_batch() -> None:
    own, none, other = batch_messages(batch({"UNIQ_KEY": "own"}, {}, {"UNIQ_KEY": "other", "WAIT": "false"}))
    assert own.property_map == {"UNIQ_KEY": "own", "WAIT": "true"} == parse_properties(own.properties)
    assert none.property_map == OUTER == parse_properties(none.properties)
    assert other.properties.count(b"\x01") == 2, "nothing twice"


@pytest.mark.parametrize("raw", [b"a\x01b", b"a\x01b\x02"])
def test_properties_are_parted_whether_or_not_the_last_one_is_closed(raw: bytes) -> None:
    (message,) = batch_messages(batch(raw=raw))
    assert parse_properties(message.properties) == {"a": "b", **OUTER}


def test_what_a_topic_does_not_take_is_refused() -> None:
    def check(properties: Mapping[str, str]) -> None:
        if "DELAY" in properties:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "no delays here")

    assert len(batch_messages(batch({}, {}), check)) == 2
    with pytest.raises(RequestRefused, match="no delays here"):
        batch_messages(batch({}, {"DELAY": "1"}), check)


def test_one_record_keeps_the_body_and_says_how_many_it_holds() -> None:
    whole = batch({"a": "1"}, {})
    body = whole.body
    record = as_one_record(whole, batch_messages(whole))
    assert record.body == body
    assert record.sys_flag & SysFlag.INNER_BATCH
    assert parse_properties(record.properties) == record.property_map == {**OUTER, "INNER_NUM": "2"}


def test_more_messages_than_a_record_may_hold_are_refused() -> None:
    whole = batch({})
    with pytest.raises(RequestRefused, match=f"more than {MAX_INNER_MESSAGES} messages"):
        as_one_record(whole, batch_messages(whole) * (MAX_INNER_MESSAGES + 1))
