"""The types of messages, and the topics that take them."""

from __future__ import annotations

import pytest

from gateway.metadata.message_types import mismatch, priority_of, type_of_message


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, "NORMAL"),
        ({"TRAN_MSG": "True", "DELAY": "1"}, "TRANSACTION"),
        ({"TRAN_MSG": "false"}, "NORMAL"),
        ({"DELAY": "1", "__SHARDINGKEY": "a"}, "DELAY"),
        ({"TIMER_DELIVER_MS": "1"}, "DELAY"),
        ({"TIMER_DELAY_SEC": "1"}, "DELAY"),
        ({"TIMER_DELAY_MS": "1"}, "DELAY"),
        ({"__SHARDINGKEY": "a", "_SYS_MSG_PRIORITY_": "1"}, "FIFO"),
        ({"_SYS_MSG_PRIORITY_": "1", "__LITE_TOPIC": "x"}, "PRIORITY"),
        ({"__LITE_TOPIC": "x"}, "LITE"),
    ],
)
def test_a_message_has_the_first_type_that_fits(properties: dict[str, str], kind: str) -> None:
    assert type_of_message(properties) == kind


@pytest.mark.parametrize(
    ("topic_type", "properties", "fits"),
    [
        (None, {}, True),
        (None, {"DELAY": "1"}, False),
        ("DELAY", {"DELAY": "1"}, True),
        ("DELAY", {}, False),
        ("MIXED", {"DELAY": "1"}, True),
        ("UNSPECIFIED", {}, False),
    ],
)
def test_a_topic_takes_its_own_type_and_a_mixed_one_takes_all(
    topic_type: str | None, properties: dict[str, str], fits: bool
) -> None:
    attributes = {} if topic_type is None else {"message.type": topic_type}
    assert (mismatch(attributes, properties) is None) is fits


@pytest.mark.parametrize(("text", "priority"), [("3", 3), ("0", 0), ("-1", -1), ("high", -1), ("9" * 5000, -1)])
def test_a_priority_is_a_number_or_none(text: str, priority: int) -> None:
    assert priority_of({"_SYS_MSG_PRIORITY_": text}) == priority
