"""Consume queue files: one 20-byte unit for every message of a queue.

    commit log offset int64 · size int32 · tags code int64

Unit n of a queue is at byte 20·n of the queue. A file holds 300 000 units. Its name is the queue byte of its first
unit, in 20 digits. In the delay queues, the tags code is the time of delivery. (Upstream: ``ConsumeQueue``.)
"""

from __future__ import annotations

from wire.errors import LayoutError
from wire.fixed_layout import FixedLayout, Int32sb, Int64sb, Readable

UNIT = FixedLayout("consume queue unit", commit_log_offset=Int64sb, size=Int32sb, tags_code=Int64sb)
# On disk: never change.
UNIT_BYTES = UNIT.size
FILE_UNITS = 300_000
"""The number of units in a file (upstream ``mappedFileSizeConsumeQueue`` = 300 000 units)."""
FILE_BYTES = FILE_UNITS * UNIT_BYTES

FILLER_SIZE = 0x7FFFFFFF
FILLER = UNIT.pack(0, FILLER_SIZE, 0)
"""The unit that fills a queue up to its first message, if the queue starts at an offset above zero."""


def build_unit(commit_log_offset: int, size: int, tags_code: int) -> bytes:
    """Return the unit of one message."""
    return UNIT.pack(commit_log_offset, size, tags_code)


def is_written(commit_log_offset: int, size: int) -> bool:
    """Return whether a unit points to a message; recovery stops at the first unit that does not.

    A filler counts as written, as upstream (``ConsumeQueue.recover``: offset >= 0 and size > 0).
    """
    return commit_log_offset >= 0 and size > 0


def is_filler(commit_log_offset: int, size: int) -> bool:
    """Return whether a unit only fills the space before a queue's first message."""
    return commit_log_offset == 0 and size == FILLER_SIZE


def parse_units(buffer: Readable) -> list[tuple[int, int, int]]:
    """Return all units of a slice of a queue as (commit log offset, size, tags code).

    :raises LayoutError: the slice does not end with a whole unit.
    """
    if len(buffer) % UNIT_BYTES:
        raise LayoutError(f"{len(buffer)} bytes are no whole number of {UNIT_BYTES}-byte consume queue units")
    return list(UNIT.iter_unpack(buffer))
