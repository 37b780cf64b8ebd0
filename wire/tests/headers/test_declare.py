"""Declared headers: ext fields to values and back."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.errors import FieldError, LocalError
from wire.headers.declare import Header, Int32, Int64, build_header, field, parse_header, with_letters


class Sample(Header):
    """A field of each kind, required, with a default and optional."""

    topic: str
    queue_id: Int32
    queue_offset: Int64
    is_order: bool
    client_id: str = field(name="clientID", default="nobody")
    committed: bool = True
    note: str | None = None
    max_count: Int32 | None = None
    offset: Int64 | None = None
    batch: bool | None = None


REQUIRED = {"topic": "t", "queueId": "3", "queueOffset": "5", "isOrder": "false"}
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
SAMPLES = st.builds(
    Sample,
    topic=st.text(),
    queue_id=INT32,
    queue_offset=INT64,
    is_order=st.booleans(),
    client_id=st.text(),
    committed=st.booleans(),
    note=st.none() | st.text(),
    max_count=st.none() | INT32,
    offset=st.none() | INT64,
    batch=st.none() | st.booleans(),
)


@settings(deadline=None)
@given(SAMPLES)
def test_a_header_survives_its_ext_fields(header: Sample) -> None:
    fields = build_header(header)

    assert all(type(value) is str for value in fields.values())
    assert parse_header(Sample, fields) == header


def test_values_are_written_as_java_prints_them_and_null_is_left_out() -> None:
    header = Sample(topic="t", queue_id=-1, queue_offset=2**40, is_order=True, batch=False)

    assert build_header(header) == {
        "topic": "t",
        "queueId": "-1",
        "queueOffset": "1099511627776",
        "isOrder": "true",
        "clientID": "nobody",
        "committed": "true",
        "batch": "false",
    }


def test_what_has_a_default_may_be_missing() -> None:
    header = parse_header(Sample, REQUIRED)

    assert header == Sample(topic="t", queue_id=3, queue_offset=5, is_order=False)
    assert (header.client_id, header.committed, header.note) == ("nobody", True, None)


def test_unknown_fields_are_ignored() -> None:
    extra = {"Signature": "x", "ns": "n", "bname": "b", "__ZONE_NAME": "z", "queueid": "9"}

    assert parse_header(Sample, REQUIRED | extra) == parse_header(Sample, REQUIRED)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"isOrder": "TRUE"}, {"is_order": True}),
        ({"isOrder": "True"}, {"is_order": True}),
        ({"isOrder": "FALSE"}, {"is_order": False}),
        ({"isOrder": "yes"}, {"is_order": False}),
        ({"isOrder": ""}, {"is_order": False}),
        ({"queueId": "+5"}, {"queue_id": 5}),
        ({"queueId": "007"}, {"queue_id": 7}),
        ({"queueId": "-2147483648"}, {"queue_id": -(2**31)}),
        ({"queueOffset": "9223372036854775807"}, {"queue_offset": 2**63 - 1}),
        ({"note": ""}, {"note": ""}),
        ({"note": "null"}, {"note": "null"}),
        ({"topic": "12"}, {"topic": "12"}),
        (
            {"queueId": "+5", "isOrder": "no", "offset": "-3"},
            {"queue_id": 5, "is_order": False, "offset": -3},
        ),
    ],
)
def test_text_is_read_as_java_reads_it(change: dict[str, str], expected: dict[str, Any]) -> None:
    header = parse_header(Sample, REQUIRED | change)

    assert {name: getattr(header, name) for name in expected} == expected


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_required_field_is_a_field_error(name: str) -> None:
    fields = {key: value for key, value in REQUIRED.items() if key != name}

    with pytest.raises(FieldError) as caught:
        parse_header(Sample, fields)

    assert (caught.value.header, caught.value.field, caught.value.value) == ("Sample", name, None)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("queueId", "", "an integer of 32 bits"),
        ("queueId", "many", "an integer of 32 bits"),
        ("queueId", " 1", "an integer of 32 bits"),
        ("queueId", "1_000", "an integer of 32 bits"),
        ("queueId", "2147483648", "an integer of 32 bits"),
        ("queueId", "-2147483649", "an integer of 32 bits"),
        ("queueId", "null", "an integer of 32 bits"),
        ("queueId", "9" * 5000, "an integer of 32 bits"),
        ("queueOffset", "9223372036854775808", "an integer of 64 bits"),
        ("queueOffset", "1.5", "an integer of 64 bits"),
        ("maxCount", "x", "an integer of 32 bits"),
        ("maxCount", "", "an integer of 32 bits"),
        ("offset", "0x10", "an integer of 64 bits"),
        ("offset", "NaN", "an integer of 64 bits"),
    ],
)
def test_what_is_no_number_of_its_width_is_a_field_error(name: str, text: str, expected: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse_header(Sample, REQUIRED | {name: text})

    assert (caught.value.field, caught.value.value, caught.value.expected) == (name, text, expected)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*REQUIRED, "clientID", "note", "maxCount", "batch"]), st.text(max_size=12)))
def test_any_ext_fields_are_a_header_or_a_field_error(fields: dict[str, str]) -> None:
    try:
        header = parse_header(Sample, REQUIRED | fields)
    except FieldError:
        return
    assert -(2**31) <= header.queue_id < 2**31
    assert type(header.is_order) is bool


def test_letters_follow_the_order_of_declaration() -> None:
    short = with_letters(Sample)
    header = parse_header(short, {"a": "t", "b": "1", "c": "2", "d": "true", "e": "me", "j": "true"})

    assert isinstance(header, Sample)
    assert (header.topic, header.queue_id, header.queue_offset, header.client_id) == ("t", 1, 2, "me")
    assert (header.batch, header.committed, header.note) == (True, True, None)
    assert build_header(header) == {
        "a": "t", "b": "1", "c": "2", "d": "true", "e": "me", "f": "true", "j": "true"
    }  # fmt: skip
    with pytest.raises(FieldError, match="ShortSample: field 'b' is missing"):
        parse_header(short, {"a": "t"})


def test_a_header_is_frozen_keyword_only_and_compares_by_value() -> None:
    header = parse_header(Sample, REQUIRED)

    with pytest.raises(AttributeError):
        header.topic = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Sample("t", 1, 2, True)  # type: ignore[call-arg]
    assert msgspec.structs.replace(header, topic="other") == parse_header(Sample, REQUIRED | {"topic": "other"})
    assert pickle.loads(pickle.dumps(header)) == header
    assert hash(header) == hash(parse_header(Sample, REQUIRED))


def test_a_kind_of_value_that_ext_fields_cannot_hold_is_our_own_error() -> None:
    class Odd(Header):
        numbers: list[int]

    with pytest.raises(LocalError, match=r"Odd\.numbers"):
        build_header(Odd(numbers=[1]))
