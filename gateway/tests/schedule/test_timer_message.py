"""The time of a message, the way in which it waits, and the message that it becomes."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestRefused
from gateway.schedule.timer_message import (
    DELETED_PLACE,
    TOPIC_DELETED,
    delete_keys,
    deliver_at_ms,
    delivered,
    due_ms,
    first_place,
    is_congested,
    placed_timed,
    recall_handle,
    rolled,
    slot_asked,
    slot_ms,
    wants_timer,
)
from gateway.settings.timer import TimerSettings
from wire.codes import ResponseCode
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, StoredMessage, build_record, parse_record
from wire.tests.message.strategies import QUICK

NOW_MS = 1_700_000_000_500
TERMS = TimerSettings()
HOST = pack_host("127.0.0.1", 10911)


def message(topic: str = "orders", queue_id: int = 2, **properties: Any) -> OutgoingMessage:
    return OutgoingMessage(
        topic, queue_id, 9, 0, 5, HOST, HOST, 1, 0, b"body", build_properties(properties), properties
    )


def placed(terms: TimerSettings = TERMS, waiting: int = 0, dice: int = 0, **properties: Any) -> OutgoingMessage:
    return placed_timed(message(**properties), NOW_MS, terms, waiting_in=lambda _: waiting, random_below=lambda _: dice)


def refusal(**how: Any) -> RequestRefused:
    with pytest.raises(RequestRefused) as found:
        placed(**how)
    return found.value


def stored(waiting: OutgoingMessage, place: int = 4096) -> StoredMessage:
    return parse_record(build_record(waiting, 0, place, NOW_MS + 3))


@pytest.mark.parametrize(
    ("properties", "due"),
    [
        ({"TIMER_DELIVER_MS": str(NOW_MS + 7)}, NOW_MS + 7),
        ({"TIMER_DELAY_MS": "40"}, NOW_MS + 40),
        ({"TIMER_DELAY_SEC": "2"}, NOW_MS + 2_000),
        ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "40", "TIMER_DELIVER_MS": "1"}, NOW_MS + 2_000),
        ({"TIMER_DELAY_MS": "+40", "TIMER_DELIVER_MS": "1"}, NOW_MS + 40),
    ],
)
def test_seconds_count_before_milliseconds_and_these_before_a_time(properties: dict[str, Any], due: int) -> None:
    assert deliver_at_ms(properties, NOW_MS) == due


@pytest.mark.parametrize("text", ["", "soon", "1.5", "1_000", " 1", "9" * 19, "-" + "9" * 19, "9" * 4000])
def test_what_is_no_long_of_java_is_refused(text: str) -> None:
    assert refusal(TIMER_DELAY_MS=text).code == ResponseCode.MESSAGE_ILLEGAL


@QUICK
@given(st.integers(1, 1 << 50), st.sampled_from([100, 200, 500, 1_000]))
def test_a_slot_is_the_last_one_that_begins_before_the_time(due: int, precision_ms: int) -> None:
    begin = slot_ms(due, precision_ms)
    assert begin % precision_ms == 0
    assert begin < due <= begin + precision_ms


def test_it_waits_in_the_timer_topic_with_its_slot_and_its_real_place() -> None:
    waiting = placed(TIMER_DELAY_MS="2000", KEYS="k")
    assert (waiting.topic, waiting.queue_id) == ("rmq_sys_wheel_timer", 0)
    assert waiting.property_map == {
        "TIMER_DELAY_MS": "2000",
        "KEYS": "k",
        "TIMER_OUT_MS": "1700000002000",
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
    }


def test_a_time_that_is_over_is_no_reason_to_wait() -> None:
    past: list[dict[str, Any]] = [{"TIMER_DELIVER_MS": str(NOW_MS)}, {"TIMER_DELAY_SEC": "-1"}]
    for properties in past:
        assert placed(**properties).topic == "orders"


def test_a_marker_for_the_past_is_refused() -> None:
    assert refusal(TIMER_DELIVER_MS="5", TIMER_DEL_UNIQKEY="K").code == ResponseCode.MESSAGE_ILLEGAL


def test_a_time_beyond_the_limit_is_refused_with_the_limit() -> None:
    assert placed(TIMER_DELAY_SEC="259200").topic == "rmq_sys_wheel_timer"
    refused = refusal(TIMER_DELAY_MS="259200001")
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert "timerMaxDelaySec" in refused.remark


def test_timers_can_be_off() -> None:
    refused = refusal(terms=TimerSettings(timer_wheel_enable=False), TIMER_DELAY_MS="5000")
    assert (refused.code, "timerWheelEnable" in refused.remark) == (ResponseCode.SYSTEM_ERROR, True)


def test_a_full_slot_refuses() -> None:
    refused = refusal(terms=TimerSettings(timer_congest_num_each_slot=10), waiting=20, TIMER_DELAY_MS="5000")
    assert (refused.code, "timerCongestNumEachSlot" in refused.remark) == (ResponseCode.SYSTEM_ERROR, True)


@pytest.mark.parametrize(
    ("waiting", "dice", "wanted"),
    [(10, 0, False), (11, 0, True), (11, 1, False), (19, 8, True), (19, 9, False), (20, 9, True)],
)
def test_between_limit_and_twice_the_limit_the_dice_decide(waiting: int, dice: int, wanted: bool) -> None:
    assert is_congested(waiting, 10, lambda _: dice) is wanted


@pytest.mark.parametrize(
    ("topic", "properties", "wanted"),
    [
        ("orders", {"TIMER_DELAY_MS": "1"}, True),
        ("orders", {"KEYS": "k"}, False),
        ("orders", {"TIMER_DELAY_MS": "1", "TIMER_OUT_MS": "5"}, False),
        ("rmq_sys_wheel_timer", {"TIMER_DELAY_MS": "1"}, False),
    ],
)
def test_a_message_that_waited_already_does_not_wait_again(
    topic: str, properties: dict[str, Any], wanted: bool
) -> None:
    assert wants_timer(message(topic, **properties)) is wanted


def test_a_handle_names_topic_broker_slot_and_message() -> None:
    handle = recall_handle(placed(TIMER_DELAY_MS="2000", UNIQ_KEY="K1"), "broker-a")
    assert handle is not None
    assert base64.urlsafe_b64decode(handle) == b"v1 orders broker-a 1700000002001 K1"
    assert recall_handle(message(), "broker-a") is None


def test_the_exact_time_is_found_again_in_the_stored_message() -> None:
    out = 1_700_000_002_000
    assert due_ms({"TIMER_DELIVER_MS": str(out + 7)}, out, NOW_MS, 1_000) == out + 7
    assert due_ms({"TIMER_DELAY_MS": "2300"}, out, NOW_MS, 1_000) == NOW_MS + 2_300
    # Rolled, or of another broker: all of the slot is due at its end.
    assert due_ms({"TIMER_DELAY_MS": "99"}, out, NOW_MS, 1_000) == out + 1_000
    assert due_ms({"TIMER_DELIVER_MS": "x"}, out, NOW_MS, 1_000) == out + 1_000


def test_what_is_delivered_names_the_place_where_it_waited() -> None:
    waiting = stored(placed(TIMER_DELAY_MS="2000", KEYS="k", WAIT="true"))
    out = delivered(waiting, NOW_MS + 2_000)
    assert out is not None
    assert (out.topic, out.queue_id, out.flag, out.reconsume_times, out.body) == ("orders", 2, 9, 1, b"body")
    assert out.prepared_transaction_offset == waiting.commit_log_offset + waiting.total_size
    assert out.property_map == {
        "TIMER_DELAY_MS": "2000",
        "KEYS": "k",
        "WAIT": "true",
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
        "TIMER_OUT_MS": "1700000002000",
        "TIMER_ENQUEUE_MS": str(NOW_MS + 3),
        "TIMER_DEQUEUE_MS": str(NOW_MS + 2_000),
    }


def test_full_properties_are_delivered_without_the_times() -> None:
    out = delivered(stored(placed(TIMER_DELAY_MS="2000", KEYS="k" * 32_660)), NOW_MS)
    assert out is not None
    assert "TIMER_DEQUEUE_MS" not in out.property_map
    assert len(out.properties) <= 32_767


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "orders", "REAL_QID": "-1"},
        {"REAL_TOPIC": "orders", "REAL_QID": "9999999999"},
        {"REAL_TOPIC": "../orders", "REAL_QID": "0"},
        {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
        {"REAL_TOPIC": "rmq_sys_wheel_timer", "REAL_QID": "0"},
    ],
)
def test_nothing_is_delivered_to_where_it_may_not_go(properties: dict[str, Any]) -> None:
    assert delivered(stored(message("rmq_sys_wheel_timer", 0, **properties)), NOW_MS) is None


def test_rolls_are_counted() -> None:
    once = rolled(stored(placed(TIMER_DELAY_MS="2000")), NOW_MS)
    twice = rolled(stored(once), NOW_MS)
    assert (once.topic, once.property_map["TIMER_ROLL_TIMES"]) == ("rmq_sys_wheel_timer", "1")
    assert twice.property_map["TIMER_ROLL_TIMES"] == "2"
    assert twice.property_map["TIMER_OUT_MS"] == once.property_map["TIMER_OUT_MS"]


def test_only_copies_made_while_their_topic_is_deleted_say_so() -> None:
    first = stored(placed(TIMER_DELAY_MS="2000"))
    marked = stored(rolled(first, NOW_MS, is_deleted=True))
    assert first_place(first) == first.commit_log_offset
    assert first_place(marked) == DELETED_PLACE
    assert first_place(stored(rolled(marked, NOW_MS, is_deleted=True))) == DELETED_PLACE
    made_again = stored(rolled(marked, NOW_MS))
    assert first_place(made_again) == made_again.commit_log_offset
    out = delivered(marked, NOW_MS)
    assert out is not None
    assert TOPIC_DELETED not in out.property_map, "consumers may forward what they get"


def test_markers_name_the_key_with_or_without_the_topic() -> None:
    properties = {"UNIQ_KEY": "K", "REAL_TOPIC": "orders"}
    assert delete_keys(properties, topic_in_key=False) == ("K", "orders+K")
    assert delete_keys(properties, topic_in_key=True) == ("orders+K",)
    assert delete_keys({}, topic_in_key=True) == ()


@pytest.mark.parametrize("text", ["", "-5", "x", "9" * 16, "٣"])
def test_a_slot_that_is_no_number_is_none(text: str) -> None:
    assert slot_asked({"TIMER_OUT_MS": text}) is None
