"""Half messages stored a moment ago, kept unchanged in memory, because most outcomes come soon.

A commit of a kept half message needs neither a read of the log nor parsing. A half message that was read for a check is
also kept, because the answer follows in a moment. Each entry is only a copy: a half message without an entry is read
from the log. At the limit the oldest entries are dropped first.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gateway.store.put_result import Dispatched
from wire.checksum import crc32
from wire.message.record import MAGIC_V1, StoredMessage

ENTRY_BYTES: Final = 2_048
"""The memory of an entry besides its record: the decoded properties of a stock client's message, measured."""
LARGEST_SHARE: Final = 64
"""The divisor of the limit that gives the largest record that is kept.

A larger record would push out many others, and reading it is cheap for its size.
"""


class RecentHalves:
    """Stored half messages by half-queue offset.

    :param limit_bytes: the largest memory for records and their properties; 0 keeps none.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._largest = limit_bytes // LARGEST_SHARE
        self._bytes = 0
        # Not a plain dictionary: to find its first entry it passes all removed entries, 10 µs if it was full.
        self._kept: OrderedDict[int, Dispatched | StoredMessage] = OrderedDict()

    def keep(self, stored: Dispatched) -> None:
        """Keep a half message that was just stored."""
        size = stored.size
        if size > self._largest:
            return
        kept = self._kept
        kept[stored.queue_offset] = stored
        self._bytes += size + ENTRY_BYTES
        if self._bytes > self._limit:
            self._drop_oldest()

    def keep_asked(self, half: StoredMessage) -> None:
        """Keep a half message that a producer was just asked about, unless it is kept already."""
        offset, size = half.queue_offset, half.total_size
        if size > self._largest or offset in self._kept:
            return
        self._kept[offset] = half
        self._bytes += size + ENTRY_BYTES
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        while self._bytes > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest) + ENTRY_BYTES

    def forget(self, half_offset: int) -> None:
        """Drop a half message that is settled."""
        stored = self._kept.pop(half_offset, None)
        if stored is not None:
            self._bytes -= _size(stored) + ENTRY_BYTES

    def find(self, half_offset: int, commit_log_offset: int) -> StoredMessage | None:
        """Return the half message at these two offsets, as a reader of the log would get it; None if it is not kept."""
        stored = self._kept.get(half_offset)
        if stored is None or stored.commit_log_offset != commit_log_offset:
            return None
        if isinstance(stored, StoredMessage):
            return stored
        message = stored.message
        body = message.body
        return StoredMessage(
            (
                stored.size,
                MAGIC_V1,
                crc32(body) & 0x7FFFFFFF,
                message.queue_id,
                message.flag,
                half_offset,
                commit_log_offset,
                message.sys_flag,
                message.born_at_ms,
                message.born_host,
                stored.stored_at_ms,
                message.store_host,
                message.reconsume_times,
                message.prepared_transaction_offset,
                len(body),
            ),
            body,
            message.topic,
            message.properties,
            message.property_map,
        )


def _size(entry: Dispatched | StoredMessage) -> int:
    return entry.total_size if isinstance(entry, StoredMessage) else entry.size
