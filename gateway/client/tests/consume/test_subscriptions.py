"""Tests of subscriptions by tag and by SQL92."""

from __future__ import annotations

import pytest

from gateway.client.consume.subscriptions import Sql, retry_topic, subscription_of, tags_of
from gateway.client.errors import ConfigurationError, MessageRefused


@pytest.mark.parametrize("expression", ["*", "", None])
def test_everything_is_taken(expression: str | None) -> None:
    subscription = subscription_of("t", expression, version_ms=7)
    assert subscription.takes_all
    assert subscription.accepts(None)
    assert subscription.data().sub_string == "*"


def test_tags_are_compared_as_text_not_by_hash() -> None:
    subscription = tags_of("t", "Aa || C", version_ms=7)
    assert subscription.accepts("Aa")
    assert not subscription.accepts("BB"), "its hash is that of Aa"
    assert not subscription.accepts(None)
    data = subscription.data()
    assert (data.topic, data.sub_string, data.sub_version, data.expression_type) == ("t", "Aa || C", 7, "TAG")
    assert data.code_set == frozenset((2112, 67))


def test_sql_is_left_to_the_broker() -> None:
    subscription = subscription_of("t", Sql("price > 5"), version_ms=7)
    assert subscription.accepts(None)
    assert subscription.data().expression_type == "SQL92"


@pytest.mark.parametrize("wanted", ["||", " || ", 5, Sql(" ")])
def test_expressions_that_cannot_work_are_refused(wanted: object) -> None:
    if wanted == " || ":
        assert not tags_of("t", " || ", version_ms=0).accepts("x"), "as upstream: white space takes nothing"
        return
    with pytest.raises(ConfigurationError, match="subscription of t"):
        subscription_of("t", wanted, version_ms=0)  # type: ignore[arg-type]


def test_a_topic_needs_a_name() -> None:
    with pytest.raises(MessageRefused):
        tags_of(" ", version_ms=0)


def test_failed_messages_come_again_in_the_retry_topic() -> None:
    assert retry_topic("g") == "%RETRY%g"
