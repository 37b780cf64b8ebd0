"""The transaction state table of 3.1.x: one 24-byte unit for every half message, overwritten by the outcome.

    commit log offset int64 · size int32 · store time int32 (seconds) · hash of the producer group int32 · state int32

Unit n is at byte 24·n of the table, and clients send back n as ``tranStateTableOffset``. A file holds two million
units. Its name is the byte offset of its first unit, in 20 digits. State 4 is prepared, 8 committed, 12 rolled back,
given up or replaced; 0 was never written. State 16 is ours: settled, and only the commit log knows the outcome.
(Upstream 3.1.x: ``TransactionStateService``.)
"""

from __future__ import annotations

from wire.errors import LayoutError
from wire.fixed_layout import FixedLayout, Int32sb, Int64sb, Readable

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
