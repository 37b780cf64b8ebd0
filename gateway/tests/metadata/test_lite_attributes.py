"""The attributes of lite topics."""

from __future__ import annotations

import pytest

from gateway.metadata import lite_attributes as lite


def test_a_topic_of_the_type_lite_is_a_parent() -> None:
    assert lite.is_parent({"message.type": "LITE"})
    assert not lite.is_parent({"message.type": "MIXED"})
    assert not lite.is_parent({})


@pytest.mark.parametrize(("text", "minutes"), [("30", 30), ("0", 0), ("-1", -1), ("x", -1), ("", -1), (None, -1)])
def test_a_time_that_is_none_is_for_ever(text: str | None, minutes: int) -> None:
    assert lite.minutes_to_live({} if text is None else {"lite.topic.expiration": text}) == minutes


def test_a_group_is_bound_to_one_topic_or_none() -> None:
    assert lite.bound_topic({"lite.bind.topic": "parent"}) == "parent"
    assert lite.bound_topic({"lite.bind.topic": ""}) is None
    assert lite.bound_topic({}) is None


def test_a_group_shares_and_goes_on_unless_it_says_otherwise() -> None:
    for question, name, yes, no in (
        (lite.is_exclusive, "lite.sub.model", "Exclusive", "Shared"),
        (lite.resets_on_takeover, "lite.sub.reset.offset.exclusive", "true", "false"),
        (lite.resets_on_unsubscribe, "lite.sub.reset.offset.unsubscribe", "TRUE", "false"),
        (lite.is_wildcard, "lite.sub.wildcard", "anything", ""),
    ):
        assert question({name: yes})
        assert not question({name: no})
        assert not question({})
