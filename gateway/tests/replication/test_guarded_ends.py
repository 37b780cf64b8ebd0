"""The connection of a slave with TLS and tokens: both ends are real, the bytes between them are moved by hand."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock, StringTransport

from gateway.errors import GatewayError
from gateway.remoting.client import RemotingClient
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.server import RemotingServer
from gateway.remoting.tls.makers import LinkMakers, no_link
from gateway.replication.master.copies import Copies
from gateway.replication.master.port import MAX_SILENT_CONNECTIONS, SlavePort
from gateway.replication.master.talk import ClassicTalk
from gateway.replication.master.tokens import TOKEN_S
from gateway.replication.slave.entering import WayIn, way_in
from gateway.replication.slave.line import MasterLine
from gateway.replication.slave.talk import ClassicMasterTalk
from gateway.settings import Address, Settings
from gateway.settings.tls import ClientCertificates, OwnCalls, TlsMode
from gateway.tests.remoting.conversation import outcome
from gateway.tests.remoting.tls.speaking import files_of, signed
from gateway.tests.replication.around import surroundings
from gateway.tests.replication.master.test_port import Log, Wire, facts_of
from gateway.tests.replication.master.test_tokens import counted
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.admin import EnterReplicaRequest
from wire.headers.declare import Header, build_header
from wire.replication.classic import Stretch, build_report
from wire.replication.entry import build_entry

MASTER, HOST = Address("10.0.0.1", 10911), "10.0.0.2"
KEYS = '{"accessKey": "inner", "secretKey": "secret"}'
TLS: dict[str, Any] = {"tls_mode": TlsMode.ENFORCING}
ACCOUNTS: dict[str, Any] = {"authentication_enabled": True, "inner_client_authentication_credentials": KEYS}


class Intake:
    """What came in."""

    is_full = False
    next_offset = 0

    def __init__(self) -> None:
        self.data = b""

    def take(self, stretch: Stretch) -> None:
        self.data += stretch.body

    def close(self) -> None:
        pass


class Slave:
    """A slave's end, and the connection to the master's."""

    def __init__(self, master: Master, entry: WayIn, settings: Settings) -> None:
        self.reason = ""
        self.intake = Intake()
        self.client = RemotingClient(master.reactor, Dispatch(), settings)
        seal = self.client.link if entry.with_tls else None
        make_intake: Any = lambda *_: self.intake  # noqa: E731
        owner: Any = self
        self.near: Any = MasterLine(owner, ClassicMasterTalk(), make_intake, seal, entry.first_bytes)
        self.far: Any = master.port.buildProtocol(None)
        self.wires: tuple[Any, Any] = Wire(MASTER.host), Wire(HOST)
        self.far.makeConnection(self.wires[1])  # type: ignore[no-untyped-call]
        self.near.makeConnection(self.wires[0])  # type: ignore[no-untyped-call]
        self.seen = b""
        self.carry()

    def carry(self) -> None:
        """Move bytes until both ends are silent."""
        for _ in range(40):
            moved = [wire.value() for wire in self.wires]
            for wire in self.wires:
                wire.clear()
            self.seen += b"".join(moved)
            if not any(moved):
                break
            for data, end in zip(moved, (self.far, self.near), strict=True):
                if data and not end.is_closed:
                    end.dataReceived(data)

    def opened(self, line: MasterLine) -> None: ...

    def heard(self) -> None: ...

    def closed(self, reason: str) -> None:
        self.reason = reason

    def report_end(self) -> int:
        return 0

    def seconds(self) -> float:
        return 0.0


class Master:
    """A port with a log of three records."""

    def __init__(self, **changed: Any) -> None:
        self.settings = Settings(**changed)
        self.reactor = MemoryReactorClock()  # type: ignore[no-untyped-call]
        self.log = Log()
        self.log.data = b"0123456789" * 3
        self.server = RemotingServer(self.reactor, Dispatch(), [], self.settings)
        self.port = SlavePort(
            self.log,
            Copies(1, 1 << 20),
            self.settings,
            surroundings(
                reactor=self.reactor,
                random_bytes=counted(),
                links=LinkMakers(lambda *connection: self.server.first_byte.link(*connection), no_link),
            ),
            self,
            lambda: None,
        )
        self.port.start("127.0.0.1", 10_912)

    async def members(self) -> Mapping[int, str]:
        return {0: "10.0.0.1:10911", 1: f"{HOST}:10911", 2: f"{HOST}:10921"}

    async def compare(self, peer: Address, place: int) -> str | None:
        raise AssertionError((peer, place))

    async def call(self, address: Address, code: int, header: Header | None) -> RemotingCommand:
        assert (address, code) == (MASTER, RequestCode.GATEWAY_ENTER_REPLICA)
        assert isinstance(header, EnterReplicaRequest)
        fields = build_header(self.port.entry(HOST, header.broker_id))
        return RemotingCommand(ResponseCode.SUCCESS, ext_fields=fields)

    def entry(self, **changed: Any) -> tuple[WayIn, Settings]:
        """Return what a slave learns by asking, and its settings."""
        settings = Settings(broker_id=1, **changed)
        return outcome(way_in(MASTER, settings, self.call))[0], settings

    def slave(self, **changed: Any) -> Slave:
        return Slave(self, *self.entry(**changed))

    def stranger(self, *data: bytes) -> StringTransport:
        """Return the wire of a peer that sends plain bytes."""
        line, wire = self.port.buildProtocol(None), Wire(HOST)
        line.makeConnection(wire)  # type: ignore[no-untyped-call]
        for piece in data:
            if not line.is_closed:
                line.dataReceived(piece)
        return wire


def test_the_log_travels_over_tls_where_both_ends_speak_it() -> None:
    for mode in (TlsMode.ENFORCING, TlsMode.PERMISSIVE):
        master = Master(tls_mode=mode)
        slave = master.slave(tls_own_calls=OwnCalls.TRUE)
        assert slave.intake.data == master.log.data
        assert b"0123456789" not in slave.seen
        assert [line.broker_id for line in master.port.lines] == [1]
        master.log.data += b"abcdefghij" * 200_000
        master.port.follow()
        slave.carry()
        assert slave.intake.data == master.log.data


def test_a_slave_is_plain_as_its_other_calls_are_or_where_the_master_has_no_tls() -> None:
    for mode, own in ((TlsMode.PERMISSIVE, OwnCalls.FALSE), (TlsMode.DISABLED, OwnCalls.TRUE)):
        master = Master(tls_mode=mode)
        slave = master.slave(tls_own_calls=own)
        assert slave.intake.data == master.log.data
        assert b"0123456789" in slave.seen


def test_a_port_that_enforces_tls_drops_plain_bytes_and_names_the_peer_once(caplog: pytest.LogCaptureFixture) -> None:
    master = Master(**TLS)
    with caplog.at_level(logging.WARNING):
        wires = [master.stranger(build_report(0)) for _ in range(3)]
    assert all(wire.aborted and not wire.value() for wire in wires)  # type: ignore[attr-defined, no-untyped-call]
    (facts,) = facts_of(caplog)
    assert facts["peer"] == f"{HOST}:40000"
    assert "speaks no TLS" in facts["reason"]
    assert "gateway.replicaHosts" in facts["reason"]


def test_a_listed_address_may_stay_plain_and_needs_no_token() -> None:
    master = Master(replica_hosts=HOST, **TLS, **ACCOUNTS)
    assert b"0123456789" in master.stranger(build_report(0)).value()  # type: ignore[no-untyped-call]


def test_a_handshake_where_tls_is_off_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    master = Master(tls_mode=TlsMode.DISABLED)
    with caplog.at_level(logging.WARNING):
        assert master.stranger(b"\x16\x03\x01").aborted  # type: ignore[attr-defined]
    assert "switched off" in facts_of(caplog)[0]["reason"]


def test_a_handshake_that_is_not_done_in_time_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    master = Master(tls_handshake_timeout_ms=500, **TLS)
    wire: Any = master.stranger(b"\x16\x03\x01\x02\x00")
    assert not wire.aborted
    assert master.server.incomplete_frames.total_bytes > 0
    with caplog.at_level(logging.WARNING):
        master.reactor.advance(0.6)
    assert wire.aborted
    assert master.server.incomplete_frames.total_bytes == 0
    assert "gateway.tlsHandshakeTimeoutMs" in facts_of(caplog)[0]["reason"]


def test_peers_that_say_nothing_give_way_and_are_closed_in_the_end() -> None:
    master = Master(ha_housekeeping_interval_ms=1_000, **TLS, **ACCOUNTS)
    wires: list[Any] = [master.stranger() for _ in range(MAX_SILENT_CONNECTIONS + 2)]
    assert [wire.aborted for wire in wires] == [True, True] + [False] * MAX_SILENT_CONNECTIONS
    for _ in range(3):
        master.reactor.advance(1.0)
    assert all(wire.aborted for wire in wires)


def test_bytes_of_an_entry_one_by_one_are_no_sign_of_life() -> None:
    master = Master(ha_housekeeping_interval_ms=1_000, **ACCOUNTS)
    line, wire = master.port.buildProtocol(None), Wire(HOST)
    line.makeConnection(wire)  # type: ignore[no-untyped-call]
    for byte in build_entry(bytes(32))[:6]:
        if not line.is_closed:
            line.dataReceived(bytes([byte]))
        master.reactor.advance(0.5)
    assert wire.aborted


def test_certificates_are_asked_for_and_verified_as_at_the_other_ports(tmp_path: Path) -> None:
    ours, others = signed(tmp_path, "ours"), signed(tmp_path, "others")
    server, caller = signed(tmp_path, "server", by=ours), signed(tmp_path, "caller", by=ours)
    master = Master(
        **TLS,
        **files_of(server),
        tls_authorities=str(ours.certificate_file),
        tls_client_certificates=ClientCertificates.REQUIRE,
    )
    shown: dict[str, Any] = {"tls_own_calls": OwnCalls.TRUE, "tls_own_certificate": str(caller.certificate_file)}
    shown["tls_own_key"] = str(caller.key_file)
    assert master.slave(**shown, tls_trusted_servers=str(ours.certificate_file)).intake.data == master.log.data
    wary = master.slave(**shown, tls_trusted_servers=str(others.certificate_file))
    assert wary.intake.data == b""
    assert wary.wires[0].disconnecting
    bare = master.slave(tls_own_calls=OwnCalls.TRUE)
    assert bare.intake.data == b""
    assert bare.wires[1].disconnecting


def test_a_token_lets_a_slave_in_and_says_which_one_it_is() -> None:
    for tls in ({}, {"tls_own_calls": OwnCalls.TRUE}):
        master = Master(**ACCOUNTS)
        slave = master.slave(inner_client_authentication_credentials=KEYS, **tls)
        assert slave.intake.data == master.log.data
        assert [line.broker_id for line in master.port.lines] == [1]
    master = Master(**ACCOUNTS)
    entry, settings = master.entry(inner_client_authentication_credentials=KEYS)
    second = Slave(
        master, WayIn(first_bytes=build_entry(bytes.fromhex(str(master.port.entry(HOST, 2).token)))), settings
    )
    Slave(master, entry, settings)
    assert not second.far.is_closed
    assert [line.broker_id for line in master.port.lines] == [2, 1]


def test_a_slave_that_no_name_server_lists_yet_is_not_taken_for_another_one_at_its_host(
    caplog: pytest.LogCaptureFixture,
) -> None:
    master = Master(**ACCOUNTS)
    first = master.slave(inner_client_authentication_credentials=KEYS)
    token = bytes.fromhex(str(master.port.entry(HOST, 3).token))
    with caplog.at_level(logging.WARNING):
        third = Slave(master, WayIn(first_bytes=build_entry(token)), Settings())
    assert (first.far.broker_id, first.far.is_closed, third.intake.data) == (1, False, b"")
    assert "it is broker 3, and no name server lists" in facts_of(caplog)[0]["reason"]


class Claiming(ClassicTalk):
    """A slave that says who it is, as those of a group with a controller do."""

    claimed_id: Any = 2


def test_a_slave_that_says_it_is_another_than_its_token_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    master = Master(**ACCOUNTS)
    master.port.make_talk = Claiming
    with caplog.at_level(logging.WARNING):
        assert master.slave(inner_client_authentication_credentials=KEYS).intake.data == b""
    assert "it is broker 2, and its token is that of broker 1" in facts_of(caplog)[0]["reason"]


def test_without_a_token_that_counts_nothing_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    master = Master(**ACCOUNTS)
    entry, settings = master.entry(inner_client_authentication_credentials=KEYS)
    with caplog.at_level(logging.WARNING):
        assert Slave(master, WayIn(), settings).intake.data == b""
        assert Slave(master, WayIn(first_bytes=build_entry(b"x" * 32)), settings).intake.data == b""
    said = [facts["reason"] for facts in facts_of(caplog)]
    assert ["shows no token" in said[0], "gateway.replicaHosts" in said[0], "used already" in said[1]] == [True] * 3
    assert Slave(master, entry, settings).intake.data == master.log.data
    assert Slave(master, entry, settings).intake.data == b"", "used"
    late, settings = master.entry(inner_client_authentication_credentials=KEYS)
    master.reactor.advance(TOKEN_S)
    assert Slave(master, late, settings).intake.data == b""


def test_a_token_read_on_the_way_is_worth_nothing_without_tls_if_its_slave_asked_over_tls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    master = Master(**ACCOUNTS)
    first_bytes = build_entry(bytes.fromhex(str(master.port.entry(HOST, 1, b"").token)))
    with caplog.at_level(logging.WARNING):
        assert not master.stranger(first_bytes + build_report(0)).value()  # type: ignore[no-untyped-call]
    assert "not given to its host or certificate" in facts_of(caplog)[0]["reason"]
    slave = Slave(master, WayIn(with_tls=True, first_bytes=first_bytes), Settings(tls_own_calls=OwnCalls.TRUE))
    assert slave.intake.data == master.log.data


def test_bytes_that_begin_like_an_entry_close_the_connection() -> None:
    assert Master(**ACCOUNTS).stranger(b"\xff\xff\xff").aborted  # type: ignore[attr-defined]


def test_an_entry_is_skipped_where_no_accounts_are_checked() -> None:
    master = Master()
    assert b"0123456789" in master.stranger(build_entry(bytes(32)) + build_report(0)).value()  # type: ignore[no-untyped-call]


def asked(answer: RemotingCommand, **changed: Any) -> Any:
    async def call(_address: Address, _code: int, _header: Header | None) -> RemotingCommand:
        return answer

    settings = Settings(broker_id=1, **changed)
    return outcome(way_in(MASTER, settings, call))[0]


def test_a_master_of_apache_rocketmq_is_entered_plain() -> None:
    unknown = RemotingCommand(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="request type 19009 not supported")
    assert asked(unknown, inner_client_authentication_credentials=KEYS, tls_own_calls=OwnCalls.TRUE) == WayIn()


def test_a_slave_without_keys_and_tls_asks_nothing() -> None:
    assert asked(RemotingCommand(ResponseCode.SYSTEM_ERROR)) == WayIn()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            RemotingCommand(ResponseCode.NO_PERMISSION, remark="not you"),
            "GATEWAY_ENTER_REPLICA with NO_PERMISSION: not",
        ),
        (RemotingCommand(ResponseCode.SUCCESS, ext_fields={"tls": "true", "token": "xyz"}), "no hexadecimal number"),
    ],
)
def test_a_refusal_and_nonsense_are_errors_that_say_why(answer: RemotingCommand, said: str) -> None:
    failure = asked(answer, inner_client_authentication_credentials=KEYS)
    assert isinstance(failure, GatewayError)
    assert said in str(failure)
