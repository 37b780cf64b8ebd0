"""The needs of a request, from the right that is declared above its method and the fields of its header."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from gateway.access.needs import MAX_NAMES, consumer_needs, message_needs, needs_of, reading_needs, topic_needs
from gateway.remoting.declared import (
    ACCOUNT,
    CLUSTER_GET,
    CREATE,
    GET,
    PUB,
    SUB,
    UPDATE,
    Kind,
    Need,
    needs,
    on_cluster,
    on_group,
    on_topic,
)
from gateway.tests.access.accounts import CLUSTER
from wire.message.record import StoredMessage

CONSUMES = needs(on_group(SUB), on_topic(SUB))
WHOLE_CLUSTER = Need(Kind.CLUSTER, CLUSTER, UPDATE)


def topic(name: str, actions: object = SUB) -> Need:
    return Need(Kind.TOPIC, name, actions)  # type: ignore[arg-type]


def group(name: str, actions: object = SUB) -> Need:
    return Need(Kind.GROUP, name, actions)  # type: ignore[arg-type]


def test_a_send_needs_its_topic_under_the_name_of_its_header() -> None:
    assert needs_of(needs(on_topic(PUB, "b")), {"a": "g", "b": "orders"}, CLUSTER) == [topic("orders", PUB)]
    assert needs_of(needs(on_topic(PUB)), {"topic": "orders"}, CLUSTER) == [topic("orders", PUB)]


def test_a_consumer_needs_its_group_and_its_topic() -> None:
    fields = {"consumerGroup": "g", "topic": "orders"}
    assert needs_of(CONSUMES, fields, CLUSTER) == [group("g"), topic("orders")]


def test_a_request_without_a_field_needs_the_cluster_unless_the_field_is_optional() -> None:
    assert needs_of(CONSUMES, {"consumerGroup": "g"}, CLUSTER) == [group("g"), WHOLE_CLUSTER]
    assert needs_of(needs(on_topic(PUB, optional=True)), {}, CLUSTER) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("%RETRY%g", []),
        ("%RETRY%other", [group("other")]),
        ("%RETRY%g_orders", [group("g_orders")]),
        ("%RETRY%g+orders", [topic("orders")]),
        ("%RETRY%other+orders", [group("other"), topic("orders")]),
        ("%RETRY%g+", [group("g+")]),
        ("%RETRY%+orders", [group("+orders")]),
        ("%RETRY%gorders", [group("gorders")]),
        ("%RETRY%g_", [group("g_")]),
        ("%RETRY%", [group("")]),
        ("%DLQ%g", [topic("%DLQ%g")]),
        ("%LMQ%$parent$child", [topic("parent")]),
        ("%LMQ%light", [topic("%LMQ%light")]),
        ("", [topic("")]),
    ],
)
def test_a_retry_topic_counts_as_its_group_and_that_of_pops_as_the_topic(name: str, expected: list[Need]) -> None:
    fields = {"consumerGroup": "g", "topic": name}
    assert needs_of(CONSUMES, fields, CLUSTER) == [group("g"), *expected]


def test_the_older_retry_topic_of_pops_counts_as_the_topic_only_where_a_pop_is_named() -> None:
    fields = {"consumerGroup": "g", "topic": "%RETRY%g_orders"}
    popped = on_topic(SUB, is_popped=True)
    assert needs_of(needs(on_group(SUB), popped), fields, CLUSTER) == [group("g"), topic("orders")]
    assert needs_of(needs(popped), fields, CLUSTER) == [group("g_orders")]
    assert consumer_needs("g", ["%RETRY%g_orders"]) == [group("g"), group("g_orders")]
    assert consumer_needs("g", ["%RETRY%g_orders"], is_popped=True) == [group("g"), topic("orders")]


def test_a_message_that_a_pop_hid_counts_as_its_topic_only_for_the_group_that_popped_it() -> None:
    for origin, needed in (("g", topic("orders")), ("g_orders", group("g_orders")), ("", group("g_orders"))):
        properties = {"ORIGIN_GROUP": origin} if origin else {}
        message = cast(StoredMessage, SimpleNamespace(topic="%RETRY%g_orders", property_map=properties))
        assert message_needs("g", [message]) == [group("g"), needed]


def test_the_group_of_its_name_needs_the_rights_of_who_popped_a_message_that_it_did_not_give_back() -> None:
    properties = {"ORIGIN_GROUP": "g"}
    message = cast(StoredMessage, SimpleNamespace(topic="%RETRY%g_orders", property_map=properties))
    assert message_needs("g_orders", [message]) == [group("g_orders"), group("g"), topic("orders")]
    assert reading_needs(message) == [group("g", SUB | GET), topic("orders", SUB | GET)]
    properties["RETRY_TOPIC"] = "secret"
    assert message_needs("g_orders", [message]) == [group("g_orders")]
    assert message_needs("g", [message]) == [group("g"), group("g_orders")]
    assert reading_needs(message) == [group("g_orders", SUB | GET)]


def test_who_sends_to_a_retry_topic_needs_to_consume_with_the_group() -> None:
    assert topic_needs("%RETRY%g", PUB) == [group("g")]
    assert topic_needs("%RETRY%g", CREATE) == [group("g", CREATE)]
    assert topic_needs("%RETRY%g", SUB | GET) == [group("g", SUB | GET)]
    assert topic_needs("%RETRY%g+t", PUB) == [group("g"), topic("t", PUB)]


def test_the_retry_topic_of_a_pop_is_not_read_by_a_group_of_its_name() -> None:
    fields = {"consumerGroup": "g+orders", "topic": "%RETRY%g+orders"}
    assert needs_of(CONSUMES, fields, CLUSTER) == [group("g+orders"), group("g"), topic("orders")]


def test_a_field_with_several_names_needs_each_of_them_once() -> None:
    right = needs(on_topic(GET, "topicList", optional=True, separator=";"))
    assert needs_of(right, {"topicList": "a;b;;a;"}, CLUSTER) == [topic("a", GET), topic("b", GET)]
    assert needs_of(right, {}, CLUSTER) == []
    many = ";".join(f"t{number}" for number in range(MAX_NAMES + 1))
    assert needs_of(right, {"topicList": many}, CLUSTER) == [WHOLE_CLUSTER]


def test_only_the_reply_topic_of_the_cluster_needs_nothing() -> None:
    right = needs(on_topic(PUB, except_ending="_REPLY_TOPIC"))
    assert needs_of(right, {"topic": f"{CLUSTER}_REPLY_TOPIC"}, CLUSTER) == []
    for name in ("c_REPLY_TOPIC", f"x{CLUSTER}_REPLY_TOPIC", f"{CLUSTER}_REPLY_TOPIC2"):
        assert needs_of(right, {"topic": name}, CLUSTER) == [topic(name, PUB)]


def test_a_cluster_is_the_servers_own_or_the_one_that_is_named() -> None:
    assert needs_of(CLUSTER_GET, {"clusterName": "x"}, CLUSTER) == [Need(Kind.CLUSTER, CLUSTER, GET)]
    right = needs(on_cluster(UPDATE, "clusterName"))
    assert needs_of(right, {"clusterName": "x"}, CLUSTER) == [Need(Kind.CLUSTER, "x", UPDATE)]
    assert needs_of(right, {}, CLUSTER) == [WHOLE_CLUSTER]
    assert needs_of(ACCOUNT, {"topic": "x"}, CLUSTER) == []


def test_entries_of_a_body_need_what_a_pull_of_them_needs() -> None:
    assert consumer_needs("g", ["a", "%RETRY%g"]) == [group("g"), topic("a")]
    assert consumer_needs("g", ["a"], UPDATE) == [group("g", UPDATE), topic("a", UPDATE)]
