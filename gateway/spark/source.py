"""The data source ``rocketmq``: the class that Spark calls first, for tables, streams and sinks alike.

Spark makes the data source again and again, in processes of its own. Therefore nothing is opened here.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from gateway.spark.errors import OptionRefused, SchemaRefused
from gateway.spark.options import (
    ReadOptions,
    check_names,
    ignored_options,
    read_options,
    wants_json_properties,
    write_options,
)
from gateway.spark.reading.batch_reader import BatchReader, NarrowedReader
from gateway.spark.reading.stream_reader import StreamReader
from gateway.spark.table.schema import WantedColumn, default_ddl, wanted_columns
from gateway.spark.writing.writer import BatchWriter, StreamWriter

log = logging.getLogger(__name__)

FORMAT = "rocketmq"


class RocketMQDataSource(DataSource):
    """The source of ``spark.read.format("rocketmq")``, ``readStream``, ``write`` and ``writeStream``.

    docs/spark.md describes the use.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        check_names(options)
        self.options = options

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return FORMAT

    def schema(self) -> str:
        """Return all columns. Spark asks only if the query gives no schema."""
        return default_ddl(json_properties=wants_json_properties(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for ``spark.read``."""
        options = read_options(self.options, is_stream=False)
        for name in ignored_options(self.options):
            log.warning("option %s has no effect in a batch query", name)
        kind = NarrowedReader if options.push_filters else BatchReader
        return kind(options, _wanted(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for ``spark.readStream``."""
        options = read_options(self.options, is_stream=True)
        return StreamReader(options, _wanted(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for ``df.write``.

        :raises OptionRefused: ``mode("overwrite")``: messages are appended, never replaced.
        """
        if overwrite:
            raise OptionRefused('mode("overwrite") cannot be done: queues are appended to; use mode("append")')
        return BatchWriter(write_options(self.options), _fields(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer for ``df.writeStream``.

        :raises OptionRefused: the output mode is ``complete``.
        """
        if overwrite:
            raise OptionRefused(
                'outputMode("complete") cannot be done: queues are appended to; use "append" or "update"'
            )
        return StreamWriter(write_options(self.options), _fields(schema))


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _wanted(schema: StructType, options: ReadOptions) -> tuple[WantedColumn, ...]:
    """Return the columns of a schema.

    :raises SchemaRefused: the schema has an unknown column, or says that a column is never null. Spark would fail
        later, in the workers.
    """
    for field in schema.fields:
        kind = field.dataType
        if not (field.nullable and getattr(kind, "containsNull", True) and getattr(kind, "valueContainsNull", True)):
            raise SchemaRefused(f"column {field.name} is NOT NULL in the schema: no column is, leave that out")
    return wanted_columns(_fields(schema), json_properties=options.json_properties)
