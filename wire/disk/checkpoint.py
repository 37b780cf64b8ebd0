"""The checkpoint file: the store time up to which the log, the queues and the index are known to be on disk.

The file has five int64 at the start of 4096 bytes; the rest is zero. 4.9 knows the first three values. (Upstream:
``StoreCheckpoint``.)
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass

from wire.errors import LayoutError
from wire.fixed_layout import FixedLayout, Int64sb, Readable

# On disk: never change.
VALUES = FixedLayout(
    "checkpoint",
    log_stored_at_ms=Int64sb,
    queues_stored_at_ms=Int64sb,
    index_stored_at_ms=Int64sb,
    master_flushed_offset=Int64sb,
    confirmed_offset=Int64sb,
)
FILE_BYTES = 4096

SAFETY_MS = 3000
"""The milliseconds by which recovery starts earlier (upstream ``StoreCheckpoint.getMinTimestamp``)."""


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """The store times of the last message flushed to each part.

    The offsets belong to replication and are only kept.
    """

    log_stored_at_ms: int = 0
    queues_stored_at_ms: int = 0
    index_stored_at_ms: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0

    @classmethod
    def parse(cls, buffer: Readable) -> StoreCheckpoint:
        """Read the values of a checkpoint file.

        :raises LayoutError: the file is shorter than its values; lengths other than 4096 are accepted.
        """
        try:
            return cls(*VALUES.unpack_from(buffer, 0))
        except struct.error as error:
            raise LayoutError(f"a checkpoint takes at least {VALUES.size} bytes, found {len(buffer)}") from error

    def build(self, size: int = FILE_BYTES) -> bytes:
        """Return the first ``size`` bytes of the file, at least 40; all 4096 by default."""
        return VALUES.pack(*astuple(self)).ljust(size, b"\x00")

    def recovery_time_ms(self, *, index_too: bool = False) -> int:
        """Return the time before which stored messages need no look after a crash; 0 if all messages need one."""
        times = [self.log_stored_at_ms, self.queues_stored_at_ms]
        if index_too:
            times.append(self.index_stored_at_ms)
        return max(min(times) - SAFETY_MS, 0)
