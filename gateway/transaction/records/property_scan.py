"""Take the facts that a start needs out of a half message's record, without parsing the whole record.

A start with a million pending half messages reads a million records. For these facts the results equal those of
``parse_record`` and ``parse_properties``; tests compare them.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import re
import struct
from typing import Any, TypeAlias

from wire.message.properties import PropertyName
from wire.message.record import MAGIC_V1, StoredMessage, parse_record
from wire.message.record_layout import FLAGS_AT, HEAD_BY_BYTE

WANTED = (
    PropertyName.PGROUP,
    PropertyName.REAL_TOPIC,
    PropertyName.REAL_QID,
    PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS,
    PropertyName.TRANSACTION_CHECK_TIMES,
    PropertyName.TRAN_PREPARED_QUEUE_OFFSET,
)
# A property without a value is ignored; if a name occurs several times, the last value counts.
_find_pairs = re.compile(f"\x02({'|'.join(WANTED)})\x01([^\x02]+)").findall


def scan_properties(raw: bytes) -> dict[str, str]:
    """Return those of the ``WANTED`` properties that ``raw`` has. Other properties need a full parse."""
    return dict(_find_pairs(f"\x02{str(raw, 'utf-8', 'replace')}"))


Head: TypeAlias = tuple[Any, ...]
"""The fixed fields of a record, in their order."""

_FIELDS = HEAD_BY_BYTE[0].names
TOTAL_SIZE = _FIELDS.index("total_size")
QUEUE_OFFSET = _FIELDS.index("queue_offset")
COMMIT_LOG_OFFSET = _FIELDS.index("commit_log_offset")
STORED_AT_MS = _FIELDS.index("stored_at_ms")
_MAGIC = _FIELDS.index("magic")
_BODY_BYTES = _FIELDS.index("body_bytes")
_UNPACK_BY_BYTE = tuple((head.unpack_from, head.size) for head in HEAD_BY_BYTE)
_LENGTHS_BYTES = 3
"""The size of the two lengths in a record: one byte before the topic and two before the properties."""


def parse_head(part: bytes, at: int) -> tuple[Head, bytes]:
    """Return the fixed fields and the property string of the record that starts at ``at``.

    :raises RecordError: the record is damaged.
    """
    try:
        unpack, head_bytes = _UNPACK_BY_BYTE[part[at + FLAGS_AT]]
        head = unpack(part, at)
        topic_at = at + head_bytes + head[_BODY_BYTES]
        start = topic_at + part[topic_at] + _LENGTHS_BYTES
        end = start + (part[start - 2] << 8 | part[start - 1])
        if head[_MAGIC] == MAGIC_V1 and head[_BODY_BYTES] >= 0 and end == at + head[TOTAL_SIZE] and end <= len(part):
            return head, part[start:end]
    except (IndexError, struct.error):
        pass  # the full parse below raises the error
    record = parse_record(part, at, with_body=False)
    return _head_of(record), record.properties


def _head_of(record: StoredMessage) -> Head:
    return tuple(getattr(record, name) for name in _FIELDS)
