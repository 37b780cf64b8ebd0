"""The calls that Spark makes first; nothing here connects."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceReader, SimpleDataSourceStreamReader
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from gateway.spark.errors import OptionRefused, SchemaRefused
from gateway.spark.reading.batch_reader import BatchReader, NarrowedReader
from gateway.spark.reading.stream_reader import StreamReader
from gateway.spark.source import RocketMQDataSource
from gateway.spark.writing.writer import BatchWriter, StreamWriter

NOWHERE = {"nameServer": "nowhere.invalid:1"}
READ = {**NOWHERE, "subscribe": "orders"}
BODY = StructType([StructField("body", BinaryType()), StructField("queueOffset", LongType())])


def source(options: dict[str, str]) -> RocketMQDataSource:
    """Return a source as Spark makes it: the names of its options have lost their case."""
    return RocketMQDataSource(CaseInsensitiveDict(options))


def test_it_is_known_as_rocketmq() -> None:
    assert RocketMQDataSource.name() == "rocketmq"


def test_readers_and_writers_open_nothing_and_travel() -> None:
    made: list[Any] = [
        source(READ).reader(schema=BODY),
        source(READ).streamReader(schema=BODY),
        source({**NOWHERE, "topic": "orders"}).writer(BODY.add("tags", "string"), False),
        source({**NOWHERE, "topic": "orders"}).streamWriter(BODY, False),
    ]
    kinds = [BatchReader, StreamReader, BatchWriter, StreamWriter]
    assert [type(pickle.loads(pickle.dumps(entry))) for entry in made] == kinds


def test_a_stream_is_not_read_in_the_driver() -> None:
    """As Spark would with what it calls a simple reader."""
    assert not isinstance(source(READ).streamReader(BODY), SimpleDataSourceStreamReader)
    assert RocketMQDataSource.simpleStreamReader is DataSource.simpleStreamReader


def test_the_schema_is_asked_before_it_is_known_whether_it_is_for_a_stream() -> None:
    assert source({**READ, "startingOffsets": "latest"}).schema().startswith("topic string, flag int, body binary")
    assert "properties string" in source({**READ, "propertiesFormat": "json"}).schema()


def test_a_misspelt_option_is_refused_at_once() -> None:
    with pytest.raises(OptionRefused, match="did you mean 'subscribe'"):
        source({**NOWHERE, "subscrib": "orders"})


def test_only_a_reader_that_is_to_take_conditions_looks_as_if_it_could() -> None:
    """Spark fails any query over a reader that could, while the push-down is off, and off is the default."""
    plain: Any = source(READ).reader(BODY)
    narrowed: Any = source({**READ, "pushFilters": "true"}).reader(BODY)
    assert type(plain).pushFilters is DataSourceReader.pushFilters
    assert type(narrowed) is NarrowedReader
    assert type(narrowed).pushFilters is not DataSourceReader.pushFilters


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(SchemaRefused, match="body has the type binary, not string"):
        source(READ).reader(StructType([StructField("body", StringType())]))
    with pytest.raises(SchemaRefused, match="must be binary or string"):
        source(NOWHERE).writer(StructType([StructField("body", IntegerType())]), False)


@pytest.mark.parametrize(
    "field",
    [
        StructField("body", BinaryType(), nullable=False),
        StructField("keys", ArrayType(StringType(), containsNull=False)),
        StructField("properties", MapType(StringType(), StringType(), valueContainsNull=False)),
    ],
)
def test_a_schema_without_nulls_is_refused_before_it_fails_in_the_workers(field: StructField) -> None:
    for make in (source(READ).reader, source(READ).streamReader):
        with pytest.raises(SchemaRefused, match=f"{field.name} is NOT NULL in the schema"):
            make(StructType([field]))


def test_queues_are_not_overwritten() -> None:
    for make in (source(NOWHERE).writer, source(NOWHERE).streamWriter):
        with pytest.raises(OptionRefused, match="queues are appended to"):
            make(BODY, True)
