"""Rows that are to be written, as messages.

    body string|binary · topic · tags · keys array<string>|string · properties map<string,string> · flag
    · queueId (with brokerName where several brokers have it) or shardingKey · delayLevel or deliverAt timestamp

The other columns of the source are ignored, so what was read can be written elsewhere; any further one is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from gateway.client.errors import MessageRefused
from gateway.client.message import RESERVED_PROPERTIES, Message
from gateway.client.names import check_topic
from gateway.spark.errors import SchemaRefused
from gateway.spark.spelling import did_you_mean
from gateway.spark.table.byte_tables import is_visible_ascii
from gateway.spark.table.schema import COLUMNS, ON_DEMAND, WORDS
from gateway.spark.writing.plain_parts import PlainRows
from wire.message.properties import PropertyName

_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": ("string",),
    "tags": ("string",),
    "keys": ("array<string>", "string"),
    "properties": ("map<string,string>",),
    "flag": ("int",),
    "queueId": ("int",),
    "brokerName": ("string",),
    "shardingKey": ("string",),
    "delayLevel": ("int",),
    "deliverAt": ("timestamp",),
}
"""Columns that are written, and their types in Spark's words."""
_PLAIN_BYTES: Final = 256 * 1024
_PLAIN_TEXT_BYTES: Final = 4096
_PLAIN_COLUMNS: Final = frozenset({"body", "tags", "keys", "topic"})
"""Of messages that are made many at a time, with bodies, tags and keys of this size at most."""
_IGNORED: Final = frozenset(column.name.lower() for column in (*COLUMNS, *ON_DEMAND))


@dataclass(frozen=True, slots=True)
class RowToSend:
    """A message and where it goes; the queue is left to the sender where it is None."""

    message: Message
    queue_id: int | None = None
    broker_name: str | None = None


class RowReader:
    """Makes messages of Arrow batches.

    :param fields: names and types of the rows' columns in Spark's words.
    :param topic: for all rows; it wins over the column. None: the column says it.
    :raises SchemaRefused: a column is missing, unknown or of another type, or two contradict each other.
    """

    def __init__(self, fields: Sequence[tuple[str, str]], topic: str | None) -> None:
        by_lower = {name.lower(): name for name in _TYPES}
        self._columns: dict[str, int] = {}
        for place, (name, ddl) in enumerate(fields):
            known = by_lower.get(name.lower())
            if known is not None:
                if ddl not in _TYPES[known]:
                    raise SchemaRefused(f"column {name} has the type {ddl}; it must be {' or '.join(_TYPES[known])}")
                self._columns[known] = place
            elif name.lower() not in _IGNORED:
                raise SchemaRefused(
                    f"column {name!r} cannot be written{did_you_mean(name, _TYPES)}; columns are {', '.join(_TYPES)}"
                )
        if "body" not in self._columns:
            raise SchemaRefused("there is no column body (string or binary)")
        if topic is None and "topic" not in self._columns:
            raise SchemaRefused("neither the option topic nor a column topic says where the messages go")
        for one, other in (("queueId", "shardingKey"), ("delayLevel", "deliverAt")):
            if one in self._columns and other in self._columns:
                raise SchemaRefused(f"columns {one} and {other} contradict each other: keep one of them")
        if "queueId" not in self._columns:
            self._columns.pop("brokerName", None)
        self._topic = topic

    def plain(self, batch: pa.RecordBatch) -> PlainRows | None:
        """The messages of a batch when all may go anywhere and have bodies and usual tags and keys only; else None.

        :raises MessageRefused: the topic has no name that is allowed.
        """
        if self._topic is None or not self._columns.keys() <= _PLAIN_COLUMNS:
            return None
        check_topic(self._topic)
        bodies = batch.column(self._columns["body"])
        sizes = pc.min_max(pc.binary_length(bodies)).as_py()
        if bodies.null_count or not batch.num_rows or not 0 < sizes["min"] <= sizes["max"] <= _PLAIN_BYTES:
            return None
        texts: dict[str, pa.Array] = {}
        for name in self._columns.keys() & {"tags", "keys"}:
            found = _plain_texts(batch.column(self._columns[name]))
            if found is None:
                return None
            texts[name] = found
        return PlainRows(self._topic, bodies.cast(pa.binary()), **texts)

    def rows(self, batch: pa.RecordBatch) -> Iterator[RowToSend]:
        """The messages of a batch, in its order.

        :raises MessageRefused: a row is no message: null or empty body, null topic, a name that is not allowed …
        """
        columns = {name: _values(name, batch.column(place)) for name, place in self._columns.items()}
        names = tuple(columns)
        for row, values in enumerate(zip(*columns.values(), strict=True)):
            try:
                yield self._row(dict(zip(names, values, strict=True)))
            except MessageRefused as error:
                raise MessageRefused(
                    error.part, f"{error.problem} (row {row} of a batch of {batch.num_rows})"
                ) from error

    def _row(self, values: dict[str, Any]) -> RowToSend:
        body = values["body"]
        if body is None:
            raise MessageRefused("body", "is null")
        topic = self._topic or values["topic"]
        if topic is None:
            raise MessageRefused("topic", "is null")
        properties = dict(values.get("properties") or ())
        keys = values.get("keys") or properties.get(PropertyName.KEYS, "")
        message = Message(
            topic,
            body,
            tags=values.get("tags") or properties.get(PropertyName.TAGS, ""),
            keys=tuple(keys.split()) if isinstance(keys, str) else tuple(keys),
            properties={name: value for name, value in properties.items() if value and name not in RESERVED_PROPERTIES},
            sharding_key=values.get("shardingKey") or "",
            delay_level=values.get("delayLevel") or 0,
            deliver_at=values.get("deliverAt"),
            flag=values.get("flag") or 0,
        )
        return RowToSend(message, values.get("queueId"), values.get("brokerName"))


def _values(name: str, column: pa.Array) -> list[Any]:
    """A column as Python has it; bodies are bytes, also those that are texts.

    :raises MessageRefused: a text is not UTF-8, as a text of Spark's may be that was made of bytes; or a time is none.
    """
    if name == "body":
        column = column.cast(pa.binary())
    try:
        values: list[Any] = column.to_pylist()
    except (UnicodeDecodeError, OverflowError) as error:
        row = next(row for row in range(len(column)) if not _is_readable(column[row]))
        is_time = isinstance(error, OverflowError)
        problem = "is before the year 1 or after 9999" if is_time else "has bytes that are not UTF-8"
        raise MessageRefused(name, f"{problem} (row {row} of a batch of {len(column)})") from None
    return values


def _is_readable(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except (UnicodeDecodeError, OverflowError):
        return False
    return True


def _plain_texts(column: pa.Array) -> pa.Array | None:
    """A text for each message, empty where there is none; None when one is unusual. Words are joined by a space."""
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    texts = column.cast(WORDS if is_list else pa.string())
    words = texts.flatten() if is_list else texts.fill_null("")
    if words.null_count or not is_visible_ascii(words):
        return None
    if is_list:
        if pc.min(pc.binary_length(words)).as_py() == 0:
            return None
        words = pc.binary_join(texts, " ").fill_null("")
    return words if pc.max(pc.binary_length(words)).as_py() <= _PLAIN_TEXT_BYTES else None
