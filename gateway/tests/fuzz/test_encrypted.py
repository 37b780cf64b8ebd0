"""The fuzzer's TLS against a server in memory: whatever it sends, others are served and nothing stays."""

from __future__ import annotations

import logging
from random import Random

import pytest

from gateway.client import AdminClient
from gateway.client.testing.server import GatewayServer
from gateway.tests.fuzz.encrypted import Encryption, faulty
from gateway.tests.fuzz.journal import ENCRYPTED, INSIDE, Entry, replay
from gateway.tests.remoting.conversation import Conversation, Peer
from gateway.tests.remoting.tls.speaking import CODE, echoing, encrypted
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame

FRAME = build_frame(RemotingCommand(CODE, opaque=1, body=b"asked"))


def taken(peer: Peer) -> bytes:
    written, peer.transport.writes[:] = b"".join(peer.transport.writes), []
    return written


def opened(talk: Conversation, random: Random) -> tuple[Peer, Encryption]:
    """A connection after its handshake."""
    peer, encryption = talk.connect(), Encryption(random)
    peer.send_bytes(encryption.begun())
    while not encryption._is_done():
        encryption._connection.bio_write(taken(peer))
        if encryption._is_done():
            break
        peer.send_bytes(encryption._made())
    peer.send_bytes(encryption._made() + encryption.seal(FRAME))
    assert [answer.body for answer in Connection().receive_data(encryption.unseal(taken(peer)))] == [b"asked"]
    return peer, encryption


@pytest.mark.parametrize("part", range(8))
def test_what_is_wrong_in_tls_costs_its_own_connection_at_most(part: int, caplog: pytest.LogCaptureFixture) -> None:
    talk = Conversation(echoing()[0])
    honest = encrypted(talk, host="192.0.2.8")
    with caplog.at_level(logging.ERROR):
        for seed in range(part * 40, part * 40 + 40):
            random = Random(seed)
            broken = talk.connect()
            broken.send_bytes(faulty(Encryption(random).begun(), random) or b"\x16")
            peer, encryption = opened(talk, random)
            sealed = encryption.seal(FRAME)
            for data in (
                encryption.renegotiation() if seed % 3 == 0 else faulty(sealed, random),
                encryption.seal(FRAME),
            ):
                if data:
                    peer.send_bytes(data)
            honest.send(b"%d" % seed)
            assert honest.received() == [b"%d" % seed]
            for each in (broken, peer):
                each.leave()
    assert caplog.messages == []
    assert talk.server.incomplete_frames.total_bytes == 0
    assert len(talk.server.channels) == 1


def test_a_journal_is_sent_again_over_tls() -> None:
    ask = build_frame(RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=1))
    with GatewayServer() as server:
        host, _, port = server.nameserver.rpartition(":")
        entries = [
            Entry(1, "nameserver", ask),
            Entry(2, "nameserver" + ENCRYPTED, ask),
            Entry(2, "nameserver" + INSIDE, b"garbage" * 10),
            Entry(1, "nameserver", None),
            Entry(2, "nameserver", None),
        ]
        replay(entries, {"nameserver": (host, int(port))})
        with AdminClient(namesrv=server.nameserver) as admin:
            admin.topics.list()  # answered after what was sent before
        assert server.log.read_text().count("malformed TLS bytes") == 1
