"""The timer wheel file: one 32-byte slot for every time unit of two weeks, used in turn.

    time int64 · first entry int64 · last entry int64 · number of messages int32 · magic int32

``time`` is the slot's time divided by the precision (1000 ms). A slot with another time holds nothing. First and last
entry are positions in the timer log. (Upstream: ``TimerWheel``, ``Slot``.)
"""

from __future__ import annotations

from wire.fixed_layout import FixedLayout, Int32sb, Int64sb

SLOT = FixedLayout("timer wheel slot", time=Int64sb, first=Int64sb, last=Int64sb, number=Int32sb, magic=Int32sb)
# On disk: never change.
SLOT_BYTES = SLOT.size
TURN_SLOTS = 604_800
"""The seconds of a week: the most slots that a message waits (upstream ``TIMER_WHEEL_TTL_DAY``)."""
FILE_SLOTS = 2 * TURN_SLOTS
FILE_BYTES = FILE_SLOTS * SLOT_BYTES
