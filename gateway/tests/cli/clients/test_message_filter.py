from __future__ import annotations

import click
import pytest

from gateway.cli.clients.message_filter import Conditions
from gateway.tests.cli.clients.test_json_messages import received

MESSAGE = received(b'{"total": 0}', TAGS="paid", KEYS="7 8", host="web1")


@pytest.mark.parametrize(
    ("tag", "keys", "properties", "pattern", "takes"),
    [
        (None, (), (), None, True),
        ("*", (), (), None, True),
        ("paid", (), (), None, True),
        ("open || paid", (), (), None, True),
        ("open", (), (), None, False),
        (None, ("7",), (), None, True),
        (None, ("9", "8"), (), None, True),
        (None, ("9",), (), None, False),
        (None, (), ("host=web1",), None, True),
        (None, (), ("host=web1", "zone=a"), None, False),
        (None, (), (), r'"total": \d', True),
        (None, (), (), "total: 1", False),
        ("paid", ("7",), ("host=web2",), None, False),
    ],
)
def test_all_conditions_must_hold(
    tag: str | None, keys: tuple[str, ...], properties: tuple[str, ...], pattern: str | None, takes: bool
) -> None:
    assert Conditions(tag, keys, properties, pattern).filter().takes(MESSAGE) is takes


def test_tags_that_the_broker_looks_at_are_not_looked_at_again() -> None:
    assert Conditions("open").filter(with_tags=False).takes(MESSAGE)


@pytest.mark.parametrize(
    ("tag", "properties", "pattern", "problem"),
    [
        ("||", (), None, "tag"),
        (None, ("host",), None, "is not NAME=VALUE"),
        (None, ("=x",), None, "is not NAME=VALUE"),
        (None, (), "(", "is not a regular expression"),
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(
    tag: str | None, properties: tuple[str, ...], pattern: str | None, problem: str
) -> None:
    with pytest.raises(click.BadParameter, match=problem):
        Conditions(tag, (), properties, pattern).filter()
