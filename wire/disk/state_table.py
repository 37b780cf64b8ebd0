"""The transaction state table of 3.1.x: one 24-byte unit for every half message, overwritten by the outcome.

    commit log offset int64 · size int32 · store time int32 (seconds) · hash of the producer group int32 · state int32

Unit n is at byte 24·n of the table, and clients send back n as ``tranStateTableOffset``. A file holds two million
units. Its name is the byte offset of its first unit, in 20 digits. State 4 is prepared, 8 committed, 12 rolled back,
given up or replaced; 0 was never written. State 16 is ours: settled, and only the commit log knows the outcome.
(Upstream 3.1.x: ``TransactionStateService``.)
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from wire.errors import LayoutError
from wire.fixed_layout import FixedLayout, Int32sb, Int32ub, Int64sb, Readable

UNIT = FixedLayout(
    "transaction state unit",
    commit_log_offset=Int64sb,
    size=Int32sb,
    stored_at_s=Int32sb,
    group_hash=Int32sb,
    state=Int32sb,
)
# On disk: never change.
UNIT_BYTES = UNIT.size
FILE_UNITS = 2_000_000
STATE_AT = UNIT.offset("state")

UNWRITTEN = 0
PREPARED = 4
COMMITTED = 8
ROLLED_BACK = 12
SETTLED = 16

_STATE = UNIT.packer("state")
_MAX_SECONDS = 0x7FFFFFFF


def build_unit(commit_log_offset: int, size: int, stored_at_ms: int, group_hash: int, state: int = PREPARED) -> bytes:
    """Return the unit of one half message; store times after 2038 become the latest possible time."""
    return UNIT.pack(commit_log_offset, size, min(stored_at_ms // 1_000, _MAX_SECONDS), group_hash, state)


def build_state(state: int) -> bytes:
    """Return the bytes that replace a unit's state; they never cross the border of a disk sector."""
    return _STATE.pack(state)


def state_position(index: int) -> int:
    """Return the byte of the table at which a unit's state starts."""
    return index * UNIT_BYTES + STATE_AT


def parse_units(buffer: Readable) -> list[tuple[int, int, int, int, int]]:
    """Return all units of a slice of the table: commit log offset, size, store time (s), group hash, state.

    :raises LayoutError: the slice does not end with a whole unit.
    """
    if len(buffer) % UNIT_BYTES:
        raise LayoutError(f"{len(buffer)} bytes are no whole number of {UNIT_BYTES}-byte transaction state units")
    return list(UNIT.iter_unpack(buffer))


MARK_LAYOUT = FixedLayout(
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
_CRC_AT = MARK_LAYOUT.offset("crc")


@dataclass(frozen=True, slots=True)
class TableMark:
    """The end of the state table and of its redo log: 68 bytes in one sector, written after the units are on disk.

    Redo units from ``redo_first`` to ``redo_end`` cover the whole commit log below ``position``. The first of these
    units that is not an outcome belongs to half message ``half_first``. ``is_whole`` is True if the table was closed
    properly. The file is ours: 3.1.x has a checkpoint with times instead.

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
        if len(buffer) < MARK_LAYOUT.size:
            return None
        magic, position, redo_first, redo_end, half_first, half_end, settled_below, whole, crc = (
            MARK_LAYOUT.unpack_from(buffer, 0)
        )
        if magic != MAGIC or crc != zlib.crc32(bytes(buffer[:_CRC_AT])):
            return None
        return cls(position, redo_first, redo_end, half_first, half_end, settled_below, bool(whole))

    def build(self) -> bytes:
        """Return the bytes of the file."""
        redo = self.redo_first, self.redo_end
        halves = self.half_first, self.half_end, self.settled_below
        unsummed = MARK_LAYOUT.pack(MAGIC, self.position, *redo, *halves, int(self.is_whole), 0)[:_CRC_AT]
        return unsummed + zlib.crc32(unsummed).to_bytes(4, "big")
