"""The schedule: it decides which timer message is next, and up to which slot all messages are done.

The schedule reads and writes nothing itself. A message enters the wheel or, if its slot is open, the near timers. Slots
open in order, shortly before their time: their entries are then read from the timer log and added to the near timers. A
slot is *done* when its time is over and each of its messages is stored in its real topic; ``read_slot`` is the first
slot that is not done.

    enter ─► timer log + wheel ─► open_next … opened ─► near timers ─► take … done ─► advance

The number of a slot is its time divided by the precision.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from gateway.schedule.near_timers import NearTimer, NearTimers, is_rolled_marker, pack
from gateway.schedule.timer_check import TimerMarks
from gateway.schedule.timer_log import TimerEntry, TimerLog
from gateway.schedule.timer_wheel import TimerWheel
from gateway.settings.timer import TimerSettings
from wire.disk.timer_log import ENTRY_BYTES, NONE, TimerKind
from wire.disk.timer_wheel import TURN_SLOTS

_FIRST_MS = 1
"""A time before every real time."""


class WaitingTimer(NamedTuple):
    """A message of the timer topic.

    :param takes_back: for a marker, the key of the message that it takes back.
    """

    commit_log_offset: int
    size: int
    out_ms: int
    due_ms: int
    topic_hash: int
    takes_back: str | None = None


class Opening(msgspec.Struct, frozen=True):
    """A slot whose entries have to be read; its newest entry is at ``last``."""

    slot: int
    last: int


class Opened(msgspec.Struct, frozen=True):
    """The entries of a slot: the messages by due time, as ``NearTimers.merge`` takes them, and the markers."""

    slot: int
    gathered: Mapping[int, bytes]
    count: int
    markers: Sequence[NearTimer]


def gather(slot: int, entries: Iterable[TimerEntry], precision_ms: int) -> Opened:
    """Sort the entries of a slot, given newest first, into messages and markers; for any thread."""
    newest_first: dict[int, list[bytes]] = {}
    markers: list[NearTimer] = []
    count = 0
    for entry in entries:
        timer = NearTimer(entry.commit_log_offset, entry.record_size, entry.kind, slot)
        if is_marker(entry.kind):
            markers.append(timer)
        else:
            newest_first.setdefault(due_of(entry, precision_ms), []).append(pack(timer))
            count += 1
    return Opened(slot, {due_ms: b"".join(reversed(units)) for due_ms, units in newest_first.items()}, count, markers)


def due_of(entry: TimerEntry, precision_ms: int) -> int:
    """Return when the message of an entry is due.

    Another broker does not know the millisecond: all of its messages are due at the end of their slot.
    """
    return entry.due_ms or entry.slot_ms + precision_ms


class _OpenSlot:
    """A slot whose messages are among the near timers."""

    __slots__ = ("begun_at", "keys", "left", "log_end", "markers")

    def __init__(self) -> None:
        self.left = 0
        self.begun_at = NONE
        """The end of the commit log before the first message of the slot was stored; ``NONE`` before that."""
        self.log_end = 0
        """The end in the commit log of the slot's last stored message."""
        self.keys: set[str] = set()
        """The keys of the messages that are taken back."""
        self.markers: list[NearTimer] = []


class TimerSchedule:
    """The state of all timer messages."""

    def __init__(self, wheel: TimerWheel, log: TimerLog, settings: TimerSettings) -> None:
        self._wheel = wheel
        self._log = log
        self._precision_ms = settings.timer_precision_ms
        longest = TURN_SLOTS - 60
        wanted = settings.timer_roll_window_slot
        self._roll_slots = wanted if 2 <= wanted <= longest else longest
        self._near = NearTimers()
        self._opening: int | None = None
        """The slot whose entries are being read; the messages that these entries take back are not known yet."""
        self._rolling = 0
        """The number of markers on the way to the slot of the message that they take back."""
        self.is_paused = False
        """True if such a marker could not be stored. No message overtakes the marker; the next try clears the flag."""
        self._open: dict[int, _OpenSlot] = {}
        """The open slots, all below ``open_to``. Entries of later slots are in the wheel and have not been read yet."""
        self._evidence: Container[int] = ()
        self._evidence_from = NONE
        self._evidence_to = 0
        self._entered_end = 0
        self._done_end = 0
        self.newest = (0, 0)
        self._first_slot = 0
        self._past_to = 0
        """The end of the slots that were due before the start; their messages are all counted in ``_first_slot``."""
        self.read_slot = 0
        self.open_to = 0
        """The slot below which all slots are open or done."""
        self.waiting = 0
        """The number of waiting messages, without the markers that take other messages back."""
        self.changes = 0
        """A number that rises when an entry is added and when a message is done."""
        self.waits_from = 0
        """The position of the timer log before which no waiting entry lies."""
        self.queue_offset = 0
        """The offset of the timer queue below which all messages have entered."""

    def slot_of(self, moment_ms: int) -> int:
        """Return the last slot that starts before a time or at it."""
        return moment_ms // self._precision_ms

    # --- the start -----------------------------------------------------------------------------------------------

    def resume(self, marks: TimerMarks, now_ms: int) -> None:
        """Continue after the progress of an earlier run; call this before any message enters."""
        now = self.slot_of(now_ms)
        self.read_slot = max(self.slot_of(marks.read_to_ms), now - TURN_SLOTS)
        self.open_to = max(self.read_slot, now)
        self.waits_from = marks.waits_from
        self._first_slot, self._past_to = self.read_slot, self.open_to

    def found(self, position: int, entry: TimerEntry) -> None:
        """Take an entry of an earlier run that is not done; a marker takes effect only if its slot is ahead."""
        slot = max(self.slot_of(entry.slot_ms), self.read_slot)
        is_marker = entry.kind & TimerKind.DELETE
        self.waiting += 0 if is_marker else 1
        self.newest = entry.commit_log_offset, entry.record_size
        if slot < self.open_to:
            self._add_near(self._near_slot(slot), entry)
        else:
            self._wheel.add(slot, position, -1 if is_marker else 1)

    def passed(self, entry: TimerEntry) -> None:
        """Note an entry of an earlier run that is done."""
        self.newest = entry.commit_log_offset, entry.record_size

    def take_back(self, keys: Iterable[str]) -> None:
        """Note the keys of markers of the past, which ``found`` took like other entries."""
        for key in keys:
            self._slot(self.read_slot).keys.add(key)

    def believe(self, stored: Container[int], scanned_from: int, now_ms: int) -> None:
        """Treat these messages as stored already, because the commit log shows them from an offset on.

        :param stored: the ends of the waiting records, of slots that are not done.
        :param scanned_from: the commit log offset from which the log was scanned.
        """
        self._evidence, self._evidence_from = stored, scanned_from
        self._evidence_to = self.slot_of(now_ms) + 1

    # --- messages come -------------------------------------------------------------------------------------------

    def enter(self, message: WaitingTimer, now_ms: int) -> None:
        """Take a new message of the timer topic, and gather its entry in the timer log."""
        now = self.slot_of(now_ms)
        slot, kind, due_ms = self.slot_of(message.out_ms), TimerKind.DEFAULT, message.due_ms
        if slot - now >= self._roll_slots:
            beyond = slot - now - self._roll_slots
            slot = now + (self._roll_slots // 2 if beyond < self._roll_slots // 3 else self._roll_slots)
            kind, due_ms = kind | TimerKind.ROLL, slot * self._precision_ms
        if message.takes_back is not None:
            kind |= TimerKind.DELETE
        else:
            self.waiting += 1
        slot = max(slot, self.read_slot, now - TURN_SLOTS)
        entry = self._entry(slot, kind, now, (message.commit_log_offset, message.size), message.topic_hash, due_ms)
        self._append(slot, entry)
        self.newest = message.commit_log_offset, message.size
        self._entered_end = message.commit_log_offset + message.size
        if slot < self.open_to:
            slot = self._near_slot(slot)
            self._add_near(slot, entry)
            if is_marker(kind) and message.takes_back is not None:
                self._slot(slot).keys.add(message.takes_back)

    def _entry(
        self, slot: int, kind: int, now: int, where: tuple[int, int], topic_hash: int, due_ms: int
    ) -> TimerEntry:
        """Return the entry of a message whose record is ``where`` in the log: offset and size."""
        precision_ms = self._precision_ms
        return TimerEntry(
            ENTRY_BYTES,
            self._wheel.last(slot),
            kind,
            now * precision_ms,
            (slot - now) * precision_ms,
            *where,
            topic_hash,
            due_ms,
        )

    def _append(self, slot: int, entry: TimerEntry) -> None:
        self.changes += 1
        position = self._log.append(entry)
        self._wheel.add(slot, position, -1 if entry.kind & TimerKind.DELETE else 1)

    def _near_slot(self, slot: int) -> int:
        """Return the slot in which an entry of an open slot is counted.

        All time before the start is one slot, for messages and for markers: its entries have no chain by which to find
        them again, and none of this slot is done before all of it is.
        """
        return self._first_slot if slot < self._past_to and self.read_slot == self._first_slot else slot

    def _add_near(self, slot: int, entry: TimerEntry) -> None:
        state = self._slot(slot)
        timer = NearTimer(entry.commit_log_offset, entry.record_size, entry.kind, slot)
        if is_marker(entry.kind):
            state.markers.append(timer)
        else:
            state.left += 1
            self._near.add(due_of(entry, self._precision_ms), timer)

    def _slot(self, number: int) -> _OpenSlot:
        state = self._open.get(number)
        if state is None:
            state = self._open[number] = _OpenSlot()
        return state

    # --- slots open ----------------------------------------------------------------------------------------------

    def open_next(self, until_ms: int) -> Opening | None:
        """Open slots that start up to a time, until a slot has entries; return this slot, or None without any."""
        last_slot = self.slot_of(until_ms)
        while self.open_to <= last_slot:
            slot, self.open_to = self.open_to, self.open_to + 1
            last = self._wheel.last(slot)
            if last != NONE:
                self._opening = slot
                self._slot(slot)
                return Opening(slot, last)
        return None

    def opened(self, found: Opened, keys: Iterable[str]) -> None:
        """Add the entries of a slot that opens, and the keys of the messages that are taken back."""
        state = self._slot(found.slot)
        self._opening = None
        state.left += found.count
        state.markers += found.markers
        state.keys.update(keys)
        self._near.merge(found.gathered)

    # --- messages go ---------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """Return when the next near timer is due; None also if the next one waits for something else."""
        due_ms = self._near.next_due_ms()
        is_held = self._rolling or self.is_paused or due_ms is None or due_ms > self._until_ms(due_ms)
        return None if is_held else due_ms

    def _until_ms(self, now_ms: int) -> int:
        """Return the time up to which messages may be delivered.

        Messages from a slot that is being read must wait: the slot's entries may say that messages are taken back.
        """
        return now_ms if self._opening is None else min(now_ms, self._opening * self._precision_ms)

    def take(self, now_ms: int, max_count: int, max_bytes: int) -> list[NearTimer]:
        """Return due messages, to be stored in their real topic; messages that are stored already are left out.

        Return nothing while a marker is on its way to its slot: a marker is due before the message that it takes back.
        """
        if self._rolling or self.is_paused:
            return []
        taken = self._near.take(self._until_ms(now_ms), max_count, max_bytes)
        self._rolling = sum(is_rolled_marker(timer.kind) for timer in taken)
        if not self._evidence:
            return taken
        missing = []
        for timer in taken:
            if self._is_stored(timer):
                self.done(timer, 0)
            else:
                missing.append(timer)
        return missing

    def _is_stored(self, timer: NearTimer) -> bool:
        """Return whether the commit log shows that the message is stored in its real topic."""
        return timer.commit_log_offset + timer.size in self._evidence

    def is_taken_back(self, timer: NearTimer, keys: Iterable[str]) -> bool:
        """Return whether a marker of the message's slot names the message by one of these keys."""
        return not self._open[timer.slot].keys.isdisjoint(keys)

    def begin(self, timer: NearTimer, log_end: int) -> None:
        """Note that the message is about to be stored at ``log_end`` of the commit log or after it."""
        state = self._open[timer.slot]
        if state.begun_at == NONE:
            state.begun_at = log_end

    def done(self, timer: NearTimer, log_end: int) -> None:
        """Note that the message is stored up to an offset of the commit log, or that it need not be stored."""
        state = self._open[timer.slot]
        self.changes += 1
        state.left -= 1
        state.log_end = max(state.log_end, log_end)
        self.waiting -= 0 if timer.kind & TimerKind.DELETE else 1
        self._rolling -= is_rolled_marker(timer.kind)

    def again(self, timer: NearTimer, due_ms: int) -> None:
        """Make a message due again that could not be stored.

        A rolled marker stays the first one, and all deliveries pause.
        """
        if is_rolled_marker(timer.kind):
            self._rolling -= 1
            self.is_paused = True
            due_ms = _FIRST_MS
        self._near.add(due_ms, timer)

    def advance(self, now_ms: int) -> None:
        """Move past the slots that are done."""
        end = min(self.open_to, max(self.slot_of(now_ms), self._past_to))
        while self._open and (slot := min(self._open)) < end:  # the others are empty: a week has 600,000
            state = self._open[slot]
            if state.left or slot == self._opening:
                self.read_slot = slot
                return
            self._done_end = max(self._done_end, state.log_end)
            del self._open[slot]
        self.read_slot = max(self.read_slot, end)
        if self._evidence and self.read_slot > self._evidence_to:
            self._evidence = ()

    @property
    def is_settled(self) -> bool:
        """True if no slot is partly done."""
        return not self._evidence and all(state.begun_at == NONE for state in self._open.values())

    def slots_ahead(self, now_ms: int) -> int:
        """Return how many slots may have messages, from the first slot that is not done."""
        # When the clock was set back messages wait that came by the later time.
        return max(self.slot_of(now_ms), self.open_to) - self.read_slot + self._roll_slots + 2

    @property
    def is_behind(self) -> bool:
        """True if messages from the time before the start are still being delivered: they are not in the wheel."""
        return self._first_slot in self._open

    # --- what is kept --------------------------------------------------------------------------------------------

    def marks(self, log_end: int) -> tuple[TimerMarks, int]:
        """Return the present progress, and up to which offset the commit log has to be on disk for it to hold.

        :param log_end: the end of the commit log, without appends under way: a full disk may refuse these appends, and
            other records are then stored in their place.
        """
        begun = [state.begun_at for state in self._open.values() if state.begun_at != NONE]
        if self._evidence:
            begun.append(self._evidence_from)
        marks = TimerMarks(
            read_to_ms=self.read_slot * self._precision_ms,
            scan_from=min(begun, default=log_end),
            log_end=self._log.end,
            queue_offset=self.queue_offset,
            waits_from=self.waits_from,
        )
        return marks, max(self._done_end, self._entered_end)

    def carry_over(self, now_ms: int) -> None:
        """Move messages of partly done slots to the next slot, at a proper stop.

        Then no later broker, including Apache RocketMQ, sees a slot that is partly done.
        """
        now = self.slot_of(now_ms)
        begun = {slot for slot, state in self._open.items() if state.begun_at != NONE or slot < now}
        begun.update(timer.slot for _, timer in self._near if self._is_stored(timer))
        if not begun:
            return
        target = max(begun) + 1
        if self._first_slot in begun:
            target = max(target, self._past_to)
        near = [(due_ms, timer) for due_ms, timer in self._near if timer.slot < target and not self._is_stored(timer)]
        markers = [(0, timer) for slot, state in self._open.items() if slot < target for timer in state.markers]
        for due_ms, timer in markers + near if near else []:
            self._append(target, self._entry(target, timer.kind, now, (timer.commit_log_offset, timer.size), 0, due_ms))
        if near:
            # Upstream goes on behind the message of the last entry: that has to be the newest one, in a slot that is
            # done.
            self._append(target - 1, self._entry(target - 1, TimerKind.DEFAULT, now, self.newest, 0, 0))
        self._done_end = max(self._done_end, *(state.log_end for state in self._open.values()))
        self._open = {slot: state for slot, state in self._open.items() if slot >= target}
        if target > self._evidence_to:
            self._evidence = ()
        self.read_slot = target


def is_marker(kind: int) -> bool:
    """Return whether an entry takes a message of its slot back; a rolled marker takes it back later."""
    return bool(kind & TimerKind.DELETE) and not kind & TimerKind.ROLL
