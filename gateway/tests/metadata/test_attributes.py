"""The attribute change syntax of tools."""

from __future__ import annotations

import pytest

from gateway.errors import RequestRefused
from gateway.metadata.attributes import GROUP_ATTRIBUTES, changed_attributes, priority_factor
from wire.codes import ResponseCode


def test_attributes_are_set_altered_and_removed() -> None:
    made = changed_attributes({}, "+message.type=FIFO,+reserve.time=1000", is_new=True)
    assert made == {"message.type": "FIFO", "reserve.time": "1000"}
    assert changed_attributes(made, " +message.type=NORMAL , -reserve.time ", is_new=False) == {
        "message.type": "NORMAL"
    }
    assert changed_attributes(made, "", is_new=False) == made


@pytest.mark.parametrize(
    ("changes", "is_new", "reason"),
    [
        ("message.type=FIFO", True, "expected \\+name=value or -name"),
        ("+message.type", True, "expected \\+name=value or -name"),
        ("+color=red", True, "known are cleanup.policy"),
        ("+message.type=SQUARE", True, "expected UNSPECIFIED, NORMAL"),
        ("+reserve.time=soon", True, "milliseconds, or -1"),
        ("+reserve.time=-2", True, "milliseconds, or -1"),
        ("+cleanup.policy=COMPACTION", True, "does not compact"),
        ("+queue.type=RocksDBCQ", True, "SimpleCQ or BatchCQ"),
        ("+message.type=ODD", True, "LITE or MIXED"),
        ("-message.type", True, "nothing to remove"),
        ("+message.type=FIFO,-message.type", False, "named twice"),
        ("+" * 5000, True, "more than 4096 characters"),
    ],
)
def test_a_wrong_change_is_refused_with_its_reason(changes: str, is_new: bool, reason: str) -> None:
    with pytest.raises(RequestRefused, match=reason) as refused:
        changed_attributes({}, changes, is_new=is_new)
    assert refused.value.code is ResponseCode.INVALID_PARAMETER


def test_the_kind_of_queue_of_an_existing_topic_stays() -> None:
    with pytest.raises(RequestRefused, match="cannot change on an existing topic"):
        changed_attributes({"queue.type": "BatchCQ"}, "+queue.type=SimpleCQ", is_new=False)


def test_a_map_of_changes_means_the_same_as_the_text() -> None:
    made = changed_attributes({}, {"+message.type": "FIFO", "reserve.time": "7"}, is_new=True)
    assert made == {"message.type": "FIFO", "reserve.time": "7"}
    assert changed_attributes(made, {"-message.type": ""}, is_new=False) == {"reserve.time": "7"}
    with pytest.raises(RequestRefused, match="known are"):
        changed_attributes({}, {"+": "x"}, is_new=True)


def test_mixed_topics_are_refused_where_they_are_not_allowed() -> None:
    assert changed_attributes({}, "+message.type=MIXED", is_new=True) == {"message.type": "MIXED"}
    with pytest.raises(RequestRefused, match="MIXED message type is not supported"):
        changed_attributes({}, "+message.type=MIXED", is_new=True, mixed_allowed=False)


@pytest.mark.parametrize(("text", "factor"), [("0", 0), ("35", 35), ("many", 100)])
def test_the_factor_of_a_group_is_a_number_or_all(text: str, factor: int) -> None:
    assert priority_factor({"priority.factor": text}) == factor


def test_the_factor_of_a_group_is_a_percentage() -> None:
    assert changed_attributes({}, {"+priority.factor": "0"}, is_new=True, known=GROUP_ATTRIBUTES)
    with pytest.raises(RequestRefused, match="0 to 100"):
        changed_attributes({}, {"+priority.factor": "101"}, is_new=True, known=GROUP_ATTRIBUTES)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("lite.bind.topic", ["parent"], [""]),
        ("lite.sub.model", ["Shared", "Exclusive"], ["exclusive", ""]),
        ("lite.sub.reset.offset.exclusive", ["true", "FALSE"], ["x", "1"]),
        ("lite.sub.reset.offset.unsubscribe", ["true", "false"], [""]),
        ("lite.sub.client.quota", ["-1", "0", "1000000000"], ["-2", "x"]),
        ("lite.sub.client.max.event.cnt", ["10", "1000000000"], ["9", "-1"]),
        ("lite.sub.wildcard", ["true", "x"], [""]),
    ],
)
def test_groups_have_attributes_for_lite_topics(name: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        changes = {f"+{name}": value}
        assert changed_attributes({}, changes, is_new=True, known=GROUP_ATTRIBUTES) == {name: value}
    for value in bad:
        with pytest.raises(RequestRefused):
            changed_attributes({}, {f"+{name}": value}, is_new=True, known=GROUP_ATTRIBUTES)


@pytest.mark.parametrize(
    ("value", "taken"), [("-1", True), ("0", True), ("43200", True), ("43201", False), ("x", False)]
)
def test_lite_topics_stay_for_thirty_days_at_most(value: str, taken: bool) -> None:
    changes = f"+message.type=LITE,+lite.topic.expiration={value}"
    if taken:
        attributes = changed_attributes({}, changes, is_new=True)
        assert attributes == {"message.type": "LITE", "lite.topic.expiration": value}
    else:
        with pytest.raises(RequestRefused):
            changed_attributes({}, changes, is_new=True)
