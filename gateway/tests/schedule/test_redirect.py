"""A delayed message waits in the schedule topic and comes back as it was."""

import pytest

from gateway.metadata.names import SCHEDULE_TOPIC
from gateway.schedule.redirect import (
    DelayLevels,
    delay_level,
    redirect_delayed,
    released,
)
from wire.message.message_id import pack_host
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage, build_record, parse_record

LEVELS = DelayLevels.parse("1s 5s 10s")


def message(**properties: str) -> OutgoingMessage:
    return OutgoingMessage(
        topic="orders",
        queue_id=2,
        flag=9,
        sys_flag=0,
        born_at_ms=5,
        born_host=pack_host("10.0.0.1", 1234),
        store_host=pack_host("127.0.0.1", 10911),
        reconsume_times=1,
        prepared_transaction_offset=0,
        body=b"body",
        properties=build_properties(properties),
        property_map=properties,
    )


def test_it_waits_in_the_queue_of_its_level_with_its_real_place_in_properties() -> None:
    waiting = redirect_delayed(message(DELAY="2", KEYS="k"), LEVELS)
    assert (waiting.topic, waiting.queue_id) == (SCHEDULE_TOPIC, 1)
    assert waiting.property_map == {"DELAY": "2", "KEYS": "k", "REAL_TOPIC": "orders", "REAL_QID": "2"}
    assert parse_properties(waiting.properties) == waiting.property_map


def test_a_level_above_the_last_is_cut_to_the_last() -> None:
    waiting = redirect_delayed(message(DELAY="99"), LEVELS)
    assert waiting.queue_id == 2
    assert waiting.property_map["DELAY"] == "3"


def test_after_the_delay_everything_is_as_it_was_sent_and_the_level_is_shown() -> None:
    waiting = redirect_delayed(message(DELAY="2", KEYS="k", WAIT="true"), LEVELS)
    stored = parse_record(build_record(waiting, 0, 4096, 1_000))
    out = released(stored)
    assert out is not None
    assert (out.topic, out.queue_id, out.flag, out.body, out.born_at_ms) == ("orders", 2, 9, b"body", 5)
    assert out.reconsume_times == 1
    assert out.property_map == {"DELAY": "2", "KEYS": "k", "WAIT": "true", "REAL_TOPIC": "orders", "REAL_QID": "2"}
    assert out.properties == waiting.properties


def test_a_record_without_a_real_topic_is_not_released() -> None:
    stored = parse_record(build_record(message(DELAY="1"), 0, 0, 0))
    assert released(stored) is None


def test_levels_and_timers_are_told_apart() -> None:
    assert delay_level({"DELAY": "4"}) == 4
    assert delay_level({}) == delay_level({"DELAY": ""}) == 0


@pytest.mark.parametrize(
    ("text", "level"), [("+1", 1), ("-1", -1), ("007", 7), ("2147483647", 2147483647), ("-" + "0" * 9000 + "1", -1)]
)
def test_a_level_is_read_as_java_reads_a_number(text: str, level: int) -> None:
    assert delay_level({"DELAY": text}) == level


@pytest.mark.parametrize(
    "text", ["soon", " ", " 1", "1x", "1.5", "1_0", "--1", "2147483648", "9" * 9000, "+", "0" * 9000 + "x"]
)
def test_what_java_cannot_read_is_no_level(text: str) -> None:
    assert delay_level({"DELAY": text}) is None
