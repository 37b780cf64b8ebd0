"""A connection whose commands take long lets the others have their turn before it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.remoting.declared import EVERYBODY
from gateway.remoting.dispatch import Dispatch, Request
from gateway.remoting.input_turn import QUICK_READS
from gateway.tests.remoting.conversation import Conversation, request
from wire.codes import RequestCode, ResponseCode
from wire.command import ONEWAY_FLAG

COSTLY, QUICK = RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_BROKER_CONFIG
COUNT = 100


class Server:
    """Answers costly commands, each of which takes ten milliseconds, and quick ones."""

    def __init__(self) -> None:
        dispatch = Dispatch()
        dispatch.answers_directly(COSTLY, self._costly, EVERYBODY)
        dispatch.answers_directly(QUICK, lambda request: request.answer(ResponseCode.SUCCESS), EVERYBODY)
        self.conversation = Conversation(dispatch)
        self.body = b""
        self.done = 0

    def _costly(self, request: Request) -> None:
        self.conversation.reactor.rightNow += 0.01
        self.done += 1
        request.answer(ResponseCode.SUCCESS, body=self.body)

    def turn(self) -> None:
        """One turn of the reactor: what is due at its begin."""
        reactor: Any = self.conversation.reactor
        due = [call for call in reactor.getDelayedCalls() if call.getTime() <= reactor.seconds()]
        for call in due:
            reactor.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)


@pytest.fixture
def server() -> Server:
    return Server()


def test_others_are_answered_between_the_commands_of_one_connection(server: Server) -> None:
    greedy, other = server.conversation.connect(), server.conversation.connect()
    assert all(other.ask(QUICK).code == ResponseCode.SUCCESS for _ in range(QUICK_READS))
    greedy.send(*(request(COSTLY, opaque=number) for number in range(COUNT)))
    assert server.done == 8
    assert not greedy.transport.reads
    seen: list[int] = []
    turns = 0
    while server.done < COUNT:
        other.send(request(QUICK))
        before = server.done
        server.turn()
        assert server.done - before <= 3, "costly ones are carried out one or two at a time"
        assert [answer.code for answer in other.received()] == [ResponseCode.SUCCESS]
        seen += [answer.opaque for answer in greedy.received()]
        turns += 1
    assert seen == list(range(COUNT))
    assert turns >= (COUNT - 8) // 3
    assert greedy.transport.reads


def test_quick_commands_are_carried_out_at_once(server: Server) -> None:
    peer = server.conversation.connect()
    peer.send(*(request(QUICK, opaque=number) for number in range(COUNT)))
    assert [answer.opaque for answer in peer.received()] == list(range(COUNT))


def test_what_comes_meanwhile_waits_behind(server: Server) -> None:
    peer = server.conversation.connect()
    peer.send(*(request(COSTLY, opaque=number) for number in range(20)))
    peer.send(request(QUICK, opaque=20))
    for _ in range(20):
        server.turn()
    assert [answer.opaque for answer in peer.received()] == list(range(21))


def test_after_the_end_of_a_connection_only_what_expects_no_answer_is_carried_out(server: Server) -> None:
    peer = server.conversation.connect()
    peer.send(*(request(COSTLY, opaque=number, flag=ONEWAY_FLAG * (number % 2)) for number in range(30)))
    assert server.done == 8
    peer.leave()
    assert server.done == 8
    for _ in range(20):
        server.turn()
    assert server.done == 8 + 11


def test_a_peer_that_does_not_read_is_waited_for_as_well(server: Server) -> None:
    server.body = b"x" * 200_000
    peer = server.conversation.connect()
    peer.transport.full()
    peer.send(*(request(COSTLY, opaque=number) for number in range(20)))
    for _ in range(5):
        server.turn()
    assert server.done < 20
    peer.transport.empty()
    for _ in range(20):
        server.turn()
        peer.received()
    assert server.done == 20
    assert peer.transport.reads
