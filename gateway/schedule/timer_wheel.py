"""The timer wheel in memory: for every second of two weeks, the newest message that waits for the second.

The wheel has the layout of the ``timerwheel`` file and is the source of that file. Only the parts in use take memory:
32 bytes for each second, however many messages wait. The messages of a slot are a chain in the timer log. (Upstream:
``TimerWheel``.)
"""

from __future__ import annotations

import mmap

import msgspec

from wire.disk.timer_log import NONE
from wire.disk.timer_wheel import FILE_SLOTS, SLOT, SLOT_BYTES

PAGE_BYTES = 4096


class WheelPage(msgspec.Struct, frozen=True):
    """A changed part of the file."""

    position: int
    data: bytes


class TimerWheel:
    """The slots by number: a time divided by the precision.

    :param slots: the number of slots after which the wheel starts again; callers of ``add`` look no further ahead.
    """

    def __init__(self, slots: int = FILE_SLOTS) -> None:
        self._slots = slots
        # Not a bytearray: that would be written to as a whole, and all of it would be in memory.
        self._memory = memoryview(mmap.mmap(-1, slots * SLOT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        self._changed: set[int] = set()

    @property
    def file_bytes(self) -> int:
        """The size of the wheel's file."""
        return self._slots * SLOT_BYTES

    def first(self, slot: int) -> int:
        """Return the timer log position of a slot's oldest entry; ``NONE`` if the slot has no entry."""
        time, first, _, _, _ = SLOT.unpack_from(self._memory, slot % self._slots * SLOT_BYTES)
        return first if time == slot else NONE

    def last(self, slot: int) -> int:
        """Return the timer log position of a slot's newest entry; ``NONE`` if the slot has no entry."""
        time, _, last, _, _ = SLOT.unpack_from(self._memory, slot % self._slots * SLOT_BYTES)
        return last if time == slot else NONE

    def number(self, slot: int) -> int:
        """Return how many messages a slot has, without messages that are taken back."""
        time, _, _, number, _ = SLOT.unpack_from(self._memory, slot % self._slots * SLOT_BYTES)
        return number if time == slot else 0

    def add(self, slot: int, position: int, count: int) -> None:
        """Note that a slot's newest entry is at ``position``.

        :param count: 1 for a message, −1 for a marker that takes a message back.
        """
        at = slot % self._slots * SLOT_BYTES
        time, first, _, number, magic = SLOT.unpack_from(self._memory, at)
        if time == slot:
            SLOT.pack_into(self._memory, at, slot, first, position, number + count, magic)
        else:
            SLOT.pack_into(self._memory, at, slot, position, position, count, 0)
        self._changed.add(at // PAGE_BYTES)

    def oldest(self, slot: int, slots: int) -> int:
        """Return the lowest timer log position of these slots' entries; ``NONE`` if they have no entry."""
        found = [first for number in range(slot, slot + slots) if (first := self.first(number)) != NONE]
        return min(found, default=NONE)

    def take_changed(self) -> list[int]:
        """Return the pages that changed since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return changed

    def page(self, number: int) -> WheelPage:
        """Return the present content of a page; for any thread."""
        position = number * PAGE_BYTES
        return WheelPage(position, bytes(self._memory[position : position + PAGE_BYTES]))

    def changed_again(self, pages: list[int]) -> None:
        """Mark pages as changed again, because they were taken but could not be saved."""
        self._changed.update(pages)
