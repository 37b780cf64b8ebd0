"""The columns of the table, and the columns of a schema."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from gateway.spark.errors import SchemaRefused
from gateway.spark.table.schema import (
    COLUMNS,
    PROPERTIES_JSON,
    arrow_schema,
    default_ddl,
    known_columns,
    wanted_columns,
)

SPARK_TYPES: dict[str, DataType] = {
    kind.simpleString(): kind
    for kind in (
        StringType(),
        IntegerType(),
        BinaryType(),
        LongType(),
        TimestampType(),
        MapType(StringType(), StringType()),
        ArrayType(StringType()),
    )
}
OLD_CONNECTOR = ["topic", "flag", "body", "properties", "brokerName", "queueId"]
OLD_CONNECTOR += ["queueOffset", "bornTimestamp", "storeTimestamp"]


def test_the_first_columns_are_those_of_the_old_connector() -> None:
    assert [column.name for column in COLUMNS[:9]] == OLD_CONNECTOR


def test_a_schema_chooses_columns_in_any_case_and_order() -> None:
    wanted = wanted_columns([("queueoffset", "bigint"), ("body", "binary")], json_properties=False)
    assert [(entry.column.name, entry.name) for entry in wanted] == [("queueOffset", "queueoffset"), ("body", "body")]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([("bodi", "binary")], "no column 'bodi'; did you mean 'body'"),
        ([("body", "string")], "type binary, not string: cast it in the query"),
        ([("properties", "string")], "propertiesFormat"),
        ([("body", "binary"), ("BODY", "binary")], "named twice"),
        ([], "at least one column"),
    ],
)
def test_a_schema_that_the_table_does_not_have_is_refused(fields: list[tuple[str, str]], text: str) -> None:
    with pytest.raises(SchemaRefused, match=text):
        wanted_columns(fields, json_properties=False)


def test_properties_have_the_type_of_their_format() -> None:
    assert known_columns(json_properties=True)["properties"] is PROPERTIES_JSON
    assert "properties string" in default_ddl(json_properties=True)
    assert "properties map<string,string>" in default_ddl(json_properties=False)
    assert "bodyError" not in default_ddl(json_properties=False)


@pytest.mark.parametrize("json_properties", [False, True])
def test_arrow_types_are_exactly_those_spark_compares_with(json_properties: bool) -> None:
    columns = known_columns(json_properties=json_properties).values()
    fields = [(column.name, column.ddl) for column in columns]
    struct = StructType([StructField(name, SPARK_TYPES[ddl]) for name, ddl in fields])
    assert [(field.name, field.dataType.simpleString()) for field in struct.fields] == fields
    ours = arrow_schema(wanted_columns(fields, json_properties=json_properties))
    assert to_arrow_schema(struct, timezone="UTC").equals(ours)
