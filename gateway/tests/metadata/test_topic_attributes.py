"""The attribute change syntax of tools."""

from __future__ import annotations

import pytest

from gateway.errors import RequestRefused
from gateway.metadata.topic_attributes import changed_attributes
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
        ("+queue.type=BatchCQ", True, "no batch queues"),
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
