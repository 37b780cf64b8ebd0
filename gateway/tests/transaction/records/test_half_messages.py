"""The form of a transactional message on its way."""

from __future__ import annotations

import pytest

from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.transaction.records.half_messages import (
    DISCARD_REASON,
    check_body,
    discarded_of,
    final_of,
    half_of,
    real_place,
    refuse_reason,
    resumed_of,
)
from wire.message.flags import SysFlag
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage, StoredMessage, build_record, parse_record

HOST = bytes([10, 0, 0, 1, 0, 0, 0, 80])
SENT = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "K1", "KEYS": "a b", "TAGS": "t"}


def message(properties: dict[str, str] | None = None, raw: bytes | None = None) -> OutgoingMessage:
    pairs = dict(SENT if properties is None else properties)
    return OutgoingMessage(
        topic="orders",
        queue_id=3,
        flag=5,
        sys_flag=SysFlag.TRANSACTION_PREPARED | SysFlag.COMPRESSED | 0x300,
        born_at_ms=111,
        born_host=HOST,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=b"packed",
        properties=build_properties(pairs) if raw is None else raw,
        property_map=pairs,
    )


def stored(outgoing: OutgoingMessage, queue_offset: int = 4, place: int = 900) -> StoredMessage:
    return parse_record(build_record(outgoing, queue_offset, place, 222))


def test_a_half_message_stands_in_the_half_topic_and_knows_its_real_place() -> None:
    half = half_of(message())
    assert (half.topic, half.queue_id) == (HALF_TOPIC, 0)
    assert half.sys_flag == SysFlag.COMPRESSED | 0x300
    expected = {**SENT, "REAL_TOPIC": "orders", "REAL_QID": "3", "__transactionId__": "K1"}
    assert half.property_map == expected
    assert parse_properties(half.properties) == expected
    assert (half.body, half.flag, half.born_at_ms, half.born_host) == (b"packed", 5, 111, HOST)


def test_a_property_string_without_its_last_separator_stays_readable() -> None:
    half = half_of(message(raw=build_properties(SENT)[:-1]))
    assert parse_properties(half.properties) == half.property_map


def test_marks_of_an_earlier_life_are_not_taken_over() -> None:
    earlier = {
        **SENT,
        "REAL_TOPIC": "secret",
        "REAL_QID": "9",
        "TRANSACTION_CHECK_TIMES": "7",
        "TRAN_PREPARED_QUEUE_OFFSET": "1",
        DISCARD_REASON: "x",
    }
    half = half_of(message(earlier))
    assert real_place(half.property_map) == ("orders", 3)
    assert "TRANSACTION_CHECK_TIMES" not in half.property_map
    assert parse_properties(half.properties) == half.property_map


def test_a_message_without_unique_key_gets_no_transaction_id() -> None:
    assert "__transactionId__" not in half_of(message({"PGROUP": "g"})).property_map


def test_the_final_message_is_the_half_message_at_its_real_place() -> None:
    half = stored(half_of(message()))
    final = final_of(half)
    assert final is not None
    assert (final.topic, final.queue_id, final.body, final.flag) == ("orders", 3, b"packed", 5)
    assert final.sys_flag == SysFlag.TRANSACTION_COMMIT | SysFlag.COMPRESSED | 0x300
    assert final.prepared_transaction_offset == 900
    assert final.properties == half.properties
    assert (final.born_at_ms, final.born_host, final.reconsume_times) == (111, HOST, 0)


def test_a_delay_that_another_broker_let_in_is_taken_out() -> None:
    half = stored(half_of(message({**SENT, "DELAY": "3", "TIMER_DELAY_MS": "5"})))
    final = final_of(half)
    assert final is not None
    assert "DELAY" not in final.property_map
    assert b"DELAY" not in final.properties


@pytest.mark.parametrize("place", [{}, {"REAL_TOPIC": "t"}, {"REAL_TOPIC": "t", "REAL_QID": "x"}])
def test_a_half_message_without_real_place_has_no_final_message(place: dict[str, str]) -> None:
    half = stored(message({**SENT, **place}))
    assert final_of(half) is None
    assert check_body(half) is None


def test_real_place_refuses_numbers_that_no_queue_has() -> None:
    assert real_place({"REAL_TOPIC": "t", "REAL_QID": "9" * 5_000}) is None


@pytest.mark.parametrize("delay", ["0", "-1", "x", "", "000"])
def test_no_delay_is_no_reason_to_refuse(delay: str) -> None:
    assert refuse_reason({"PGROUP": "g", "DELAY": delay}) is None


@pytest.mark.parametrize("delay", ["1", "18", "9" * 5_000])
def test_a_delay_level_is_refused(delay: str) -> None:
    assert "DELAY" in (refuse_reason({"PGROUP": "g", "DELAY": delay}) or "")


def test_a_message_without_producer_group_is_refused() -> None:
    assert "PGROUP" in (refuse_reason({}) or "")


@pytest.mark.parametrize("group", ["g" * 256, "g\0", "g\n", "\ud800"])
def test_a_producer_group_that_no_database_could_keep_is_refused(group: str) -> None:
    assert "PGROUP" in (refuse_reason({"PGROUP": group}) or "")
    assert refuse_reason({"PGROUP": "g" * 255}) is None


def test_a_given_up_message_keeps_its_properties_and_gets_a_reason() -> None:
    half = stored(half_of(message()))
    copy = discarded_of(half, 15, "no outcome")
    assert (copy.topic, copy.queue_id, copy.body) == (CHECK_MAX_TOPIC, 0, b"packed")
    assert copy.property_map["TRANSACTION_CHECK_TIMES"] == "15"
    assert copy.property_map[DISCARD_REASON] == "no outcome"
    assert real_place(copy.property_map) == ("orders", 3)


def test_full_properties_leave_the_reason_out() -> None:
    half = stored(message({**SENT, "filler": "x" * 32_690}))
    copy = discarded_of(half, 15, "no outcome")
    assert copy.properties == half.properties


def test_a_resumed_message_is_a_half_message_that_starts_anew() -> None:
    copy = stored(discarded_of(stored(half_of(message())), 15, "no outcome"))
    again = resumed_of(copy)
    assert (again.topic, again.queue_id) == (HALF_TOPIC, 0)
    assert again.property_map["TRANSACTION_CHECK_TIMES"] == "0"
    assert DISCARD_REASON not in again.property_map


def test_a_resumed_message_with_full_properties_goes_without_its_count() -> None:
    filler = 32_767 - len(build_properties(SENT)) - len("filler\x01\x02")
    again = resumed_of(stored(message({**SENT, "filler": "x" * filler})))
    assert "TRANSACTION_CHECK_TIMES" not in again.property_map


def test_the_body_of_a_check_is_the_half_message_under_its_real_name() -> None:
    half = stored(half_of(message()))
    body = check_body(half)
    assert body is not None
    asked = parse_record(body, check_crc=True)
    assert (asked.topic, asked.queue_id) == ("orders", 3)
    assert (asked.queue_offset, asked.commit_log_offset, asked.stored_at_ms) == (4, 900, 222)
    assert asked.properties == half.properties
