"""Unread answers of all connections together: who waits, who is closed, and that every byte is counted off again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock

from gateway.remoting import answer_room
from gateway.remoting.answer_room import LOOK_EVERY_S, STALE_S, STALLED_S, TURN_BYTES, AnswerRoom
from gateway.remoting.channel import CLOSE_GRACE_S
from gateway.remoting.dispatch import Dispatch, Request
from gateway.remoting.flush_group import FlushGroup
from gateway.tests.remoting.conversation import Conversation, Peer, memory_reactor, request
from wire.codes import RequestCode, ResponseCode

MIB = 1 << 20
TOTAL = 16 * MIB
FULL = 12 * MIB
"""Three quarters of the total: from here on requests wait."""
POP = RequestCode.POP_MESSAGE
HEART_BEAT = RequestCode.HEART_BEAT


class Connected:
    """Somebody with unread bytes."""

    def __init__(self, room: AnswerRoom, *, is_full: bool = True) -> None:
        self._room = room
        self.is_full = is_full
        self.reason = ""

    def drop(self, reason: str) -> None:
        self.reason = reason
        self._room.holds(self, 0)


class Waiting:
    """Requests that wait, by number, and those that were begun."""

    def __init__(self, room: AnswerRoom) -> None:
        self._room = room
        self.begun: list[int] = []

    def wait(self, *numbers: int, answer_bytes: int = 0) -> None:
        for number in numbers:
            assert self._room.wait(self._beginning(number, answer_bytes))

    def _beginning(self, number: int, answer_bytes: int) -> Callable[[], None]:
        def begin() -> None:
            self.begun.append(number)
            self._room.begun(answer_bytes)

        return begin


class Turns(Clock):
    """A reactor whose calls without delay belong to its next turn, as a real one's do."""

    def go_round(self) -> bool:
        """Run what was asked for before this turn; False when that is nothing."""
        asked, self.calls = self.calls, []
        for call in asked:
            call.func(*call.args, **call.kw)
        return bool(asked)


def room_with(limit_bytes: int = TOTAL) -> tuple[MemoryReactorClock, AnswerRoom]:
    reactor = memory_reactor()
    return reactor, AnswerRoom(reactor, FlushGroup(reactor), limit_bytes)


# -- the room alone ---------------------------------------------------------------------------------------------


def test_unread_bytes_are_counted_until_they_are_read() -> None:
    _, room = room_with()
    one, other = Connected(room), Connected(room)
    room.holds(one, 5)
    room.holds(other, 7)
    room.holds(one, 2)
    assert room.total_bytes == 9
    room.holds(one, 0)
    room.holds(other, 0)
    room.holds(other, 0)
    assert room.total_bytes == 0


def test_beyond_the_total_the_largest_is_closed_at_once() -> None:
    _, room = room_with()
    large, small, last = Connected(room), Connected(room), Connected(room)
    room.holds(small, 2 * MIB)
    room.holds(large, 9 * MIB)
    room.holds(last, 6 * MIB)
    assert "gateway.unsentBytesTotal" in large.reason
    assert str(9 * MIB) in large.reason
    assert (small.reason, last.reason) == ("", "")
    assert room.total_bytes == 8 * MIB


def test_from_three_quarters_on_requests_wait_until_others_have_read() -> None:
    reactor, room = room_with()
    waiting, slow = Waiting(room), Connected(room)
    room.holds(slow, FULL + 1)
    assert room.is_short
    waiting.wait(1, 2)
    reactor.advance(0)
    assert waiting.begun == []
    room.holds(slow, FULL)
    assert not room.is_short
    reactor.advance(0)
    assert waiting.begun == [1, 2]


def test_who_does_not_read_is_closed_when_others_wait_the_largest_first() -> None:
    reactor, room = room_with()
    waiting = Waiting(room)
    holders = [Connected(room) for _ in range(4)]
    for holder, mebibytes in zip(holders, (2, 5, 3, 4), strict=True):
        room.holds(holder, mebibytes * MIB)
    reactor.advance(60)
    assert not any(holder.reason for holder in holders), "nobody waits"
    waiting.wait(1)
    reactor.advance(LOOK_EVERY_S)
    reactor.advance(0)
    assert [bool(holder.reason) for holder in holders] == [False, True, False, False]
    assert waiting.begun == [1]


def test_who_is_reading_is_not_closed() -> None:
    reactor, room = room_with()
    waiting, reading = Waiting(room), Connected(room)
    room.holds(reading, FULL + 1)
    waiting.wait(1)
    for _ in range(100):
        reactor.advance(STALLED_S / 2)
        room.holds(reading, FULL + 1)
    assert (reading.reason, waiting.begun) == ("", [])


def test_who_holds_little_is_given_more_time_to_read() -> None:
    reactor, room = room_with()
    waiting, slow = Waiting(room), Connected(room, is_full=False)
    room.holds(slow, FULL + 1)
    waiting.wait(1)
    reactor.pump([LOOK_EVERY_S] * round(STALE_S / LOOK_EVERY_S / 2))
    assert slow.reason == ""
    reactor.pump([LOOK_EVERY_S] * round(STALE_S / LOOK_EVERY_S))
    assert slow.reason
    assert waiting.begun == [1]


def test_a_turn_begins_some_megabytes_and_the_next_one_goes_on_in_order() -> None:
    reactor = Turns()
    room = AnswerRoom(reactor, FlushGroup(reactor), TOTAL)
    waiting = Waiting(room)
    waiting.wait(*range(10), answer_bytes=TURN_BYTES // 2)
    turns = []
    while reactor.go_round():
        turns.append(list(waiting.begun))
        assert room.is_short is (len(turns) < 4)
    assert turns[:4] == [[0, 1, 2], [0, 1, 2, 3, 4, 5], list(range(9)), list(range(10))]
    assert not room.is_short


def test_too_many_that_wait_are_refused() -> None:
    _, room = room_with()
    room.holds(Connected(room), FULL + 1)
    begin = list[int]().clear
    for _ in range(answer_room.MAX_WAITING):
        assert room.wait(begin)
    assert not room.wait(begin)


# -- connections ------------------------------------------------------------------------------------------------


class Large:
    """Answers pops with as many bytes as it is told, and heartbeats with nothing."""

    def __init__(self, answer_bytes: int = 4 * MIB) -> None:
        self.answer_bytes = answer_bytes
        self.popped: list[int] = []
        self.dispatch = Dispatch()
        self.dispatch.answers_directly(POP, self._pop)
        self.dispatch.answers_directly(HEART_BEAT, lambda asked: asked.answer(ResponseCode.SUCCESS))

    def _pop(self, asked: Request) -> None:
        self.popped.append(asked.command.opaque)
        asked.answer(ResponseCode.SUCCESS, body=bytes(self.answer_bytes))


def unread(conversation: Conversation, mebibytes: int) -> Peer:
    """A peer that leaves this much unread."""
    peer = conversation.connect()
    peer.transport.full()
    peer.channel.send(request(body=bytes(mebibytes * MIB)))
    conversation.server.flush_group.flush()
    return peer


def test_only_one_large_answer_is_made_for_a_peer_that_reads_none() -> None:
    large = Large()
    conversation = Conversation(large.dispatch)
    peer = conversation.connect()
    peer.transport.full()
    peer.send(*(request(POP, opaque=opaque) for opaque in range(8)))
    conversation.reactor.pump([0] * 20)
    assert large.popped == [0]
    for read in range(1, 8):
        peer.transport.empty()
        peer.transport.full()
        conversation.reactor.pump([0] * 20)
        assert large.popped == list(range(read + 1))
    peer.transport.empty()
    assert [answer.opaque for answer in peer.received()] == list(range(8))


def test_a_peer_that_reads_gets_everything_it_asked_for() -> None:
    large = Large()
    conversation = Conversation(large.dispatch)
    peer = conversation.connect()
    peer.send(*(request(POP, opaque=opaque) for opaque in range(30)))
    conversation.reactor.pump([0] * 60)
    assert [answer.opaque for answer in peer.received()] == list(range(30))
    assert conversation.server.room.total_bytes == 0


def test_where_room_is_short_pops_wait_and_everything_small_goes_on() -> None:
    large = Large(100)
    conversation = Conversation(large.dispatch, unsent_bytes_total=TOTAL)
    hog = unread(conversation, 13)
    honest = conversation.connect()
    honest.send(request(POP, opaque=1), request(HEART_BEAT, opaque=2))
    assert [answer.opaque for answer in honest.received()] == [2]
    conversation.reactor.pump([LOOK_EVERY_S] * 5)
    assert [answer.opaque for answer in honest.received()] == [1]
    assert hog.channel.closed
    assert conversation.server.room.total_bytes == 0


def test_a_peer_with_small_answers_does_not_wait_behind_those_who_ask_for_much() -> None:
    large = Large(100)
    conversation = Conversation(large.dispatch, unsent_bytes_total=TOTAL)
    known, new = conversation.connect(), conversation.connect()
    known.channel.send_parts([b"small"])
    unread(conversation, 13)
    known.send(request(POP, opaque=1))
    new.send(request(POP, opaque=2))
    assert large.popped == [1]


def test_a_request_that_waits_is_forgotten_with_its_connection() -> None:
    large = Large()
    conversation = Conversation(large.dispatch)
    peer = conversation.connect()
    peer.transport.full()
    peer.send(request(POP, opaque=1), request(POP, opaque=2))
    peer.leave()
    conversation.reactor.pump([0] * 5)
    assert large.popped == [1]
    assert conversation.server.room.total_bytes == 0


@pytest.mark.parametrize("end", ["leaves", "is closed", "is dropped"])
def test_the_bytes_of_a_lost_connection_are_counted_off(end: str) -> None:
    conversation = Conversation()
    room = conversation.server.room
    peer = unread(conversation, 3)
    assert room.total_bytes == peer.channel.unsent_bytes > 3 * MIB
    if end == "leaves":
        peer.leave()
    elif end == "is closed":
        peer.channel.close("enough")
    else:
        peer.channel.abort("enough")
    assert room.total_bytes == 0


def test_the_last_bytes_of_a_closed_connection_count_until_they_are_gone() -> None:
    conversation = Conversation()
    room = conversation.server.room
    peer = unread(conversation, 3)
    peer.transport.protocol = None  # the far end does not read: the transport stays
    peer.channel.close("malformed bytes")
    assert room.total_bytes > 3 * MIB
    peer.protocol.channel.drop("others need the room")  # type: ignore[union-attr]
    assert room.total_bytes == 0
    conversation.reactor.advance(CLOSE_GRACE_S)
    peer.channel.connection_lost("gone")
    assert room.total_bytes == 0
