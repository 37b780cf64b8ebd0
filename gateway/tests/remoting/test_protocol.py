"""Bytes of a connection: half frames, several frames, and what is no frame at all."""

from __future__ import annotations

import struct

import pytest

from gateway.remoting.declared import EVERYBODY
from gateway.remoting.dispatch import Dispatch, Request
from gateway.tests.remoting.conversation import Conversation, request
from wire.codes import RequestCode, ResponseCode
from wire.command import ONEWAY_FLAG
from wire.frame import build_frame

CODE = RequestCode.GET_CONSUMER_LIST_BY_GROUP


def echoing() -> Dispatch:
    dispatch = Dispatch()

    def echo(received: Request) -> None:
        received.answer(ResponseCode.SUCCESS, body=received.command.body)

    dispatch.answers_directly(CODE, echo, EVERYBODY)
    return dispatch


def test_a_frame_that_comes_byte_by_byte_is_answered_when_it_is_whole() -> None:
    peer = Conversation(echoing()).connect()
    frame = build_frame(request(CODE, body=b"slow"))
    for position in range(len(frame) - 1):
        peer.send_bytes(frame[position : position + 1])
    assert peer.received() == []
    peer.send_bytes(frame[-1:])
    assert [command.body for command in peer.received()] == [b"slow"]


def test_all_requests_of_one_read_are_answered_with_one_write() -> None:
    peer = Conversation(echoing()).connect()
    peer.send(*(request(CODE, opaque=opaque) for opaque in range(50)))
    assert len(peer.transport.writes) == 1


def test_answers_made_in_a_read_do_not_wait_for_the_next_turn() -> None:
    conversation = Conversation(echoing())
    peer = conversation.connect()
    scheduled = len(conversation.reactor.getDelayedCalls())
    assert peer.ask(CODE, body=b"now").body == b"now"
    assert len(conversation.reactor.getDelayedCalls()) == scheduled


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("garbage", bytes(range(200, 256)) * 4),
        ("an HTTP request", b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
        ("a length of 2 GiB", struct.pack(">II", 0x7FFFFFFF, 10) + bytes(100)),
        ("a negative length", struct.pack(">iI", -1, 10) + bytes(100)),
        ("a length of zero", bytes(8)),
        ("a header longer than its frame", struct.pack(">II", 20, 500) + bytes(500)),
        ("an unknown serialize type", struct.pack(">II", 20, 9 << 24 | 4) + bytes(16)),
        ("a header that is no JSON", struct.pack(">II", 8, 4) + b"oops"),
    ],
)
def test_malformed_bytes_end_the_connection_without_an_answer(name: str, data: bytes) -> None:
    conversation = Conversation(echoing())
    peer, other = conversation.connect(), conversation.connect()
    peer.send_bytes(data)
    assert peer.channel.closed, name
    assert peer.transport.writes == []
    assert other.ask(CODE, body=b"still here").body == b"still here"
    peer.send_bytes(build_frame(request(CODE)))
    assert peer.transport.writes == []


def test_good_requests_before_malformed_bytes_are_still_answered() -> None:
    peer = Conversation(echoing()).connect()
    peer.send_bytes(build_frame(request(CODE, body=b"good")) + b"\xff" * 20)
    assert [command.body for command in peer.received()] == [b"good"]
    assert peer.channel.closed


def test_a_frame_over_the_setting_is_refused_before_it_is_kept() -> None:
    peer = Conversation(echoing(), max_frame_bytes=65_536).connect()
    peer.send_bytes(build_frame(request(CODE, body=bytes(70_000)))[:100])
    assert peer.channel.closed


def test_bytes_after_our_own_close_are_ignored() -> None:
    peer = Conversation(echoing()).connect()
    peer.channel.close("enough")
    peer.send(request(CODE))
    assert peer.received() == []


def test_requests_wait_while_their_peer_does_not_read_the_answers() -> None:
    peer = Conversation(echoing(), unsent_bytes_limit=1 << 20).connect()
    peer.transport.full()
    peer.send(*(request(CODE, opaque=opaque, body=bytes(8_192)) for opaque in range(200)))  # 1.6 MB of answers
    assert not peer.channel.closed
    assert not peer.transport.reads
    assert 0 < peer.channel.unsent_bytes < 100_000
    peer.send(request(CODE, opaque=200))  # was on its way when the server stopped reading
    peer.transport.empty()
    assert [answer.opaque for answer in peer.received()] == list(range(201))
    assert peer.transport.reads
    peer.transport.full()
    peer.transport.empty()
    assert peer.received() == []


def test_of_waiting_requests_those_without_an_answer_outlive_their_connection() -> None:
    carried_out: list[int] = []
    dispatch = Dispatch()

    def answer(received: Request) -> None:
        carried_out.append(received.command.opaque)
        received.answer(ResponseCode.SUCCESS, body=bytes(8_192))

    dispatch.answers_directly(CODE, answer, EVERYBODY)
    peer = Conversation(dispatch, unsent_bytes_limit=1 << 20).connect()
    peer.transport.full()
    peer.send(*(request(CODE, opaque=opaque, flag=ONEWAY_FLAG * (opaque % 10 == 9)) for opaque in range(200)))
    before = len(carried_out)
    assert before < 150
    peer.channel.abort("gone")
    peer.transport.empty()
    assert carried_out[before:] == [opaque for opaque in range(before, 200) if opaque % 10 == 9]
