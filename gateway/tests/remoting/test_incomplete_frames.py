"""The limit of incomplete frames over all connections: who is dropped, and that every byte is given back."""

from __future__ import annotations

import logging

import pytest

from gateway.remoting.answers.held_bytes import HeldBytes
from gateway.remoting.declared import EVERYBODY
from gateway.remoting.dispatch import Dispatch, Request
from gateway.settings.remoting import RemotingSettings
from gateway.tests.remoting.conversation import Conversation, Peer, request
from wire.codes import RequestCode, ResponseCode
from wire.frame import build_frame

CODE = RequestCode.GET_BROKER_CLUSTER_INFO
LIMIT = 10_000
FRAME = build_frame(request(CODE, body=bytes(9_000)))


def limited(dispatch: Dispatch | None = None) -> Conversation:
    return Conversation(dispatch, incomplete_frame_bytes_limit=LIMIT)


def held(conversation: Conversation) -> int:
    return conversation.server.incomplete_frames.total_bytes


def holding(conversation: Conversation, count: int) -> Peer:
    """A peer that has sent this many bytes of its frame."""
    peer = conversation.connect()
    peer.send_bytes(FRAME[:count])
    return peer


def test_the_connection_with_the_most_bytes_is_dropped_with_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    conversation = limited()
    small, large, last = holding(conversation, 2_000), holding(conversation, 5_000), holding(conversation, 3_000)
    assert held(conversation) == LIMIT
    with caplog.at_level(logging.INFO, "gateway"):
        last.send_bytes(FRAME[3_000:3_001])
    assert [peer.channel.closed for peer in (small, large, last)] == [False, True, False]
    assert large.transport.disconnected
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "gateway.incompleteFrameBytesLimit" in str(record.__dict__["facts"])
    assert held(conversation) == 5_001
    last.send_bytes(FRAME[3_001:])
    assert len(last.received()) == 1
    assert held(conversation) == 2_000


def test_the_connection_that_exceeds_the_limit_is_dropped_when_it_holds_the_most() -> None:
    conversation = limited()
    other = holding(conversation, 4_000)
    greedy = holding(conversation, 6_001)
    assert (other.channel.closed, greedy.channel.closed) == (False, True)
    assert held(conversation) == 4_000


def test_whole_frames_and_those_completed_later_leave_nothing_behind() -> None:
    conversation = limited()
    peer = conversation.connect()
    peer.send_bytes(FRAME * 3)
    assert held(conversation) == 0
    peer.send_bytes(FRAME + FRAME[:100])
    assert held(conversation) == 100
    peer.send_bytes(FRAME[100:] + FRAME[:40])
    assert held(conversation) == 40
    peer.send_bytes(FRAME[40:])
    assert held(conversation) == 0
    assert len(peer.received()) == 6


def test_every_kind_of_end_gives_the_bytes_back() -> None:
    conversation = limited()
    left, closed, aborted, malformed = (holding(conversation, 1_000) for _ in range(4))
    left.leave()
    assert held(conversation) == 3_000
    closed.channel.close("enough")
    assert held(conversation) == 2_000
    aborted.channel.abort("enough")
    assert held(conversation) == 1_000
    malformed.send_bytes(FRAME[1_000:] + b"\xff" * 20)
    assert malformed.channel.closed
    assert held(conversation) == 0


def test_a_channel_closed_by_its_own_request_holds_nothing_of_the_next() -> None:
    dispatch = Dispatch()

    def hang_up(received: Request) -> None:
        received.answer(ResponseCode.SUCCESS)
        received.channel.close("enough")

    dispatch.answers_directly(CODE, hang_up, EVERYBODY)
    conversation = limited(dispatch)
    conversation.connect().send_bytes(FRAME + FRAME[:500])
    assert held(conversation) == 0


def test_a_stop_gives_everything_back() -> None:
    conversation = limited()
    for _ in range(3):
        holding(conversation, 1_000)
    conversation.server.stopService()
    assert held(conversation) == 0


def test_the_limit_that_is_shown_is_the_one_that_holds() -> None:
    settings = RemotingSettings()
    assert settings.incomplete_frame_bytes_limit == HeldBytes(settings.held_bytes_total).most_of_requests
