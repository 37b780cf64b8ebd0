"""The timer checkpoint: the progress of the timer in reading and delivering.

The file has seven int64 at the start of ``config/timercheck``. The same 56 bytes answer GET_TIMER_CHECK_POINT.
(Upstream: ``TimerCheckpoint``.)
"""

from __future__ import annotations

import struct

import msgspec
from msgspec.structs import astuple

from wire.errors import LayoutError
from wire.fixed_layout import FixedLayout, Int64sb, Readable

# On disk and on the wire: never change.
VALUES = FixedLayout(
    "timer checkpoint",
    read_to_ms=Int64sb,
    log_flushed=Int64sb,
    queue_offset=Int64sb,
    master_queue_offset=Int64sb,
    state_version=Int64sb,
    changed_at_ms=Int64sb,
    counter=Int64sb,
)
FILE_BYTES = 4096


class TimerCheckpoint(msgspec.Struct, frozen=True):
    """The progress of the timer.

    All slots before ``read_to_ms`` are delivered. The timer log is on disk up to ``log_flushed``, and holds the
    messages of the timer topic's queue below ``queue_offset``. The other values belong to replication.
    """

    read_to_ms: int = 0
    log_flushed: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    changed_at_ms: int = 0
    counter: int = 0

    @classmethod
    def parse(cls, buffer: Readable) -> TimerCheckpoint:
        """Read the values at the start of a file.

        :raises LayoutError: the file is shorter than the values.
        """
        try:
            return cls(*VALUES.unpack_from(buffer, 0))
        except struct.error as error:
            raise LayoutError(f"a timer checkpoint takes {VALUES.size} bytes, found {len(buffer)}") from error

    def build(self) -> bytes:
        """Return the 56 bytes of the values."""
        return VALUES.pack(*astuple(self))
