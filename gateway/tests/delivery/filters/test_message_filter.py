"""A subscription's filter looks at tags codes, records and properties, and never at a body."""

from __future__ import annotations

from itertools import accumulate

import pytest

from gateway.delivery.filters import record_filter
from gateway.delivery.filters.message_filter import EVERYTHING, MessageFilter
from gateway.delivery.filters.record_filter import PropertyCondition, Work
from gateway.delivery.filters.sql92 import Sql92Filter, sql92_filter
from gateway.delivery.filters.turns import READ_STEPS
from wire.disk.consume_queue import UNIT_BYTES, build_unit
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record

HOST = pack_host("192.0.2.1", 10911)
BY_COLOUR = MessageFilter(None, sql92_filter("colour = 'red' AND size > 3"))


def record(properties: dict[str, str], body: bytes = b"\x78\x9c compressed", topic: str = "orders") -> bytes:
    message = OutgoingMessage(topic, 0, 0, 0, 1, HOST, HOST, 0, 0, body, build_properties(properties))
    return build_record(message, 0, 0, 1)


def passes(data: bytes, wanted: MessageFilter = BY_COLOUR) -> bool:
    return chosen(wanted, data, 0, build_unit(0, len(data), 0)) == [0]


def chosen(wanted: MessageFilter, data: bytes, start: int, units: bytes) -> list[int]:
    choose = wanted.choose_within(Work(READ_STEPS))
    assert choose is not None
    numbers, looked = choose(data, start, units, 0)
    assert looked * UNIT_BYTES == len(units)
    return numbers


@pytest.mark.parametrize("topic", ["orders", "%RETRY%" + "g" * 200])
def test_a_record_passes_by_its_properties(topic: str) -> None:
    for _ in range(2):  # what was seen before is judged as it was then
        assert passes(record({"colour": "red", "size": "4"}, topic=topic))
        assert passes(record({"size": "4", "colour": "red"}, topic=topic))
        assert not passes(record({"colour": "red", "size": "3"}, topic=topic))
        assert not passes(record({"colour": "red", "size": "many"}, topic=topic))
        assert not passes(record({}, topic=topic))
        assert not passes(record({"colour": "red"}, b"size\x014\x02", topic))


def test_of_several_records_in_a_buffer_those_that_pass_are_named() -> None:
    records = [record({"colour": "red", "size": size}) for size in ("4", "1", "5", "2")]
    data, sizes = b"-" + b"".join(records), [len(each) for each in records]
    units = [
        build_unit(1000 + place, size, 0) for place, size in zip(accumulate(sizes, initial=1), sizes, strict=False)
    ]
    assert chosen(BY_COLOUR, data, 1000, b"".join(units)) == [0, 2]
    assert chosen(BY_COLOUR, data, 1000, units[1]) == []


def test_without_an_expression_no_record_is_looked_into() -> None:
    assert EVERYTHING.choose_within(Work(READ_STEPS)) is None
    assert MessageFilter(lambda code: code == 7).choose_within(Work(READ_STEPS)) is None


def test_a_damaged_record_is_not_passed_over() -> None:
    whole = record({"colour": "blue"})
    assert not passes(whole)
    for damaged in (whole[:-1], whole[:60], b"", whole[:84] + b"\x00\x00\x00\x01" + whole[88:]):
        assert passes(damaged)


def test_more_texts_than_are_remembered_are_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_filter, "MAX_VERDICTS", 4)
    matches = sql92_filter("size > 3").matches
    wanted = MessageFilter(None, Sql92Filter([PropertyCondition(matches, ["size"])]))
    for number in [*range(20), *range(20)]:
        assert passes(record({"size": str(number)}), wanted) == (number > 3)
    assert not passes(record({"size": "9" * 100}), wanted), "no int"


def test_records_are_looked_into_until_the_work_is_used_up() -> None:
    wanted = MessageFilter(None, sql92_filter("size > 3"))
    records = [record({"size": str(number)}) for number in range(100)]
    data, sizes = b"".join(records), [len(each) for each in records]
    units = b"".join(
        build_unit(place, size, 0) for place, size in zip(accumulate(sizes, initial=0), sizes, strict=False)
    )
    work = Work(60)
    choose = wanted.choose_within(work)
    assert choose is not None
    numbers, looked = choose(data, 0, units, 0)
    assert 4 < looked < 40
    assert numbers == list(range(4, looked))
    assert choose(data, 0, units, 0) == ([], 0)
    assert choose(data, 0, units[-20:], 1) == ([0], 1), "a read makes a step whatever it costs"


@pytest.mark.parametrize(
    "expression", ["a > 5.0", "a > 5 OR b > 5", "a CONTAINS 'x'", "a = b", "a > b", "a > 5 AND b > 5"]
)
def test_what_costs_more_is_counted_as_more(expression: str) -> None:
    wanted = sql92_filter(expression)
    short, long, longest = (wanted.steps({"a": "1" * length, "b": "1"}) for length in (1, 1_000, 30_000))
    assert 0 < short < long < longest
    assert sql92_filter(" OR ".join([expression] * 100)).steps({"a": "1", "b": "1"}) >= 50 * short
