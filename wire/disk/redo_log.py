"""The transaction redo log of 3.1.x: consume queue units that repeat the outcome of each half message.

The redo log is a queue named TRANSACTION_REDOLOG_TOPIC_XXXX/0. A unit with tags code −1 says that a half message was
stored at the unit's commit log offset. Any other tags code is the commit log offset of a half message, which is settled
by the record at the unit's own offset. The state table is rebuilt from the redo log. (Upstream 3.1.x:
``TransactionStateService``.)
"""

from __future__ import annotations

from wire.disk import consume_queue
from wire.fixed_layout import Readable

# On disk: never change.
QUEUE_NAME = "TRANSACTION_REDOLOG_TOPIC_XXXX"
PREPARED = -1
UNIT_BYTES = consume_queue.UNIT_BYTES
FILE_UNITS = 2_000_000

GAP = consume_queue.UNIT.pack(0, consume_queue.FILLER_SIZE, PREPARED)
"""The unit for a half message whose record could not be read, so that units and half messages keep their order."""


def build_prepared(commit_log_offset: int, size: int) -> bytes:
    """Return the unit which says that a half message was stored."""
    return consume_queue.UNIT.pack(commit_log_offset, size, PREPARED)


def build_settled(commit_log_offset: int, size: int, prepared_offset: int) -> bytes:
    """Return the unit which says that a half message is settled.

    The record at ``commit_log_offset`` settles the half message at ``prepared_offset``.
    """
    return consume_queue.UNIT.pack(commit_log_offset, size, prepared_offset)


def is_gap(commit_log_offset: int, size: int) -> bool:
    """Return whether a unit is for a half message that could not be read."""
    return consume_queue.is_filler(commit_log_offset, size)


def parse_units(buffer: Readable) -> list[tuple[int, int, int]]:
    """Return all units of a slice: commit log offset, size, and −1 or the half message's commit log offset.

    :raises LayoutError: the slice does not end with a whole unit.
    """
    return consume_queue.parse_units(buffer)
