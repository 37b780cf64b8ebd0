"""Timer log files: one 52-byte entry for every message that entered the timer wheel.

    size int32 (52) · previous entry of the slot int64 (−1: none) · kind int32 · written at int64 · delay int32
    commit log offset int64 · record size int32 · hash of the real topic int32 · due int64

Entries follow each other in files of one size. The name of a file is the offset of its first byte, in 20 digits. An
entry never crosses the end of a file: if a file has no room for an entry and an end mark, the end mark is written and
the next file starts. The slot of an entry is "written at" plus "delay", in milliseconds. The entries of a slot are a
chain from the newest to the oldest. ``due`` is exact to the millisecond and ours: upstream writes 0 there and does not
read the field. (Upstream: ``TimerLog``.)
"""

from __future__ import annotations

from wire.fixed_layout import FixedLayout, Int32sb, Int64sb

ENTRY = FixedLayout(
    "timer log entry",
    size=Int32sb,
    previous=Int64sb,
    kind=Int32sb,
    written_at_ms=Int64sb,
    delay_ms=Int32sb,
    commit_log_offset=Int64sb,
    record_size=Int32sb,
    topic_hash=Int32sb,
    due_ms=Int64sb,
)
END_MARK = FixedLayout("end of a timer log file", rest=Int32sb, previous=Int64sb, magic=Int32sb)
# On disk: never change.
ENTRY_BYTES = ENTRY.size
END_MAGIC = 0xCBD43194 - (1 << 32)
"""The magic of an end mark as an int32, at the position at which an entry has its kind."""
FILE_BYTES = 104_857_600
"""The size of a file in bytes (upstream ``mappedFileSizeTimerLog``)."""
NONE = -1
"""The position that means no entry."""


class TimerKind:
    """The bits of ``kind``."""

    DEFAULT = 1
    ROLL = 2
    """A message that is not delivered when its slot is due, but stored again to wait further."""
    DELETE = 4
    """A marker that takes back the message of its slot whose key the marker names."""
    ALL = 15
    """All bits of an entry; upstream ignores entries with other bits."""


def room_for_entry(position: int, file_bytes: int) -> bool:
    """Return whether an entry fits at a position of a file; otherwise the end mark is due."""
    return file_bytes - position >= ENTRY_BYTES + END_MARK.size


def build_end_mark(rest: int) -> bytes:
    """Return the bytes that fill the rest of a file."""
    return END_MARK.pack(rest, 0, END_MAGIC).ljust(rest, b"\x00")


def is_entry(size: int, kind: int) -> bool:
    """Return whether a size and a kind belong to an entry; False for zeros and for end marks."""
    return size == ENTRY_BYTES and 0 < kind <= TimerKind.ALL
