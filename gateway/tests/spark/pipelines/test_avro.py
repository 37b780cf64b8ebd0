"""Bodies in Avro, read by fastavro; what is none of the schema is null, whatever its bytes are."""

from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_type

from gateway.spark.errors import OptionRefused
from gateway.spark.pipelines.avro import avro_reader, avro_schema, read_bodies
from gateway.spark.pipelines.decoding import check_decoding

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "customer", "type": ["null", "string"], "default": None},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": {"type": "array", "items": "Kind"}},
        {"name": "labels", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 4}},
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "share", "type": ["float", "double"]},
    ],
}
DATUM = {
    "id": 7,
    "customer": "ada",
    "total": Decimal("12.50"),
    "day": date(2026, 5, 1),
    "placed": datetime(2026, 5, 1, 12, 0, 0, 5000, UTC),
    "kind": "PAID",
    "before": ["NEW", "NEW"],
    "labels": {"a": 1, "b": None},
    "mark": b"abcd",
    "token": "no UUID, which nobody looks at",
    "at": 1000,
    "share": 0.5,
}


def encoded(schema: Any, datum: Any) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), datum)
    return out.getvalue()


def an_order() -> bytes:
    schema = json.loads(json.dumps(ORDER))
    for field in schema["fields"]:
        if field["name"] in ("token", "at"):
            field["type"] = field["type"]["type"]
    return encoded(schema, DATUM)


def read(schema: Any, *bodies: bytes | None) -> list[Any]:
    """Read bodies as a worker does, to which the reader was sent."""
    found = avro_schema(json.dumps(schema))
    reader = avro_reader(found, to_arrow_type(found.data_type, timezone="UTC"))
    worker = pickle.loads(cloudpickle.dumps(reader))
    values: pa.Array = worker(pa.array(bodies, pa.binary()))
    values.validate(full=True)
    assert values.type == to_arrow_type(found.data_type, timezone="UTC")
    return list(values.to_pylist())


def test_types_are_those_of_spark() -> None:
    assert avro_schema(json.dumps(ORDER)).data_type.simpleString() == (
        "struct<id:int,customer:string,total:decimal(9,2),day:date,placed:timestamp,kind:string,before:array<string>,"
        "labels:map<string,bigint>,mark:binary,token:string,at:int,share:double>"
    )


def test_values_are_read_and_what_is_none_of_the_schema_is_null() -> None:
    body = an_order()
    expected = {**DATUM, "labels": [("a", 1), ("b", None)]}
    assert read(ORDER, body, body[:-1], body + b"\0", b"", None, b"no Avro", body) == [
        expected, None, None, None, None, None, expected,
    ]  # fmt: skip


def test_a_number_that_is_too_large_for_its_type_spoils_its_own_value_only() -> None:
    bodies = [encoded("long", 7), encoded("long", 2**40), encoded("long", -3)]
    assert read("int", *bodies) == [7, None, -3]
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    assert read(decimal, encoded("bytes", b"\x01"), encoded("bytes", b"\x7f" * 9)) == [Decimal("0.1"), None]


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.integers(0, len(an_order()) - 1).map(lambda at: broken_at(at))))
def test_no_bytes_fail_a_query(body: bytes) -> None:
    parsed = parse_schema(json.loads(json.dumps(avro_schema(json.dumps(ORDER)).document)))
    assert len(read_bodies(parsed, [body])) == 1


def broken_at(place: int) -> bytes:
    body = bytearray(an_order())
    body[place] ^= 0xFF
    return bytes(body)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{", "no schema of Avro"),
        ('{"type": "record", "name": "A"}', "has no fields"),
        ('"orders.Order"', "no schema of Avro"),
        ('{"type": "record", "name": "A", "fields": []}', "has no fields"),
        ('["null", "string"]', "as a whole it may be null"),
        ('["int", "string"]', "a union of 2 types"),
        ('{"type": "array", "items": "null"}', "of which there are no columns"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 50}', "a decimal of 50 digits"),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "next", "type": ["null", "A"]}]}',
            "the field next contains itself",
        ),
    ],
)
def test_a_schema_that_makes_no_column_is_refused(schema: str, text: str) -> None:
    with pytest.raises(OptionRefused, match=text):
        avro_schema(schema)


def test_a_schema_of_avro_is_looked_at_before_anything_is_started() -> None:
    check_decoding("avro", '"string"')
    with pytest.raises(OptionRefused, match="no schema of Avro"):
        check_decoding("avro", "id int")
