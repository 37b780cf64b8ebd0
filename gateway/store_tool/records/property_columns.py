"""The ends of many records in columns: topics, and one property after the other of all rows.

For records that are cut each in its own way; those of one shape are taken apart by ``record_shape``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter

from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, parse_properties
from wire.message.record_layout import MAX_TOPIC_V1_BYTES, MIN_TAIL_BYTES

PAIR_END = b"\x02"
TAGS, KEYS, UNIQUE = (f"{name}\x01".encode() for name in (PropertyName.TAGS, PropertyName.KEYS, PropertyName.UNIQ_KEY))
# All values of a property in many rows at once; a name begins behind the end of a pair.
_PATTERNS = {name: re.compile(PAIR_END + name + b"([^\x02]*)") for name in (TAGS, KEYS, UNIQUE)}
_first_byte = itemgetter(0)


def split_tails(tails: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Topic with its length, and properties behind 0x02, of records' ends; nothing when one does not add up."""
    try:
        topic_bytes = list(map(_first_byte, tails))
        stated = [tail[size + 1] << 8 | tail[size + 2] for tail, size in zip(tails, topic_bytes, strict=True)]
    except IndexError:
        return [], []
    if stated != [len(tail) - size - MIN_TAIL_BYTES for tail, size in zip(tails, topic_bytes, strict=True)]:
        return [], []
    if max(topic_bytes) > MAX_TOPIC_V1_BYTES or max(stated) > MAX_PROPERTIES_BYTES:
        return [], []
    names = [tail[: size + 1] for tail, size in zip(tails, topic_bytes, strict=True)]
    return names, [PAIR_END + tail[size + MIN_TAIL_BYTES :] for tail, size in zip(tails, topic_bytes, strict=True)]


def column(properties: Sequence[bytes], name: bytes) -> list[bytes]:
    """The value of one property in each row; b"" where there is none.

    :param properties: with 0x02 before the first name.
    """
    counts = list(map(bytes.count, properties, repeat(PAIR_END + name)))
    most = max(counts)
    if most == 0:
        return [b""] * len(properties)
    texts: list[bytes] = _PATTERNS[name].findall(b"".join(properties)) if most == 1 else []
    if len(texts) == len(properties) and b"" not in texts:
        return texts
    if most == 1 and b"" not in texts:
        each = iter(texts)
        return [next(each) if there else b"" for there in counts]
    return [_value(row, name) if there else b"" for row, there in zip(properties, counts, strict=True)]


def _value(row: bytes, name: bytes) -> bytes:
    """The value of a property that not every row has."""
    start = row.find(PAIR_END + name) + 1 + len(name)
    end = row.find(PAIR_END, start)
    value = row[start:end] if end >= 0 else row[start:]
    if not value or row.find(PAIR_END + name, start) >= 0:  # the last pair of a name counts, and only with a value
        return parse_properties(row[1:]).get(name[:-1].decode(), "").encode()
    return value
