"""Unread answers of all connections together: who waits, who is closed, and that every byte is counted off again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock

from gateway.remoting.answers import answer_room
from gateway.remoting.answers.answer_room import LOOK_EVERY_S, STALE_S, STALLED_S, TURN_BYTES, AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.channel import CLOSE_GRACE_S
from gateway.remoting.declared import EVERYBODY, Size
from gateway.remoting.dispatch import Dispatch, Request
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
        self.untaken_bytes = 0
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
            assert self._room.wait(self, self._beginning(number, answer_bytes))

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


@pytest.mark.parametrize("is_full", [False, True])
def test_who_takes_bytes_is_not_closed_also_while_a_large_rest_drains(is_full: bool) -> None:
    reactor, room = room_with()
    waiting, reading = Waiting(room), Connected(room, is_full=is_full)
    reading.untaken_bytes = FULL
    room.holds(reading, FULL + 1)
    waiting.wait(1)
    for _ in range(200):
        reactor.advance(LOOK_EVERY_S)
        reading.untaken_bytes -= 1
    assert (reading.reason, waiting.begun) == ("", [])


def test_who_has_taken_an_answer_is_not_closed_when_the_next_one_is_as_large() -> None:
    reactor, room = room_with()
    waiting, reading = Waiting(room), Connected(room)
    room.holds(reading, FULL + 1)
    waiting.wait(1)
    for _ in range(100):
        reactor.advance(STALLED_S / 2)
        room.holds(reading, FULL + 1, True)
    assert (reading.reason, waiting.begun) == ("", [])


@pytest.mark.parametrize("is_full", [False, True])
def test_bytes_that_are_added_are_none_that_were_taken(is_full: bool) -> None:
    reactor, room = room_with()
    waiting, adding, honest = Waiting(room), Connected(room, is_full=is_full), Connected(room)
    room.holds(adding, FULL - MIB)
    room.holds(honest, MIB + 1)
    waiting.wait(1)
    for added in range(100):
        reactor.advance(LOOK_EVERY_S)
        honest.untaken_bytes += 1
        if not adding.reason:
            room.holds(adding, FULL - MIB + added)
    assert adding.reason
    assert honest.reason == ""
    assert waiting.begun == [1]


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
    peers = answer_room.MAX_WAITING // answer_room.MAX_WAITING_REQUESTS
    for peer in range(peers):
        for _ in range(answer_room.MAX_WAITING_REQUESTS):
            assert room.wait(peer, begin)
        assert not room.wait(peer, begin)
    assert not room.wait(peers, begin)
    room.forget(0)
    assert room.wait(peers, begin), "those of a closed connection take no places"


def test_peers_with_waiting_requests_take_turns() -> None:
    reactor, room = room_with()
    slow, many, one = Connected(room), Waiting(room), Waiting(room)
    one.begun = many.begun
    room.holds(slow, FULL + 1)
    many.wait(1, 2, 3)
    one.wait(9)
    room.holds(slow, 0)
    reactor.advance(0)
    assert many.begun == [1, 9, 2, 3]


# -- connections ------------------------------------------------------------------------------------------------


class Large:
    """Answers pops with as many bytes as it is told, and heartbeats with nothing."""

    def __init__(self, answer_bytes: int = 4 * MIB) -> None:
        self.answer_bytes = answer_bytes
        self.popped: list[int] = []
        self.dispatch = Dispatch()
        self.dispatch.answers_directly(POP, self._pop, EVERYBODY, Size.LARGE)
        self.dispatch.answers_directly(HEART_BEAT, lambda asked: asked.answer(ResponseCode.SUCCESS), EVERYBODY)

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


def test_a_request_that_nobody_has_a_place_for_is_answered_busy() -> None:
    large = Large()
    conversation = Conversation(large.dispatch, unsent_bytes_total=TOTAL)
    room, peer = conversation.server.room, conversation.connect()
    peer.transport.full()
    peer.send(request(POP, opaque=1), request(POP, opaque=2))
    unread(conversation, 10)
    for other in range(answer_room.MAX_WAITING // answer_room.MAX_WAITING_REQUESTS):
        for _ in range(answer_room.MAX_WAITING_REQUESTS):
            assert room.wait(other, list[int]().clear)
    unread(conversation, 3)
    peer.transport.empty()
    conversation.server.flush_group.flush()
    assert [(answer.opaque, answer.code) for answer in peer.received()] == [
        (1, ResponseCode.SUCCESS),
        (2, ResponseCode.SYSTEM_BUSY),
    ]


def test_requests_of_a_closed_connection_leave_their_places_to_others() -> None:
    large = Large(100)
    conversation = Conversation(large.dispatch, unsent_bytes_total=TOTAL)
    unread(conversation, 13)
    many, others = answer_room.MAX_WAITING_REQUESTS, answer_room.MAX_WAITING - answer_room.MAX_WAITING_REQUESTS
    first, last = conversation.connect(), conversation.connect()
    for number in range(others):
        assert conversation.server.room.wait(number // many, list[int]().clear)
    for _ in range(many):
        assert first.channel.when_room(list[int]().clear)
    assert last.ask(POP).code == ResponseCode.SYSTEM_BUSY
    first.leave()
    assert last.ask_all(POP) == []


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
