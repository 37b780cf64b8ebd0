"""The columns of the table: their names, their types in Spark's words and in Arrow's, and which of them are wanted.

The first nine are those of the old connector (rocketmq-spark), names and types. A user schema chooses columns, which is
the only way to read fewer of them: Spark does not tell a Python source which ones a query uses.
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
"""Milliseconds since 1970: the first ones of the year 1. Earlier times are none for Spark and Python: they are null."""
LAST_MS: Final = 253_402_300_799_999
"""The last ones of the year 9999. Later times are null, too."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    :param ddl: its type as Spark writes it; ``arrow`` the same for Arrow.
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
"""Why a body could not be read, null when it could; there only when a user schema asks for it."""
PREPARED_OFFSET: Final = Column("preparedTransactionOffset", "bigint", pa.int64())
"""Of a committed transaction: the commit log offset of its half message; there only when a user schema asks for it."""
PROPERTIES_JSON: Final = Column("properties", "string", pa.string())
"""``properties`` with ``propertiesFormat=json``, as the old connector has it."""
ON_DEMAND: Final = (BODY_ERROR, PREPARED_OFFSET)


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column that is read, under the name the query gave it (Spark does not tell cases apart)."""

    column: Column
    name: str


def known_columns(*, json_properties: bool) -> dict[str, Column]:
    """All columns by their name in lower case, in their order."""
    columns = [*COLUMNS, *ON_DEMAND]
    if json_properties:
        columns[columns.index(next(column for column in COLUMNS if column.name == "properties"))] = PROPERTIES_JSON
    return {column.name.lower(): column for column in columns}


def default_ddl(*, json_properties: bool) -> str:
    """The schema of a query that gives none."""
    columns = known_columns(json_properties=json_properties).values()
    return ", ".join(f"{column.name} {column.ddl}" for column in columns if column not in ON_DEMAND)


def wanted_columns(fields: Sequence[tuple[str, str]], *, json_properties: bool) -> tuple[WantedColumn, ...]:
    """The columns of a schema, given as names and types in Spark's words.

    :raises SchemaRefused: a name that is no column, a column twice, or another type than the column has.
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
    """What the batches look like."""
    return pa.schema([pa.field(entry.name, entry.column.arrow, nullable=True) for entry in wanted])
