"""Timer log files: one 52-byte entry for every message that entered the timer wheel.

    size int32 (52) · previous entry of the slot int64 (−1: none) · kind int32 · written at int64 · delay int32
    commit log offset int64 · record size int32 · hash of the real topic int32 · due int64

Entries lie one after the other in files of one size, named after the offset of their first byte, 20 digits. An entry
never crosses the end of a file: where it and an end mark would not fit, the end mark stands and the next file begins.
Written at plus delay, in milliseconds, is the slot the entry is in; the entries of a slot are a chain from the newest
to the oldest. ``due`` is exact to the millisecond and ours: upstream writes 0 there and reads nothing.
(Upstream: ``TimerLog``.)
"""

from __future__ import annotations

from wire.fixed_layout import FixedLayout
from wire.layout_kinds import Int32sb, Int64sb, Struct

ENTRY = FixedLayout(
    "timer log entry",
    Struct(
        "size" / Int32sb,
        "previous" / Int64sb,
        "kind" / Int32sb,
        "written_at_ms" / Int64sb,
        "delay_ms" / Int32sb,
        "commit_log_offset" / Int64sb,
        "record_size" / Int32sb,
        "topic_hash" / Int32sb,
        "due_ms" / Int64sb,
    ),
)
END_MARK = FixedLayout("end of a timer log file", Struct("rest" / Int32sb, "previous" / Int64sb, "magic" / Int32sb))
# On disk: never change.
ENTRY_BYTES = ENTRY.size
END_MAGIC = 0xCBD43194 - (1 << 32)
"""As an int32; it stands where an entry has its kind."""
FILE_BYTES = 104_857_600
"""Upstream ``mappedFileSizeTimerLog``."""
NONE = -1
"""No entry."""


class TimerKind:
    """Bits of ``kind``."""

    DEFAULT = 1
    ROLL = 2
    """In its slot it is stored again to wait further, not delivered."""
    DELETE = 4
    """A marker: it takes back the message of its slot that has the key it names."""
    ALL = 15
    """Upstream takes no entry with other bits for one."""


def room_for_entry(position: int, file_bytes: int) -> bool:
    """Whether an entry goes in at a position of a file; otherwise the end mark does."""
    return file_bytes - position >= ENTRY_BYTES + END_MARK.size


def build_end_mark(rest: int) -> bytes:
    """What fills the rest of a file."""
    return END_MARK.pack(rest, 0, END_MAGIC).ljust(rest, b"\x00")


def is_entry(size: int, kind: int) -> bool:
    """Whether these are of an entry; of zeros and of end marks they are not."""
    return size == ENTRY_BYTES and 0 < kind <= TimerKind.ALL
