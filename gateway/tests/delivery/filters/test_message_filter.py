"""A subscription's filter looks at tags codes, records and properties, and never at a body."""

from __future__ import annotations

import pytest

from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.sql92 import sql92_filter
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record

HOST = pack_host("192.0.2.1", 10911)
BY_COLOUR = MessageFilter(None, sql92_filter("colour = 'red' AND size > 3"))


def record(properties: dict[str, str], body: bytes = b"\x78\x9c compressed", topic: str = "orders") -> bytes:
    message = OutgoingMessage(topic, 0, 0, 0, 1, HOST, HOST, 0, 0, body, build_properties(properties))
    return build_record(message, 0, 0, 1)


@pytest.mark.parametrize("topic", ["orders", "%RETRY%" + "g" * 200])
def test_a_record_passes_by_its_properties(topic: str) -> None:
    assert BY_COLOUR.accepts_record(memoryview(record({"colour": "red", "size": "4"}, topic=topic)))
    assert not BY_COLOUR.accepts_record(memoryview(record({"colour": "red", "size": "3"}, topic=topic)))
    assert not BY_COLOUR.accepts_record(memoryview(record({}, topic=topic)))
    assert not BY_COLOUR.accepts_record(memoryview(record({"colour": "red"}, b"size\x014\x02", topic)))


def test_without_an_expression_every_record_passes() -> None:
    assert EVERYTHING.accepts_record(memoryview(record({})))
    assert MessageFilter(lambda code: code == 7).accepts_record(memoryview(record({})))


def test_a_damaged_record_is_not_passed_over() -> None:
    whole = record({"colour": "blue"})
    for damaged in (whole[:-1], whole[:60], b"", whole[:84] + b"\x00\x00\x00\x01" + whole[88:]):
        assert BY_COLOUR.accepts_record(memoryview(damaged))
