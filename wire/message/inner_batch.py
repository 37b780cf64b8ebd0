"""Inner batches: the messages of one batch send as one record, in topics with batch queues (``queue.type=BatchCQ``).

The record's body is the body of the send (``wire.message.batch``). The broker writes the offset of the first message
into INNER_BASE and the number of messages into INNER_NUM. The n-th message has the record's offset plus n. The receiver
of such a record takes the record apart. Upstream: ``MessageSysFlag``, ``BatchConsumeQueue``,
``MessageDecoder.decodeMessage``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wire.message.flags import SysFlag
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage

INNER_BATCH: Final = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
MAX_INNER_MESSAGES: Final = 32_767
"""The most messages of one record; upstream keeps their number in 16 bits."""
_MAX_DIGITS = 18


def is_inner_batch(sys_flag: int) -> bool:
    """Return whether a record with this system flag holds several messages."""
    return sys_flag & INNER_BATCH == INNER_BATCH


def inner_count(sys_flag: int, queue_offset: int, properties: Mapping[str, str]) -> int:
    """Return how many messages a record holds: 1, or the number that the broker wrote when it stored the record here.

    A copy in another queue counts as one message, even if the original holds several.
    """
    if not is_inner_batch(sys_flag) or _number(properties.get(PropertyName.INNER_BASE)) != queue_offset:
        return 1
    return max(1, min(_number(properties.get(PropertyName.INNER_NUM)), MAX_INNER_MESSAGES))


def inner_offsets(message: StoredMessage) -> range:
    """Return the queue offsets of a stored record: its own offset, and those of the other messages in the record."""
    first = message.queue_offset
    if not is_inner_batch(message.sys_flag):  # nearly all are none: their properties need not be read for this
        return range(first, first + 1)
    return range(first, first + inner_count(message.sys_flag, first, message.property_map))


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else -1
