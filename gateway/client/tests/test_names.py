"""Tests of what is a name."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.client.errors import MessageRefused
from gateway.client.names import check_group, check_topic, with_namespace, without_namespace


def test_a_topic_may_have_127_characters_and_a_group_255() -> None:
    check_topic("t" * 127)
    check_group("g" * 255)
    with pytest.raises(MessageRefused, match="128 characters: it takes 1 to 127"):
        check_topic("t" * 128)
    with pytest.raises(MessageRefused, match="256 characters: it takes 1 to 255"):
        check_group("g" * 256)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "a\n", "Zürich", b"bytes", None, 5])
def test_what_is_no_name_is_refused_and_said_of_what(name: Any) -> None:
    with pytest.raises(MessageRefused, match="refused: topic"):
        check_topic(name)
    with pytest.raises(MessageRefused, match="refused: group"):
        check_group(name)


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%group", "%RETRY%ns%group"),
        ("%DLQ%group", "%DLQ%ns%group"),
        ("a%b", "ns%a%b"),
    ],
)
def test_names_go_into_a_namespace_and_come_out(name: str, inside: str) -> None:
    assert with_namespace("ns", name) == inside
    assert with_namespace("ns", inside) == inside
    assert without_namespace("ns", inside) == name


@pytest.mark.parametrize("name", ["TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "CID_RMQ_SYS_x"])
def test_system_names_stay(name: str) -> None:
    assert with_namespace("ns", name) == name


def test_without_a_namespace_nothing_changes() -> None:
    assert with_namespace("", "orders") == "orders"
    assert without_namespace("", "a%b") == "a%b"
    assert without_namespace("other", "ns%orders") == "ns%orders"
