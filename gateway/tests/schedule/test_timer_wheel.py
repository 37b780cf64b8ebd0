"""The wheel: slots in turn, what changed, what is oldest."""

from __future__ import annotations

from gateway.schedule.timer_wheel import PAGE_BYTES, TimerWheel
from wire.disk.timer_log import NONE
from wire.disk.timer_wheel import SLOT, SLOT_BYTES


def test_a_slot_knows_its_ends_and_how_many() -> None:
    wheel = TimerWheel(256)
    assert (wheel.first(5), wheel.last(5), wheel.number(5)) == (NONE, NONE, 0)
    for position, count in ((52, 1), (104, 1), (156, -1)):
        wheel.add(5, position, count)
    assert (wheel.first(5), wheel.last(5), wheel.number(5)) == (52, 156, 1)


def test_after_a_turn_a_slot_is_another_one() -> None:
    wheel = TimerWheel(256)
    wheel.add(5, 52, 1)
    wheel.add(5 + 256, 520, 1)
    assert wheel.last(5) == NONE
    assert (wheel.first(261), wheel.last(261), wheel.number(261)) == (520, 520, 1)


def test_changed_pages_are_those_of_the_file() -> None:
    wheel = TimerWheel(256)
    wheel.add(3, 52, 1)
    wheel.add(130, 104, 1)
    pages = wheel.take_changed()
    assert pages == [0, 1]
    assert wheel.take_changed() == []
    page = wheel.page(1)
    assert (page.position, len(page.data)) == (PAGE_BYTES, PAGE_BYTES)
    assert SLOT.unpack_from(page.data, 2 * SLOT_BYTES) == (130, 104, 104, 1, 0)
    wheel.changed_again(pages)
    assert wheel.take_changed() == pages


def test_the_oldest_entry_of_some_slots() -> None:
    wheel = TimerWheel(256)
    wheel.add(7, 520, 1)
    wheel.add(9, 104, 1)
    wheel.add(50, 52, 1)
    assert wheel.oldest(5, 10) == 104
    assert wheel.oldest(10, 20) == NONE
