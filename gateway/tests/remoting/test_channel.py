"""One connection: what is gathered, pushed back, asked and closed."""

from __future__ import annotations

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.testing import MemoryReactorClock

from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.channel import CLOSE_GRACE_S, MAX_PENDING_CALLS, PAUSE_SHARE, Channel
from gateway.remoting.pending import CallTimeout, ChannelClosed, TooManyCalls
from gateway.settings import RemotingSettings
from gateway.tests.remoting.conversation import (
    Conversation,
    MemoryTransport,
    memory_reactor,
    outcome,
    request,
)
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.errors import LocalError
from wire.frame import MAX_FRAME_BYTES, build_frame, build_frame_head

UNSENT_LIMIT = 1 << 20
PAUSE_BYTES = UNSENT_LIMIT // PAUSE_SHARE


def channel_between(host: object, peer: object) -> Channel:
    return channel_over(MemoryTransport(host, peer), memory_reactor())


def channel_over(transport: MemoryTransport, reactor: MemoryReactorClock) -> Channel:
    group, settings = FlushGroup(reactor), RemotingSettings()
    room = AnswerRoom(reactor, group, settings.unsent_bytes_total)
    return Channel(transport, 1, flush_group=group, room=room, reactor=reactor, settings=settings)


def test_a_channel_knows_both_ends_also_packed() -> None:
    channel = Conversation().connect("192.0.2.7").channel
    assert channel.remote == ("192.0.2.7", 50_001)
    assert channel.remote_text == "192.0.2.7:50001"
    assert channel.remote_host == bytes([192, 0, 2, 7]) + (50_001).to_bytes(4, "big")
    assert channel.local == ("10.0.0.1", 10911)
    assert channel.local_host == bytes([10, 0, 0, 1]) + (10911).to_bytes(4, "big")
    assert repr(channel) == "<Channel 1 192.0.2.7:50001>"


@pytest.mark.parametrize(
    ("address", "host", "packed_bytes"),
    [
        (IPv6Address("TCP", "::ffff:192.0.2.7", 1), "192.0.2.7", 8),
        (IPv6Address("TCP", "fe80::1%eth0", 1), "fe80::1", 20),
        (IPv6Address("TCP", "::ffff:c000:207", 1), "::ffff:c000:207", 8),
        (IPv4Address("TCP", "192.0.2.7", 1), "192.0.2.7", 8),
        (UNIXAddress(b"/run/x"), "0.0.0.0", 8),
    ],
)
def test_addresses_lose_what_records_cannot_keep(address: object, host: str, packed_bytes: int) -> None:
    channel = channel_between(address, address)
    assert channel.remote[0] == host
    assert len(channel.remote_host) == packed_bytes


def test_answers_of_one_turn_are_written_once() -> None:
    conversation = Conversation()
    peer = conversation.connect()
    peer.channel.send(request(opaque=1))
    peer.channel.send(request(opaque=2))
    assert peer.transport.writes == []
    conversation.reactor.advance(0)
    assert peer.transport.writes == [build_frame(request(opaque=1)) + build_frame(request(opaque=2))]


def test_parts_of_a_frame_are_joined_when_they_are_written() -> None:
    conversation = Conversation()
    peer = conversation.connect()
    body = memoryview(b"..records..")[2:-2]
    peer.channel.send_parts([build_frame_head(request(opaque=5), len(body)), body])
    peer.channel.send_parts([build_frame(request(opaque=6))])
    conversation.server.flush_group.flush()
    first, second = peer.received()
    assert (first.opaque, first.body, second.opaque) == (5, b"records", 6)


def test_a_lone_view_is_written_as_bytes() -> None:
    conversation = Conversation()
    peer = conversation.connect()
    peer.channel.send_parts([memoryview(build_frame(request(opaque=5)))])
    conversation.server.flush_group.flush()
    assert [command.opaque for command in peer.received()] == [5]


def test_a_command_that_cannot_be_framed_leaves_the_channel_as_it_was() -> None:
    channel = Conversation().connect().channel
    with pytest.raises(LocalError):
        channel.send(request(body=bytes(MAX_FRAME_BYTES)))
    assert channel.unsent_bytes == 0
    assert not channel.closed


def test_a_slow_reader_is_not_read_until_it_has_caught_up() -> None:
    conversation = Conversation(unsent_bytes_limit=UNSENT_LIMIT)
    peer = conversation.connect()
    peer.transport.full()
    peer.channel.send(request(body=bytes(PAUSE_BYTES)))
    conversation.reactor.advance(0)
    assert not peer.transport.reads
    assert peer.channel.unsent_bytes > PAUSE_BYTES
    assert peer.received() == []
    peer.transport.empty()
    assert peer.transport.reads
    assert peer.channel.unsent_bytes == 0
    assert len(peer.received()) == 1


def test_a_peer_that_never_reads_is_dropped() -> None:
    conversation = Conversation(unsent_bytes_limit=UNSENT_LIMIT)
    peer = conversation.connect()
    peer.transport.full()
    peer.channel.send(request(body=bytes(UNSENT_LIMIT)))
    conversation.reactor.advance(0)
    assert peer.channel.closed
    assert peer.transport.disconnected
    assert conversation.server.channels == {}


def test_a_call_is_answered_by_the_response_with_its_opaque() -> None:
    conversation = Conversation()
    peer = conversation.connect()
    seen = outcome(peer.channel.call(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, body=b"question"))
    conversation.server.flush_group.flush()
    (call,) = peer.received()
    assert (call.code, call.body, call.is_response) == (221, b"question", False)
    peer.send(call.response(0, body=b"answer"))
    (answer,) = seen
    assert isinstance(answer, RemotingCommand)
    assert answer.body == b"answer"


def test_a_call_without_answer_times_out_after_the_setting() -> None:
    conversation = Conversation(call_timeout_ms=500)
    peer = conversation.connect()
    seen = outcome(peer.channel.call(221))
    conversation.reactor.advance(0.5)
    assert isinstance(seen[0], CallTimeout)
    peer.send(RemotingCommand(0, opaque=1, flag=1))
    assert not peer.channel.closed


def test_a_call_fails_when_the_peer_leaves() -> None:
    peer = Conversation().connect()
    seen = outcome(peer.channel.call(221))
    peer.leave()
    assert str(seen[0]).startswith("the connection to 192.0.2.7:50001 is gone: ")
    (late,) = outcome(peer.channel.call(221))
    assert isinstance(late, ChannelClosed)


def test_calls_have_a_limit() -> None:
    peer = Conversation().connect()
    for _ in range(MAX_PENDING_CALLS):
        outcome(peer.channel.call(221))
    (refused,) = outcome(peer.channel.call(221))
    assert isinstance(refused, TooManyCalls)
    peer.leave()


def test_a_peer_that_does_not_keep_up_is_neither_called_nor_notified() -> None:
    conversation = Conversation(unsent_bytes_limit=UNSENT_LIMIT)
    peer = conversation.connect()
    peer.transport.full()
    peer.channel.send(request(body=bytes(PAUSE_BYTES)))
    assert not peer.channel.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    (refused,) = outcome(peer.channel.call(221))
    assert isinstance(refused, TooManyCalls)


def test_a_notice_is_a_oneway_request() -> None:
    conversation = Conversation()
    peer = conversation.connect()
    assert peer.channel.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, body=b"x")
    conversation.server.flush_group.flush()
    (notice,) = peer.received()
    assert (notice.code, notice.is_oneway, notice.body) == (40, True, b"x")


def test_a_closed_channel_drops_what_it_is_given() -> None:
    conversation = Conversation()
    peer = conversation.connect()
    peer.leave()
    peer.channel.send(request())
    peer.channel.send_parts([b"frame"])
    assert not peer.channel.notify(40)
    assert peer.channel.unsent_bytes == 0
    peer.channel.close("again")
    peer.channel.abort("again")
    conversation.server.flush_group.flush()
    assert peer.transport.writes == []


def test_closing_is_told_once_to_everyone_who_asked() -> None:
    peer = Conversation().connect()
    told: list[str] = []
    peer.channel.on_close(lambda channel: told.append("first"))
    peer.channel.on_close(lambda channel: told.append("second"))
    peer.leave()
    peer.channel.connection_lost("again")
    assert told == ["first", "second"]
    peer.channel.on_close(lambda channel: told.append("late"))
    assert told[-1] == "late"


def test_what_was_gathered_is_written_before_a_close() -> None:
    conversation = Conversation()
    peer = conversation.connect()
    peer.channel.send(request(opaque=9))
    peer.channel.close("enough")
    assert [command.opaque for command in peer.received()] == [9]
    assert conversation.server.channels == {}


class Stuck(MemoryTransport):
    """Closes only when it is aborted: its peer does not read."""

    def loseConnection(self) -> None:  # noqa: N802 (Twisted's name)
        self.disconnecting = True


def stuck_channel() -> tuple[MemoryReactorClock, Stuck, Channel]:
    reactor, transport = memory_reactor(), Stuck()
    return reactor, transport, channel_over(transport, reactor)


def test_a_closed_peer_that_does_not_read_is_aborted_after_a_grace_time() -> None:
    reactor, transport, channel = stuck_channel()
    channel.close("enough")
    assert transport.disconnecting
    assert not transport.disconnected
    reactor.advance(CLOSE_GRACE_S)
    assert transport.disconnected
    channel.connection_lost("gone")
    assert reactor.getDelayedCalls() == []


def test_the_grace_time_ends_when_the_connection_does() -> None:
    reactor, _, channel = stuck_channel()
    channel.close("enough")
    channel.connection_lost("gone")
    assert reactor.getDelayedCalls() == []
