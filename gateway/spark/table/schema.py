"""The columns of the table: names, types in Spark's and Arrow's words, and the choice of wanted columns.

The first nine columns have the names and types of the old connector (rocketmq-spark). A user schema chooses columns.
There is no other way to read fewer columns, because Spark does not tell a Python source which columns a query uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from gateway.spark.errors import SchemaRefused
from gateway.spark.spelling import did_you_mean

TEXTS: Final = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=True))
WORDS: Final = pa.list_(pa.field("element", pa.string(), nullable=True))
MOMENT: Final = pa.timestamp("us", "UTC")
FIRST_MS: Final = -62_135_596_800_000
"""The first millisecond of the year 1, in epoch milliseconds.

Spark and Python have no earlier times, so earlier times are null.
"""
LAST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, in epoch milliseconds. Later times are null, too."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    :param ddl: the column's type in Spark's words.
    :param arrow: the same type for Arrow.
    """

    name: str
    ddl: str
    arrow: pa.DataType


COLUMNS: Final = (
    Column("topic", "string", pa.string()),
    Column("flag", "int", pa.int32()),
    Column("body", "binary", pa.binary()),
    Column("properties", "map<string,string>", TEXTS),
    Column("brokerName", "string", pa.string()),
    Column("queueId", "int", pa.int32()),
    Column("queueOffset", "bigint", pa.int64()),
    Column("bornTimestamp", "timestamp", MOMENT),
    Column("storeTimestamp", "timestamp", MOMENT),
    Column("tags", "string", pa.string()),
    Column("keys", "array<string>", WORDS),
    Column("msgId", "string", pa.string()),
    Column("offsetMsgId", "string", pa.string()),
    Column("bornHost", "string", pa.string()),
    Column("storeHost", "string", pa.string()),
    Column("reconsumeTimes", "int", pa.int32()),
    Column("sysFlag", "int", pa.int32()),
    Column("commitLogOffset", "bigint", pa.int64()),
    Column("transactionId", "string", pa.string()),
)
BODY_ERROR: Final = Column("bodyError", "string", pa.string())
"""The reason why a body could not be read, otherwise null; present only if a user schema asks for it."""
PREPARED_OFFSET: Final = Column("preparedTransactionOffset", "bigint", pa.int64())
"""The commit log offset of a committed transaction's half message; present only if a user schema asks for it."""
PROPERTIES_JSON: Final = Column("properties", "string", pa.string())
"""The column ``properties`` with ``propertiesFormat=json``, as in the old connector."""
ON_DEMAND: Final = (BODY_ERROR, PREPARED_OFFSET)


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column to read, with the name from the query (Spark ignores upper and lower case)."""

    column: Column
    name: str


def known_columns(*, json_properties: bool) -> dict[str, Column]:
    """Return all columns by their name in lower case, in their order."""
    columns = [*COLUMNS, *ON_DEMAND]
    if json_properties:
        columns[columns.index(next(column for column in COLUMNS if column.name == "properties"))] = PROPERTIES_JSON
    return {column.name.lower(): column for column in columns}


def default_ddl(*, json_properties: bool) -> str:
    """Return the schema of a query that gives none."""
    columns = known_columns(json_properties=json_properties).values()
    return ", ".join(f"{column.name} {column.ddl}" for column in columns if column not in ON_DEMAND)


def wanted_columns(fields: Sequence[tuple[str, str]], *, json_properties: bool) -> tuple[WantedColumn, ...]:
    """Return the columns of a schema, given as names and types in Spark's words.

    :raises SchemaRefused: a name is no column, a column is named twice or has another type, or the schema is empty.
    """
    known = known_columns(json_properties=json_properties)
    wanted: list[WantedColumn] = []
    for name, ddl in fields:
        column = known.get(name.lower())
        if column is None:
            names = [entry.name for entry in known.values()]
            raise SchemaRefused(f"there is no column {name!r}{did_you_mean(name, names)}; the columns are: {names}")
        if ddl != column.ddl:
            hint = "cast it in the query" if column.name != "properties" else "see the option propertiesFormat"
            raise SchemaRefused(f"column {column.name} has the type {column.ddl}, not {ddl}: {hint}")
        if any(entry.column is column for entry in wanted):
            raise SchemaRefused(f"column {column.name} is named twice")
        wanted.append(WantedColumn(column, name))
    if not wanted:
        raise SchemaRefused("a schema needs at least one column")
    return tuple(wanted)


def arrow_schema(wanted: Sequence[WantedColumn]) -> pa.Schema:
    """Return the Arrow schema of the batches."""
    return pa.schema([pa.field(entry.name, entry.column.arrow, nullable=True) for entry in wanted])
