"""The rows to write, as messages.

    body string|binary · topic · tags · keys array<string>|string · properties map<string,string> · flag
    · queueId (with brokerName where several brokers have it) or shardingKey · delayLevel or deliverAt timestamp

The other columns of the source are ignored, so that rows from the source can be written elsewhere. Any other column is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.client.errors import MessageRefused
from gateway.client.message import RESERVED_PROPERTIES, Message
from gateway.client.names import check_topic
from gateway.spark.errors import SchemaRefused
from gateway.spark.spelling import did_you_mean
from gateway.spark.table.byte_tables import bytes_column, hexadecimal, is_visible_ascii, texts_column
from gateway.spark.table.records import numpy_layout
from gateway.spark.table.schema import COLUMNS, ON_DEMAND, WORDS
from wire.message.batch import MIN_PART_BYTES, PART_HEAD
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
"""The columns that can be written, and their types in Spark's words."""
_PLAIN_BYTES: Final = 256 * 1024
_PLAIN_TEXT_BYTES: Final = 4096
_PLAIN_COLUMNS: Final = frozenset({"body", "tags", "keys", "topic"})
"""The columns of messages that are made many at a time.

Bodies of such messages have at most ``_PLAIN_BYTES``, tags and keys at most ``_PLAIN_TEXT_BYTES``.
"""
_IGNORED: Final = frozenset(column.name.lower() for column in (*COLUMNS, *ON_DEMAND))

_HEAD = numpy_layout(PART_HEAD)


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Messages with only bodies, tags and keys, as arrays of bytes and texts.

    :param tags: tags of visible characters, empty for a message without one; None: no message has a tag.
    :param keys: keys likewise, with single spaces between the keys of a message.
    """

    topic: str
    bodies: pa.Array
    tags: pa.Array | None = None
    keys: pa.Array | None = None

    def part(self, begin: int, count: int) -> PlainRows:
        """Return ``count`` consecutive messages."""
        tags, keys = (None if texts is None else texts.slice(begin, count) for texts in (self.tags, self.keys))
        return PlainRows(self.topic, self.bodies.slice(begin, count), tags, keys)


def plain_parts(rows: PlainRows, ids: tuple[str, Sequence[int]], stamp: str, first_number: int) -> pa.Array:
    """Return each message as a part of a batch, in an array of bytes.

    :param ids: the ids of the messages, as ``UniqueIds.create_all`` gives them.
    :param stamp: the common properties of all messages, as a property string; a number follows for each message.
    """
    properties = _properties(rows, ids, stamp, first_number)
    heads = np.zeros(len(rows.bodies), _HEAD)
    body_bytes, properties_bytes = (pc.binary_length(pieces).to_numpy() for pieces in (rows.bodies, properties))
    heads["total_size"] = body_bytes + properties_bytes + MIN_PART_BYTES
    heads["body_bytes"] = body_bytes
    lengths = properties_bytes.astype(">i2")
    head_column, length_column = (bytes_column(each.view(np.uint8).reshape(len(each), -1)) for each in (heads, lengths))
    return pc.binary_join_element_wise(head_column, rows.bodies, length_column, properties, b"")


def _properties(rows: PlainRows, ids: tuple[str, Sequence[int]], stamp: str, first_number: int) -> pa.Array:
    """Return the property strings of the messages, in the order of clients."""
    id_head, id_numbers = ids
    numbers = pa.array(np.arange(first_number, first_number + len(id_numbers))).cast(pa.string())
    pieces = [
        *_pair(PropertyName.KEYS, rows.keys),
        *_pair(PropertyName.TAGS, rows.tags),
        f"{PropertyName.WAIT}\x01true\x02{PropertyName.UNIQ_KEY}\x01{id_head}",
        texts_column(hexadecimal(np.array(id_numbers, ">u2").view(np.uint8).reshape(-1, 2))),
        f"\x02{stamp}SPARK_SEQ\x01",
        numbers,
        "\x02",
    ]
    return pc.binary_join_element_wise(*pieces, "").cast(pa.binary())


def _pair(name: str, texts: pa.Array | None) -> list[pa.Array | str]:
    if texts is None:
        return []
    is_empty = pc.equal(texts, "")
    if not pc.any(is_empty).as_py():
        return [f"{name}\x01", texts, "\x02"]
    return [pc.if_else(is_empty, "", pc.binary_join_element_wise(f"{name}\x01", texts, "\x02", ""))]


@dataclass(frozen=True, slots=True)
class RowToSend:
    """A message and its destination; if the queue is None, the sender chooses one."""

    message: Message
    queue_id: int | None = None
    broker_name: str | None = None


class RowReader:
    """The maker of messages from Arrow batches.

    :param fields: names and types of the rows' columns in Spark's words.
    :param topic: the topic of all rows, which takes precedence over the column. None: the column names the topic.
    :raises SchemaRefused: a column is missing, unknown or of another type, or two columns contradict each other.
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
        """Return the messages of a batch if all are plain; otherwise None.

        Plain messages may go to any queue, and have only bodies and usual tags and keys.

        :raises MessageRefused: the topic's name is not allowed.
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
        """Yield the messages of a batch, in its order.

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
    """Return a column as Python values; bodies are bytes, even if the column has texts.

    :raises MessageRefused: a text is not UTF-8, because Spark made the text of bytes; or a time is out of range.
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
    """Return a text for each message, empty for null; None if a text is unusual. Spaces join the words of a list."""
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
