"""Messages with only bodies, tags and keys, as parts of batches: Arrow joins all of them at once, and none singly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.spark.table.byte_tables import bytes_column, hexadecimal, texts_column
from gateway.spark.table.records import numpy_layout
from wire.message.batch import MIN_PART_BYTES, PART_HEAD
from wire.message.properties import PropertyName

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
