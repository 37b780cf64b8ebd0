"""Half messages stored a moment ago, kept as they are: most outcomes come while theirs is still here.

A commit then needs neither to read the record from the log nor to parse it. One that was read for a check is kept
as well, since the answer follows in a moment. A copy beside the log and nothing more: what is not here is read there.
The oldest go first when the limit is reached.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gateway.store.put_result import Dispatched
from wire.checksum import crc32
from wire.message.record import MAGIC_V1, StoredMessage

ENTRY_BYTES: Final = 2_048
"""What an entry takes beside its record: the decoded properties of a stock client's message, measured."""
LARGEST_SHARE: Final = 64
"""A record over this share of the limit is not kept: it would drive out many, and reading it is cheap for its size."""


class RecentHalves:
    """Stored half messages by half-queue offset.

    :param limit_bytes: of records and what belongs to them; 0 keeps none.
    """

    __slots__ = ("_bytes", "_kept", "_largest", "_limit")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._largest = limit_bytes // LARGEST_SHARE
        self._bytes = 0
        # Ordered: a plain dictionary looks for its first entry past all that were taken out, 10 µs when it is full.
        self._kept: OrderedDict[int, Dispatched | StoredMessage] = OrderedDict()

    def keep(self, stored: Dispatched) -> None:
        """A half message was stored."""
        size = stored.size
        if size > self._largest:
            return
        kept = self._kept
        kept[stored.queue_offset] = stored
        self._bytes += size + ENTRY_BYTES
        if self._bytes > self._limit:
            self._drop_oldest()

    def keep_asked(self, half: StoredMessage) -> None:
        """A producer was asked about a half message; nothing happens when it is kept already."""
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
        """It is settled."""
        stored = self._kept.pop(half_offset, None)
        if stored is not None:
            self._bytes -= _size(stored) + ENTRY_BYTES

    def find(self, half_offset: int, commit_log_offset: int) -> StoredMessage | None:
        """The half message at these two offsets as a reader of the log would get it; None when it is not kept."""
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
