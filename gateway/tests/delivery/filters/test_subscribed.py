"""The filters of groups: compiled with heartbeats, found by pulls, told apart by what they say."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.delivery.filters.sql92 import ExpressionError
from gateway.delivery.filters.subscribed import (
    MAX_HEARTBEAT_CHARACTERS,
    SubscribedFilters,
    check_expression_type,
    compiled,
)
from gateway.errors import RequestRefused
from gateway.tests.delivery.reactor_turns import ReactorTurns
from gateway.tests.membership.subscriptions import subscription
from wire.bodies.subscriptions import SubscriptionData
from wire.codes import ResponseCode

GOOD = SubscriptionData("orders", "a = 5", sub_version=10, expression_type="SQL92")
BAD = replace(GOOD, sub_string="a =", sub_version=11)


def refusal(filters: SubscribedFilters, subscription: SubscriptionData, version: int) -> tuple[int, str]:
    with pytest.raises(RequestRefused) as caught:
        filters.find("g", subscription, version)
    return caught.value.code, caught.value.remark


def test_a_pull_finds_what_the_heartbeat_brought() -> None:
    filters = SubscribedFilters()
    filters.register("g", [subscription("%RETRY%g"), GOOD])
    assert len(filters) == 1
    accepts = filters.find("g", GOOD, 10).matches
    assert accepts({"a": "5"})
    assert not accepts({"a": "6"})


def test_a_pull_before_the_heartbeat_was_compiled_compiles_itself() -> None:
    assert SubscribedFilters().find("g", GOOD, 10).matches({"a": "5"})


def test_an_expression_that_never_was_one_has_no_data() -> None:
    filters = SubscribedFilters()
    filters.register("g", [BAD])
    code, remark = refusal(filters, BAD, 11)
    assert code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert "g subscribes to orders" in remark
    assert 'Encountered "<EOF>"' in remark


def test_a_wrong_expression_after_a_good_one_is_not_the_latest() -> None:
    filters = SubscribedFilters()
    filters.register("g", [GOOD])
    filters.register("g", [BAD])
    code, remark = refusal(filters, BAD, 11)
    assert code == ResponseCode.FILTER_DATA_NOT_LATEST
    assert 'Encountered "<EOF>"' in remark
    assert filters.find("g", BAD, 10).matches({"a": "5"})  # a member that does not know of the new one yet
    newest = replace(GOOD, sub_string="a = 6", sub_version=12)
    assert filters.find("g", newest, 12).matches({"a": "6"})


def test_a_group_that_comes_back_with_an_older_clock_gets_what_it_asks_for() -> None:
    filters = SubscribedFilters()
    filters.register("g", [GOOD])
    earlier = replace(GOOD, sub_string="a = 6", sub_version=3)
    assert filters.find("g", earlier, 3).matches({"a": "6"})


def test_the_same_expression_in_a_newer_version_is_the_latest() -> None:
    filters = SubscribedFilters()
    filters.register("g", [GOOD])
    filters.register("g", [replace(GOOD, sub_version=99)])
    assert filters.find("g", replace(GOOD, sub_version=99), 99).matches({"a": "5"})


def test_the_oldest_goes_when_there_are_too_many_and_is_compiled_anew() -> None:
    filters = SubscribedFilters(limit=2)
    for topic in ("a", "b", "c"):
        filters.register("g", [replace(GOOD, topic=topic)])
    assert len(filters) == 2
    assert filters.find("g", replace(GOOD, topic="a"), 10).matches({"a": "5"})
    assert len(filters) == 2


def test_a_heartbeat_with_very_much_text_is_not_compiled_at_once() -> None:
    filters = SubscribedFilters()
    wanted = [replace(GOOD, topic=topic, sub_string=f"a = 5 AND {topic} IS NULL" + " " * 15_000) for topic in "wxyz"]
    left = MAX_HEARTBEAT_CHARACTERS
    for number, each in enumerate(wanted):
        left = filters.register(f"g{number}", [each], left)
    assert len(filters) == 2
    assert left == 0
    assert filters.find("g3", wanted[3], 10).matches({"a": "5"})
    assert filters.register("g0", wanted[:1], 0) == 0, "what is known costs nothing"
    assert filters.register("g0", wanted[:1], 50) == 50
    assert len(filters) == 3


def test_nothing_is_compiled_for_a_heartbeat_while_others_wait_for_their_turn() -> None:
    turns = ReactorTurns()
    filters = SubscribedFilters(None, turns)
    turns.use_up()
    filters.register("g", [GOOD])
    assert len(filters) == 0
    turns.end()
    filters.register("g", [GOOD])
    assert len(filters) == 1


def test_filters_are_kept_within_a_number_of_characters() -> None:
    filters = SubscribedFilters(characters=40_000)
    wanted = [replace(GOOD, topic=topic, sub_string=f"a = 5 AND {topic} IS NULL" + " " * 15_000) for topic in "xyz"]
    for each in wanted:
        assert filters.find("g", each, 10).matches({"a": "5"})
    assert len(filters) == 2
    assert filters.find("g", replace(wanted[2], sub_string="a ="), 10).matches({"a": "5"}), "the last good one"
    assert filters.find("g", wanted[0], 10).matches({"a": "5"}), "compiled anew"
    assert len(filters) == 2


def test_a_single_filter_is_kept_whatever_its_size() -> None:
    filters = SubscribedFilters(characters=10)
    for topic in "abc":
        assert filters.find("g", replace(GOOD, topic=topic), 10).matches({"a": "5"})
        assert len(filters) == 1


def test_a_text_too_long_to_be_used_is_refused_and_not_kept() -> None:
    filters = SubscribedFilters(characters=40_000)
    wanted = replace(GOOD, sub_string="a = 5" + " " * 1_000_000)
    for _ in range(2):
        code, remark = refusal(filters, wanted, 10)
        assert code == ResponseCode.FILTER_DATA_NOT_EXIST
        assert "the limit is 16384" in remark
    longer = replace(GOOD, sub_string="a = 5" + " " * 1_000_001)
    assert "1000006 characters" in refusal(filters, longer, 10)[1]
    assert len(filters) == 1


@pytest.mark.parametrize(
    ("expression_type", "expression"), [("SQL92", ""), ("SQL92", None), ("JAVA", "a = 5"), ("sql92", "a = 5")]
)
def test_what_cannot_be_compiled(expression_type: str, expression: str | None) -> None:
    with pytest.raises(ExpressionError):
        compiled(expression_type, expression)


def test_only_tags_pass_when_the_filter_is_off() -> None:
    check_expression_type("TAG")
    check_expression_type(None)
    with pytest.raises(RequestRefused) as caught:
        check_expression_type("SQL92")
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    assert caught.value.remark.startswith("The broker does not support consumer to filter message by SQL92")
