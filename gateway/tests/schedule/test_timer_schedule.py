"""The schedule against a simple model: each message once, not before its time, in the order of the times."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.schedule.timer_check import TimerMarks
from gateway.schedule.timer_log import TimerLog
from gateway.schedule.timer_message import slot_ms
from gateway.schedule.timer_schedule import TimerSchedule, WaitingTimer, gather
from gateway.schedule.timer_wheel import TimerWheel
from gateway.settings.timer import TimerSettings
from gateway.tests.crash.disk.recording import Image, RecordingFiles
from wire.disk.timer_log import TimerKind
from wire.tests.growth import processor_seconds
from wire.tests.message.strategies import QUICK

START_MS = 1_700_000_000_000
PRECISION_MS = 100
SIZE = 10
DAY_MS = 86_400_000


class Machine:
    """A schedule on a disk in memory, with what a service does around it; no message is ever read."""

    def __init__(self, roll_slots: int = 40) -> None:
        self.now_ms = START_MS
        files = RecordingFiles(Image({}, {"/": 0, "/data": 0}), lambda: self.now_ms)
        self.terms = TimerSettings(timer_precision_ms=PRECISION_MS, timer_roll_window_slot=roll_slots)
        self.log = TimerLog(files, Path("/data/timerlog"), 4096)
        self.schedule = TimerSchedule(TimerWheel(1 << 10), self.log, self.terms)
        self.schedule.resume(TimerMarks(read_to_ms=START_MS), self.now_ms)
        self.log.load()
        self.due: dict[int, int] = {}
        self.next_offset = 0
        self.delivered: list[tuple[int, int]] = []
        self.names: dict[int, int] = {}
        """By the place of a message, where it was first: it moves when it is rolled."""

    def enter(self, due_ms: int) -> None:
        self.due[self.next_offset] = due_ms
        self._enter(self.next_offset, due_ms)

    def _enter(self, name: int, due_ms: int) -> None:
        out_ms = slot_ms(due_ms, PRECISION_MS)
        self.names[self.next_offset] = name
        self.schedule.enter(WaitingTimer(self.next_offset, SIZE, out_ms, due_ms, 0), self.now_ms)
        self.next_offset += SIZE
        while not self.log.write():
            missing = self.log.missing_file()
            assert missing is not None
            self.log.make(missing)

    def turn(self, most: int) -> None:
        while (opening := self.schedule.open_next(self.now_ms + PRECISION_MS)) is not None:
            self.schedule.opened(gather(opening.slot, self.log.chain(opening.last), PRECISION_MS), ())
        self.schedule.advance(self.now_ms)
        for timer in self.schedule.take(self.now_ms, most, 1 << 20):
            name = self.names[timer.commit_log_offset]
            self.schedule.begin(timer, self.next_offset)
            if timer.kind & TimerKind.ROLL:
                self._enter(name, self.due[name])
            else:
                self.delivered.append((name, self.now_ms))
            self.schedule.done(timer, self.next_offset)


@QUICK
@given(
    st.lists(
        st.one_of(
            st.integers(1, 6_000).map(lambda delay: ("enter", delay)), st.integers(1, 700).map(lambda ms: ("pass", ms))
        ),
        max_size=60,
    ),
    st.integers(1, 5),
)
def test_each_message_comes_once_and_not_before_its_time(script: list[tuple[str, int]], most: int) -> None:
    machine = Machine()
    for what, milliseconds in script:
        if what == "enter":
            machine.enter(machine.now_ms + milliseconds)
        else:
            machine.now_ms += milliseconds
            machine.turn(most)
        assert machine.schedule.waiting == len(machine.due) - len(machine.delivered)
    for _ in range(400):
        machine.now_ms += PRECISION_MS
        machine.turn(most)
    assert sorted(name for name, _ in machine.delivered) == sorted(machine.due)
    assert all(at_ms >= machine.due[name] for name, at_ms in machine.delivered)
    assert machine.schedule.waiting == 0
    assert machine.schedule.read_slot * PRECISION_MS >= max([START_MS, *machine.due.values()]) - PRECISION_MS


def test_a_slot_is_done_when_its_time_is_over_and_all_is_stored() -> None:
    machine = Machine()
    machine.enter(START_MS + 50)
    machine.enter(START_MS + 250)
    first = machine.schedule.read_slot
    machine.now_ms += 60
    machine.turn(9)
    assert len(machine.delivered) == 1
    assert machine.schedule.read_slot == first
    machine.now_ms += 60
    machine.turn(9)
    assert machine.schedule.read_slot == first + 1


def test_a_message_that_waits_longer_than_a_turn_is_rolled_on_its_way() -> None:
    machine = Machine(roll_slots=6)
    machine.enter(START_MS + 2_050)
    for _ in range(30):
        machine.now_ms += PRECISION_MS
        machine.turn(9)
    assert machine.delivered == [(0, START_MS + 2_100)]
    assert machine.next_offset > 3 * SIZE


def test_what_is_carried_over_is_found_in_the_next_slot() -> None:
    machine = Machine()
    for delay_ms in (20, 30, 90, 150):
        machine.enter(START_MS + delay_ms)
    machine.now_ms += 40
    machine.turn(9)
    assert len(machine.delivered) == 2
    first = machine.schedule.read_slot
    machine.schedule.carry_over(machine.now_ms)
    machine.log.write()
    assert machine.schedule.read_slot == first + 1
    entries = [entry for _, entry in machine.log.entries(0, machine.log.end)]
    waiting = [entry.due_ms - START_MS for entry in entries if entry.slot_ms >= (first + 1) * PRECISION_MS]
    assert sorted(waiting) == [90, 150]
    assert entries[-1].commit_log_offset == 3 * SIZE, "upstream goes on behind the newest message"


def test_messages_that_the_log_has_already_are_left_out() -> None:
    machine = Machine()
    machine.enter(START_MS + 10)
    machine.enter(START_MS + 20)
    machine.schedule.believe({SIZE}, 0, START_MS)
    machine.now_ms += 50
    machine.turn(9)
    assert [name for name, _ in machine.delivered] == [SIZE]
    assert machine.schedule.marks(99)[0].scan_from == 0, "until the slots of that time are done"
    for _ in range(4):
        machine.now_ms += PRECISION_MS
        machine.turn(9)
    assert machine.schedule.marks(99)[0].scan_from == 99


def test_a_stop_passes_a_slot_of_which_something_was_stored_before_the_start() -> None:
    machine = Machine()
    machine.enter(START_MS + 50)
    machine.enter(START_MS + 150)
    machine.enter(START_MS + 160)
    machine.schedule.believe({2 * SIZE}, 0, START_MS)
    machine.now_ms += 60
    machine.turn(9)
    first = machine.schedule.read_slot
    machine.schedule.carry_over(machine.now_ms)
    machine.log.write()
    assert machine.schedule.read_slot == first + 2
    entries = [entry for _, entry in machine.log.entries(0, machine.log.end)]
    assert [entry.due_ms for entry in entries if entry.slot_ms >= (first + 2) * PRECISION_MS] == [START_MS + 160]
    assert machine.schedule.marks(99)[0].scan_from == 99


def test_a_stop_before_the_slots_of_what_is_stored_already_leaves_the_next_start_to_look_for_it() -> None:
    """As after a clock was set back: the message that is stored is not even near."""
    machine = Machine()
    machine.enter(START_MS + 50)
    machine.enter(START_MS + 250)
    machine.schedule.believe({2 * SIZE}, 0, START_MS + 260)
    machine.now_ms += 60
    machine.turn(9)
    machine.schedule.carry_over(machine.now_ms)
    assert machine.schedule.marks(99)[0].scan_from == 0


def test_the_time_before_the_start_is_done_as_one_also_when_the_clock_is_set_back() -> None:
    machine = Machine()
    machine.schedule.resume(TimerMarks(read_to_ms=START_MS), START_MS + 500)
    machine.enter(START_MS + 50)
    machine.enter(START_MS + 350)
    machine.now_ms += 360
    machine.turn(9)
    assert len(machine.delivered) == 2
    machine.turn(9)
    assert machine.schedule.read_slot * PRECISION_MS == START_MS + 500
    machine.schedule.carry_over(machine.now_ms)
    assert machine.schedule.read_slot * PRECISION_MS == START_MS + 500


def test_two_weeks_without_a_message_are_passed_at_once() -> None:
    machine = Machine()
    machine.schedule.resume(TimerMarks(read_to_ms=0), machine.now_ms)
    seconds = processor_seconds(lambda: machine.schedule.advance(machine.now_ms))
    assert seconds < 0.02, "every start of a broker does it: 0.2 s slot by slot"
    assert machine.schedule.read_slot == machine.now_ms // PRECISION_MS
