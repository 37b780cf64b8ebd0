"""Channels are written together, once a turn."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from gateway.remoting.answers.flush_group import FlushGroup


class Writes:
    def __init__(self) -> None:
        self.count = 0

    def write_out(self) -> None:
        self.count += 1


def test_a_marked_channel_is_written_in_the_next_turn() -> None:
    clock = Clock()
    group, channel = FlushGroup(clock), Writes()
    group.mark(channel)
    assert channel.count == 0
    clock.advance(0)
    assert channel.count == 1


def test_many_marks_schedule_one_flush() -> None:
    clock = Clock()
    group = FlushGroup(clock)
    channels = [Writes(), Writes()]
    for channel in channels:
        group.mark(channel)
    assert len(clock.getDelayedCalls()) == 1
    clock.advance(0)
    assert [channel.count for channel in channels] == [1, 1]


def test_a_held_group_schedules_nothing_and_is_flushed_by_its_holder() -> None:
    clock = Clock()
    group, channel = FlushGroup(clock), Writes()
    group.hold()
    group.mark(channel)
    assert clock.getDelayedCalls() == []
    group.flush()
    assert channel.count == 1


def test_whoever_completes_a_batch_flushes_at_once_and_the_scheduled_flush_finds_nothing() -> None:
    clock = Clock()
    group, channel = FlushGroup(clock), Writes()
    group.mark(channel)
    group.flush()
    clock.advance(0)
    assert channel.count == 1


def test_what_is_carried_out_is_flushed_at_its_end_without_a_timer() -> None:
    clock = Clock()
    group, channel = FlushGroup(clock), Writes()
    seen: list[int] = []

    def answers(channel: Writes) -> None:
        group.mark(channel)
        seen.append(channel.count)

    group.carry_out(answers, channel)
    assert seen == [0]
    assert channel.count == 1
    assert clock.getDelayedCalls() == []


def test_what_a_function_answered_before_it_failed_is_written() -> None:
    clock = Clock()
    group, channel = FlushGroup(clock), Writes()

    def fails() -> None:
        group.mark(channel)
        raise RuntimeError("as asked")

    with pytest.raises(RuntimeError, match="as asked"):
        group.carry_out(fails)
    assert channel.count == 1
    group.mark(channel)
    clock.advance(0)
    assert channel.count == 2, "nothing holds the group any more"


def test_after_a_hold_marks_are_scheduled_again() -> None:
    clock = Clock()
    group, channel = FlushGroup(clock), Writes()
    group.hold()
    group.flush()
    group.mark(channel)
    clock.advance(0)
    assert channel.count == 1
