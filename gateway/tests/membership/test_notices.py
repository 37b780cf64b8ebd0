"""The pace of notices to the members of a group: small groups at once, large groups now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest

from gateway.membership.consumers import ConsumerGroup
from gateway.membership.notices import LONGEST_PAUSE_MS, PROMPT_MEMBERS, MemberNotices
from gateway.remoting.turns import ENTRIES_PER_TURN, Work

if TYPE_CHECKING:
    from gateway.membership.clients import ConnectedClient
    from gateway.remoting.channel import Channel


class OpenChannel:
    """A channel that counts what its member is told."""

    def __init__(self) -> None:
        self.told = 0
        self.closed = self.is_broken = False


class Room:
    """Notices with time, the end of turns and works by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.end_of_turn: list[Callable[[], None]] = []
        self.due: list[tuple[int, Callable[[], None]]] = []
        self.works: list[Work[None]] = []
        self.notices = MemberNotices(
            notify=self._notify,
            clock_ms=lambda: self.now_ms,
            soon=self.end_of_turn.append,
            later=lambda delay_ms, function: self.due.append((self.now_ms + delay_ms, function)),
            in_turns=lambda work: self.works.append(work),
        )

    def turn(self) -> None:
        """End a turn, and do one piece of the work that is there."""
        functions, self.end_of_turn[:] = list(self.end_of_turn), []
        for function in functions:
            function()
        self.works = [work for work in self.works if next(work, self) is not self]

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now_ms += milliseconds
        late = [function for at_ms, function in self.due if at_ms <= self.now_ms]
        self.due = [(at_ms, function) for at_ms, function in self.due if at_ms > self.now_ms]
        for function in late:
            function()
        self.turn()

    @staticmethod
    def _notify(channel: Channel, _group: str) -> None:
        member = cast("OpenChannel", channel)
        if member.is_broken:
            raise OSError("broken")
        member.told += 1


def group_of(members: int, name: str = "g") -> ConsumerGroup:
    group = ConsumerGroup(name)
    join(group, members)
    return group


def join(group: ConsumerGroup, members: int = 1) -> None:
    for _ in range(members):
        group.members[cast("Channel", OpenChannel())] = cast("ConnectedClient", None)


def told(group: ConsumerGroup) -> list[int]:
    return [cast("OpenChannel", channel).told for channel in group.members]


def test_a_small_group_is_told_of_every_change_in_its_turn() -> None:
    room, group = Room(), group_of(PROMPT_MEMBERS)
    for number in range(1, 4):
        room.notices.tell(group)
        assert set(told(group)) == {number - 1}, "not before the end of the turn"
        room.turn()
        assert set(told(group)) == {number}


def test_all_changes_of_one_turn_are_told_at_once() -> None:
    room, group = Room(), group_of(3)
    for _ in range(20):
        room.notices.tell(group)
    room.turn()
    assert told(group) == [1, 1, 1]


def test_one_that_joins_a_large_group_is_told_at_once_and_others_after_the_pause() -> None:
    room, group = Room(), group_of(600)
    room.notices.tell(group)
    room.turn()
    assert set(told(group)) == {1}
    for _ in range(100):
        join(group)
        room.notices.tell(group)
        room.wait(1)
    assert set(told(group)) == {0, 1}
    room.wait(200)
    assert set(told(group)) == {1, 2}, "one notice for a hundred that joined"
    room.wait(1_000)
    room.notices.tell(group)
    room.turn()
    assert set(told(group)) == {2, 3}, "after a quiet time at once again"


def test_a_thousand_that_join_one_by_one_hear_of_each_other_in_linear_work() -> None:
    room, group = Room(), group_of(0)
    for _ in range(1_000):
        join(group)
        room.notices.tell(group)
        room.wait(1)
    room.wait(LONGEST_PAUSE_MS)
    assert min(told(group)) >= 1
    assert sum(told(group)) < 10_000, "every change to every member would be 500,000"


def test_a_clock_that_was_set_back_holds_no_notice_longer_than_a_pause() -> None:
    room, group = Room(), group_of(600)
    room.notices.tell(group)
    room.turn()
    room.now_ms -= 3_600_000
    room.notices.tell(group)
    room.wait(300)
    assert set(told(group)) == {2}


def test_many_notices_go_out_over_several_turns() -> None:
    room = Room()
    groups = [group_of(40, f"g{number}") for number in range(100)]
    for group in groups:
        room.notices.tell(group)
    room.turn()
    assert sum(sum(told(group)) for group in groups) == ENTRIES_PER_TURN
    for _ in range(5):
        room.turn()
    assert all(told(group) == [1] * 40 for group in groups)


def test_closed_members_are_left_out() -> None:
    room, group = Room(), group_of(2)
    first = cast("OpenChannel", next(iter(group.members)))
    first.closed = True
    room.notices.tell(group)
    room.turn()
    assert told(group) == [0, 1]


def test_a_member_that_cannot_be_notified_keeps_no_other_group_from_it() -> None:
    """No group of the broker was notified again."""
    room, broken, group = Room(), group_of(1, "broken"), group_of(3)
    for channel in broken.members:
        cast("OpenChannel", channel).is_broken = True
    room.notices.tell(broken)
    room.notices.tell(group)
    with pytest.raises(OSError, match="broken"):
        room.turn()
    room.turn()
    assert told(group) == [1, 1, 1]
    room.notices.tell(broken)
    with pytest.raises(OSError, match="broken"):
        room.turn()
    room.notices.tell(group)
    room.turn()
    assert told(group) == [2, 2, 2]
