"""The sum of what requests hold: who waits, who is closed, and that all of it is counted off again."""

from __future__ import annotations

import pytest

from gateway.remoting.answers.answer_room import LOOK_EVERY_S, AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.answers.held_bytes import HeldBytes
from gateway.remoting.input import IncompleteFrames
from gateway.tests.remoting.answers.test_answer_room import Connected, Waiting
from gateway.tests.remoting.conversation import memory_reactor

MIB = 1 << 20
LIMIT = 12 * MIB


class Sending:
    """Somebody with a part of a request."""

    def __init__(self, frames: IncompleteFrames) -> None:
        self._frames = frames
        self.reason = ""

    def drop(self, reason: str) -> None:
        self.reason = reason
        self._frames.holds(self, 0)


class Process:
    """Two servers with large limits of their own, and a small one of both."""

    def __init__(self) -> None:
        self.reactor = memory_reactor()
        self.of_all = HeldBytes(LIMIT)
        self.rooms = [AnswerRoom(self.reactor, FlushGroup(self.reactor), 100 * MIB, self.of_all) for _ in range(2)]
        self.frames = IncompleteFrames(100 * MIB, self.of_all)


@pytest.mark.parametrize(
    ("total", "part", "is_short", "must_shrink"),
    [
        (9 * MIB, 9 * MIB, False, False),
        (9 * MIB + 1, 1, True, False),
        (LIMIT, LIMIT, True, False),
        (LIMIT + 1, 4 * MIB, True, False),
        (LIMIT + 1, 4 * MIB + 1, True, True),
    ],
)
def test_the_sum_decides_who_waits_and_the_larger_parts_shrink(
    total: int, part: int, is_short: bool, must_shrink: bool
) -> None:
    held = HeldBytes(LIMIT)
    held.change(total)
    assert (held.is_short, held.must_shrink(part)) == (is_short, must_shrink)


def test_answers_of_two_servers_count_together() -> None:
    process = Process()
    first, second = (Connected(room) for room in process.rooms)
    process.rooms[0].holds(first, 5 * MIB)
    process.rooms[1].holds(second, 5 * MIB)
    assert process.rooms[1].is_short
    process.rooms[1].holds(second, 8 * MIB)
    assert (first.reason, "gateway.heldBytesTotal" in second.reason) == ("", True)
    process.rooms[0].holds(first, 0)
    assert process.of_all.total_bytes == 0


def test_incomplete_requests_make_answers_wait_until_there_is_room() -> None:
    process = Process()
    room, waiting, sender = process.rooms[0], Waiting(process.rooms[0]), Sending(process.frames)
    process.frames.holds(sender, 8 * MIB)
    room.makes(2 * MIB)
    reader = Connected(room)
    room.holds(reader, 1)
    waiting.wait(1)
    process.reactor.advance(LOOK_EVERY_S)
    assert waiting.begun == []
    process.frames.holds(sender, 0)
    process.reactor.advance(LOOK_EVERY_S)
    process.reactor.advance(0)
    assert (waiting.begun, reader.reason, sender.reason) == ([1], "", "")


def test_whoever_fills_the_sum_with_requests_gets_no_reader_closed() -> None:
    process = Process()
    room, reader, senders = process.rooms[0], Connected(process.rooms[0]), [Sending(process.frames) for _ in range(2)]
    for sender in senders:
        process.frames.holds(sender, 3 * MIB)
    room.makes(4 * MIB)
    room.holds(reader, 3 * MIB)
    assert (reader.reason, [sender.reason for sender in senders]) == ("", ["", ""])
    process.frames.holds(senders[0], 4 * MIB)
    assert "gateway.heldBytesTotal" in senders[0].reason
    assert (reader.reason, process.of_all.total_bytes) == ("", 10 * MIB)


def test_incomplete_requests_never_take_so_much_that_answers_wait_for_good() -> None:
    process = Process()
    senders = [Sending(process.frames) for _ in range(3)]
    for sender in senders:
        process.frames.holds(sender, 4 * MIB)
    assert [bool(sender.reason) for sender in senders].count(True) == 1
    process.rooms[0].makes(MIB)
    assert not process.rooms[0].is_short


def test_a_long_list_counts_while_it_is_made() -> None:
    process = Process()
    room = process.rooms[0]
    room.makes(10 * MIB)
    assert room.is_short
    room.makes(-10 * MIB)
    assert (room.is_short, process.of_all.total_bytes) == (False, 0)
