"""The end of the state table and of its redo log: 68 bytes in one sector, written after the units are on disk.

    magic int64 · position int64 · redo first int64 · redo end int64 · half first int64 · half end int64 ·
    settled below int64 · whole int64 · crc32 of these uint32

Redo units from ``redo_first`` to ``redo_end`` cover the whole commit log below ``position``. The first of these units
that is not an outcome belongs to half message ``half_first``. ``whole`` is 1 if the table was closed properly. The file
is ours: 3.1.x has a checkpoint with times instead.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from wire.fixed_layout import FixedLayout, Int32ub, Int64sb, Readable

VALUES = FixedLayout(
    "state table mark",
    magic=Int64sb,
    position=Int64sb,
    redo_first=Int64sb,
    redo_end=Int64sb,
    half_first=Int64sb,
    half_end=Int64sb,
    settled_below=Int64sb,
    whole=Int64sb,
    crc=Int32ub,
)
# On disk: never change.
MAGIC = int.from_bytes(b"RMQGTST1", "big")
_CRC_AT = VALUES.offset("crc")


@dataclass(frozen=True, slots=True)
class TableMark:
    """The values of the mark.

    :param half_end: the half-queue offset after the newest half message that has a unit.
    :param settled_below: half messages below this offset have their outcome, whatever their units say.
    """

    position: int
    redo_first: int
    redo_end: int
    half_first: int
    half_end: int
    settled_below: int
    is_whole: bool = False

    @classmethod
    def parse(cls, buffer: Readable) -> TableMark | None:
        """Read the mark; return None if there is no mark, or if the mark is damaged."""
        if len(buffer) < VALUES.size:
            return None
        magic, position, redo_first, redo_end, half_first, half_end, settled_below, whole, crc = VALUES.unpack_from(
            buffer, 0
        )
        if magic != MAGIC or crc != zlib.crc32(bytes(buffer[:_CRC_AT])):
            return None
        return cls(position, redo_first, redo_end, half_first, half_end, settled_below, bool(whole))

    def build(self) -> bytes:
        """Return the bytes of the file."""
        redo = self.redo_first, self.redo_end
        halves = self.half_first, self.half_end, self.settled_below
        unsummed = VALUES.pack(MAGIC, self.position, *redo, *halves, int(self.is_whole), 0)[:_CRC_AT]
        return unsummed + zlib.crc32(unsummed).to_bytes(4, "big")
