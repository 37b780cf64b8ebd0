"""The checkpoint file: up to which store time the log, the queues and the index are known to be on disk.

Five int64 at the start of 4096 bytes, the rest zero; 4.9 knows the first three. (Upstream:
``StoreCheckpoint``.)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

from wire.errors import LayoutError
from wire.fixed_layout import FixedLayout
from wire.layout_kinds import Int64sb, Struct

Readable: TypeAlias = bytes | bytearray | memoryview

# On disk: never change.
VALUES = FixedLayout(
    "checkpoint",
    Struct(
        "log_stored_at_ms" / Int64sb,
        "queues_stored_at_ms" / Int64sb,
        "index_stored_at_ms" / Int64sb,
        "master_flushed_offset" / Int64sb,
        "confirmed_offset" / Int64sb,
    ),
)
FILE_BYTES = 4096

SAFETY_MS = 3000
"""Recovery goes back this much further (upstream ``StoreCheckpoint.getMinTimestamp``)."""


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """Store times of the last message flushed to each part; offsets belong to replication and are carried
    along.
    """

    log_stored_at_ms: int = 0
    queues_stored_at_ms: int = 0
    index_stored_at_ms: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0

    @classmethod
    def parse(cls, buffer: Readable) -> StoreCheckpoint:
        """The values of a checkpoint file.

        :raises LayoutError: shorter than its values; a file of another length than 4096 is accepted.
        """
        try:
            return cls(*VALUES.unpack_from(buffer, 0))
        except struct.error as error:
            raise LayoutError(f"a checkpoint takes at least {VALUES.size} bytes, found {len(buffer)}") from error

    def build(self, size: int = FILE_BYTES) -> bytes:
        """The first ``size`` bytes of the file, 40 at least; all 4096 if it is left out."""
        values = VALUES.pack(
            self.log_stored_at_ms,
            self.queues_stored_at_ms,
            self.index_stored_at_ms,
            self.master_flushed_offset,
            self.confirmed_offset,
        )
        return values.ljust(size, b"\x00")

    def recovery_time_ms(self, *, index_too: bool = False) -> int:
        """Messages stored before this time need not be looked at after a crash; 0 for all."""
        times = [self.log_stored_at_ms, self.queues_stored_at_ms]
        if index_too:
            times.append(self.index_stored_at_ms)
        return max(min(times) - SAFETY_MS, 0)
