"""Names at the edge of the broker."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestRefused
from gateway.metadata.names import check_group_name, check_topic_name, group_name_fault, topic_name_fault
from wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("../../x", "illegal characters"),
        ("a/b", "illegal characters"),
        ("a@b", "illegal characters"),
        ("a b", "illegal characters"),
        ("ünï", "illegal characters"),
        ("a\n", "illegal characters"),
        ("a\x00", "illegal characters"),
        ("", "blank"),
        ("  ", "blank"),
        ("t" * 128, "128 characters, the limit is 127"),
    ],
)
def test_a_topic_name_that_breaks_a_rule_is_refused_with_the_rule(topic: str, reason: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        check_topic_name(topic)
    assert refused.value.code is ResponseCode.INVALID_PARAMETER
    assert reason in refused.value.remark


@pytest.mark.parametrize("topic", ["t", "t" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250, "ns%a|b_c-9"])
def test_a_topic_name_within_the_rules_passes(topic: str) -> None:
    check_topic_name(topic)


def test_a_group_name_may_have_255_characters_and_no_more() -> None:
    check_group_name("g" * 255)
    with pytest.raises(RequestRefused, match="256 characters, the limit is 255"):
        check_group_name("g" * 256)


@given(st.text(max_size=300))
def test_only_names_of_the_allowed_characters_pass(name: str) -> None:
    allowed = re.fullmatch(r"[%|a-zA-Z0-9_-]{1,255}", name) is not None
    assert (group_name_fault(name) is None) == allowed
    if topic_name_fault(name) is None:
        assert allowed
