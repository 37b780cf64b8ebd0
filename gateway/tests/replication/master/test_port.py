"""The port for slaves: who is admitted, what is sent, whose reports count, and which peers are closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import ensureDeferred
from twisted.internet.testing import MemoryReactorClock, StringTransport

from gateway.remoting.pending import CallFailed
from gateway.replication.master.copies import Copies
from gateway.replication.master.port import LEAST_WAIT_S, MAX_SLAVE_CONNECTIONS, SlavePort
from gateway.replication.master.sending import SlaveLine
from gateway.settings import Address, Settings
from gateway.tests.replication.around import surroundings
from wire.replication.classic import MAX_STRETCH_BODY_BYTES, Stretch, StretchReader, build_report

SLAVE = {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
RECORD = b"0123456789"


class Log:
    """A log of records of ten bytes that begins at ``begin``."""

    def __init__(self, begin: int = 0) -> None:
        self.min_commit_log_offset = begin
        self.data = b""
        self.gone = False

    @property
    def durable_end(self) -> int:
        return self.min_commit_log_offset + len(self.data)

    def log_bytes(self, start: int, limit: int) -> bytes | None:
        begin = start - self.min_commit_log_offset
        return None if self.gone else self.data[begin : begin + max(limit - limit % 10, 10)]


class Wire(StringTransport):
    """The transport of a connection, which notes how it ends."""

    def __init__(self, host: str) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", host, 40_000))  # type: ignore[no-untyped-call]
        self.no_delay = False
        self.aborted = False
        self.line: SlaveLine | None = None

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802 (Twisted's name)
        self.no_delay = enabled

    def abortConnection(self) -> None:  # noqa: N802 (Twisted's name)
        self.aborted = True


class Slave:
    """A peer at the port, as bytes."""

    def __init__(self, port: SlavePort, host: str) -> None:
        self.wire = Wire(host)
        self._reader = StretchReader()
        self.line = port.buildProtocol(None)
        self.line.makeConnection(self.wire)  # type: ignore[no-untyped-call]

    def report(self, end: int) -> None:
        self.line.dataReceived(build_report(end))

    def received(self) -> list[Stretch]:
        data: bytes = self.wire.value()  # type: ignore[no-untyped-call]
        self.wire.clear()  # type: ignore[no-untyped-call]
        return self._reader.receive_data(data)

    @property
    def is_closed(self) -> bool:
        return self.wire.aborted


class Master:
    """A port with a log, name servers and slaves that answer as the test says."""

    def __init__(self, begin: int = 0, **changed: Any) -> None:
        self.log = Log(begin)
        self.reactor = MemoryReactorClock()  # type: ignore[no-untyped-call]
        self.copies = Copies(1, 1 << 20)
        self.listed: Mapping[int, str] | None = SLAVE
        self.differs: Callable[[Address, int], str | None] = lambda _peer, _place: None
        self.compared: list[tuple[Address, int]] = []
        self.told = 0
        self.port = SlavePort(
            self.log,
            self.copies,
            Settings(ha_transfer_batch_bytes=30, **changed),
            surroundings(reactor=self.reactor),
            self,
            self._reported,
        )
        self.port.start("127.0.0.1", 10_912)

    async def members(self) -> Mapping[int, str] | None:
        return self.listed

    async def compare(self, peer: Address, place: int) -> str | None:
        self.compared.append((peer, place))
        return self.differs(peer, place)

    def _reported(self) -> None:
        self.told += 1

    def append(self, records: int = 1) -> None:
        self.log.data += RECORD * records
        self.port.follow()

    def connect(self, host: str = "10.0.0.2") -> Slave:
        return Slave(self.port, host)

    def joined(self, host: str = "10.0.0.2", at: int = 0) -> Slave:
        slave = self.connect(host)
        slave.report(at)
        return slave


def body(stretches: list[Stretch]) -> bytes:
    return b"".join(stretch.body for stretch in stretches)


def facts_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record)["facts"] for record in caplog.records]


# -- who is admitted ----------------------------------------------------------------------------------------


def test_a_peer_that_no_name_server_lists_is_closed_before_it_says_anything(caplog: pytest.LogCaptureFixture) -> None:
    master = Master()
    master.append()
    with caplog.at_level(logging.WARNING):
        strangers = [master.connect("10.0.0.9") for _ in range(3)]
    assert [(stranger.is_closed, stranger.received()) for stranger in strangers] == [(True, [])] * 3
    reason = "no name server lists a slave of this broker at its host"
    assert facts_of(caplog) == [{"peer": "10.0.0.9:40000", "reason": reason}]


@pytest.mark.parametrize("members", [None, {}, {0: "10.0.0.2:10911"}])
def test_nobody_is_admitted_while_no_name_server_lists_a_slave(members: Mapping[int, str] | None) -> None:
    master = Master()
    master.listed = members
    assert master.connect().is_closed


def test_the_setting_admits_a_host_that_nobody_lists_to_copy_but_not_to_count() -> None:
    master = Master(replica_hosts="10.0.0.0/24")
    master.append()
    slave = master.joined("10.0.0.9")
    assert body(slave.received()) == RECORD
    slave.report(10)
    assert (slave.is_closed, master.copies.replicated_end) == (False, 0)
    assert master.joined("10.0.0.9", at=10).is_closed, "there is nobody to ask for its records"


def test_the_setting_keeps_out_a_host_that_is_listed() -> None:
    assert Master(replica_hosts="192.168.0.0/16").connect().is_closed


def test_one_host_cannot_hold_all_connections(caplog: pytest.LogCaptureFixture) -> None:
    master = Master(replica_hosts="10.0.0.0/16")
    counted = master.joined()
    greedy = [master.joined("10.0.0.9") for _ in range(MAX_SLAVE_CONNECTIONS - 1)]
    with caplog.at_level(logging.WARNING):
        others = [master.joined(f"10.0.1.{number}") for number in range(3)]
    assert [slave.is_closed for slave in greedy[:4]] == [True, True, True, False]
    assert not any(slave.is_closed for slave in [counted, *others, *greedy[3:]])
    assert "64 connections at most, the oldest of a host gives way" in facts_of(caplog)[0]["reason"]


def test_the_addresses_of_one_ipv6_network_hold_connections_as_one_host() -> None:
    master = Master(replica_hosts="10.0.0.0/16,2001:db8::/32")
    counted, other = master.joined(), master.joined("10.0.1.1")
    greedy = [master.joined(f"2001:db8::{number:x}") for number in range(1, MAX_SLAVE_CONNECTIONS)]
    others = [master.joined(f"2001:db8:0:{number}::1") for number in (1, 2)]
    assert [slave.is_closed for slave in greedy[:4]] == [True, True, True, False]
    assert not any(slave.is_closed for slave in [counted, other, *others, *greedy[3:]])


def test_the_addresses_of_one_ipv6_network_are_refused_in_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    master = Master()
    with caplog.at_level(logging.WARNING):
        assert all(master.connect(f"2001:db8::{number}").is_closed for number in range(1, 4))
    assert [facts["peer"] for facts in facts_of(caplog)] == ["2001:db8::1:40000"]


def test_a_slave_that_counts_keeps_its_connection_whatever_its_host_opens() -> None:
    master = Master()
    counted = master.joined()
    greedy = []
    for _ in range(MAX_SLAVE_CONNECTIONS):
        greedy.append(master.connect())
        greedy[-1].line.dataReceived(bytes(1))
    assert (counted.is_closed, greedy[-1].is_closed) == (False, False)
    assert sum(not slave.is_closed for slave in [counted, *greedy]) == MAX_SLAVE_CONNECTIONS


def test_the_only_connection_of_a_host_does_not_give_way_to_another_host() -> None:
    master = Master(replica_hosts="10.0.0.0/16")
    slaves = [master.joined(f"10.0.1.{number}") for number in range(MAX_SLAVE_CONNECTIONS + 1)]
    assert [slave.is_closed for slave in slaves] == [False] * MAX_SLAVE_CONNECTIONS + [True]


# -- what is sent -------------------------------------------------------------------------------------------


def test_an_empty_slave_gets_the_log_from_its_first_file_on_and_what_comes_later() -> None:
    master = Master(begin=1_000)
    master.append(4)
    slave = master.joined()
    assert slave.received() == [Stretch(1_000, RECORD * 3), Stretch(1_030, RECORD)]
    assert master.compared == [], "an empty copy has nothing to compare"
    slave.report(1_040)
    assert (master.copies.replicated_end, slave.wire.no_delay) == (1_040, True)
    master.append()
    assert slave.received() == [Stretch(1_040, RECORD)]
    slave.report(1_050)
    assert master.copies.replicated_end == 1_050


def test_a_slave_goes_on_where_it_is_after_its_log_was_compared() -> None:
    master = Master()
    master.append(4)
    slave = master.joined(at=20)
    assert master.compared == [(Address("10.0.0.2", 10911), 20)]
    assert (slave.received(), master.copies.replicated_end) == ([Stretch(20, RECORD * 2)], 20)


def test_a_long_filler_is_sent_in_stretches_that_a_slave_can_hold() -> None:
    master = Master()
    master.log.data = bytes(MAX_STRETCH_BODY_BYTES + 10)
    master.log.log_bytes = lambda start, limit: master.log.data[start:]  # type: ignore[method-assign]
    stretches = master.joined().received()
    assert [len(stretch.body) for stretch in stretches] == [MAX_STRETCH_BODY_BYTES, 10]
    assert stretches[1].offset == MAX_STRETCH_BODY_BYTES


def test_nothing_is_read_while_the_connection_takes_nothing() -> None:
    master = Master()
    slave = master.joined()
    slave.line.pauseProducing()
    master.append()
    assert slave.received() == []
    slave.line.resumeProducing()
    assert body(slave.received()) == RECORD


def test_a_slave_whose_next_bytes_were_deleted_is_closed() -> None:
    master = Master()
    slave = master.joined()
    master.log.gone = True
    master.append()
    assert slave.is_closed


# -- which reports are believed -----------------------------------------------------------------------------


def test_an_acknowledgement_of_a_thousand_million_bytes_closes_and_counts_for_nothing() -> None:
    master = Master()
    master.append()
    stray = master.joined(at=1_000_000_000)
    assert (stray.is_closed, stray.received(), master.copies.replicated_end) == (True, [], 0)
    late = master.joined()
    late.report(1_000_000_000)
    assert (late.is_closed, master.copies.replicated_end) == (True, 0)


def test_a_slave_ahead_is_refused_with_both_offsets(caplog: pytest.LogCaptureFixture) -> None:
    master = Master()
    master.append(3)
    with caplog.at_level(logging.WARNING):
        slaves = [master.joined(at=50) for _ in range(3)]
        master.append()
        slaves.append(master.joined(at=50))
    assert all(slave.is_closed and not slave.received() for slave in slaves)
    (facts,) = facts_of(caplog)
    assert facts["reason"].startswith("the copy reaches to 50, and the master's log ends at 30")


def test_a_slave_with_another_log_is_refused_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    master = Master()
    master.append(3)
    master.differs = lambda _peer, _place: "its record at 10 is not the one that the log here has"
    with caplog.at_level(logging.WARNING):
        slave = master.joined(at=20)
    assert (slave.is_closed, slave.received(), master.copies.replicated_end) == (True, [], 0)
    (facts,) = facts_of(caplog)
    assert facts["reason"] == (
        "the slave 1 at 10.0.0.2:10911 reports 20 bytes, and its record at 10 is not the one that the log here has"
    )


def test_a_slave_that_cannot_be_asked_is_refused_until_it_can() -> None:
    master = Master()
    master.append(3)

    def fail(_peer: Address, _place: int) -> str | None:
        raise CallFailed("no answer")

    master.differs = fail
    assert master.joined(at=20).is_closed
    master.differs = lambda _peer, _place: None
    assert not master.joined(at=20).is_closed


def test_bytes_that_are_no_report_close() -> None:
    slave = Master().connect()
    slave.line.dataReceived(b"\xff" * 8)
    assert slave.is_closed


# -- who counts ---------------------------------------------------------------------------------------------


def test_a_new_connection_of_a_slave_replaces_the_one_before() -> None:
    master = Master()
    master.append()
    first = master.joined()
    first.report(10)
    second = master.joined(at=10)
    assert (first.is_closed, second.is_closed, master.copies.replicated_end) == (True, False, 10)
    master.append()
    assert second.received() == [Stretch(10, RECORD)]
    second.line.close("test")
    assert master.copies.replicated_end == 0


def test_slaves_that_share_a_host_are_told_apart_by_their_logs() -> None:
    master = Master()
    master.listed = {1: "10.0.0.2:10911", 2: "10.0.0.2:10921"}
    master.append(3)
    master.differs = lambda peer, _place: None if peer.port == 10921 else "it differs"
    slave = master.joined(at=20)
    assert [line.broker_id for line in master.port.lines] == [2]
    master.differs = lambda _peer, _place: None
    other = master.joined(at=20)
    assert not slave.is_closed
    assert not other.is_closed
    assert [line.broker_id for line in master.port.lines] == [2, 1]


# -- silence ------------------------------------------------------------------------------------------------


def test_signs_of_life_go_out_and_silent_peers_are_closed() -> None:
    master = Master()
    master.append()
    slave, silent = master.joined(), master.connect()
    slave.received()
    for _ in range(6):
        master.reactor.pump([1] * 4)
        slave.report(10)
    assert not slave.is_closed
    assert silent.is_closed
    beats = slave.received()
    assert set(beats) == {Stretch(10, b"")}
    assert 4 <= len(beats) <= 5
    master.reactor.pump([1] * 25)
    assert slave.is_closed
    assert master.copies.replicated_end == 0


# -- flow control -------------------------------------------------------------------------------------------


def test_a_slave_gets_so_many_bytes_in_a_second_and_signs_of_life_beside_them() -> None:
    master = Master(ha_flow_control_enable=True, max_ha_transfer_bytes_in_second=40)
    master.append(15)
    slave = master.joined()

    got = [len(body(slave.received()))]
    for _ in range(4):
        master.reactor.advance(1.0)
        got.append(len(body(slave.received())))
    assert got == [40, 40, 40, 30, 0]


def test_without_bytes_in_a_second_only_signs_of_life_go() -> None:
    master = Master(ha_flow_control_enable=True, max_ha_transfer_bytes_in_second=0)
    master.append(3)
    slave = master.joined()

    master.reactor.pump([1.0] * 12)
    assert {stretch.body for stretch in slave.received()} == {b""}
    assert not slave.is_closed


def test_a_record_that_is_longer_than_a_second_takes_is_sent_and_paid_for() -> None:
    master = Master(ha_flow_control_enable=True, max_ha_transfer_bytes_in_second=4)
    master.append(3)
    slave = master.joined()

    got = []
    for _ in range(8):
        got.append(len(body(slave.received())))
        master.reactor.advance(1.0)
    assert got == [10, 0, 10, 0, 0, 10, 0, 0]


def test_what_was_sent_without_a_limit_is_not_paid_for() -> None:
    master = Master(max_ha_transfer_bytes_in_second=20)
    master.append(50)
    slave = master.joined()
    assert len(body(slave.received())) == 500

    object.__setattr__(master.port._settings, "ha_flow_control_enable", True)
    master.append(5)
    assert len(body(slave.received())) == 20
    master.reactor.advance(1.0)
    assert len(body(slave.received())) == 20


def test_a_slave_for_which_nobody_waits_gets_the_commits_of_a_moment_at_once() -> None:
    master = Master()
    slave = master.joined()
    slave.received()
    for _ in range(3):
        master.log.data += RECORD
        master.port.follow_later()
        assert slave.received() == []
    master.reactor.advance(LEAST_WAIT_S)
    assert [len(stretch.body) for stretch in slave.received()] == [30]


@pytest.mark.parametrize(("hurries", "at_once"), [(True, [30, 10]), (False, [30])])
def test_what_is_stored_while_the_log_is_read_waits_a_moment_if_nobody_waits_for_slaves(
    hurries: bool, at_once: list[int]
) -> None:
    master = Master()
    master.port.hurries = hurries
    slave = master.joined()
    slave.received()
    read, appended = master.log.log_bytes, [RECORD]

    def read_while_a_message_comes(start: int, limit: int) -> bytes | None:
        data = read(start, limit)
        master.log.data += appended.pop() if appended else b""
        return data

    master.log.log_bytes = read_while_a_message_comes  # type: ignore[method-assign]
    master.append(3)
    assert [len(stretch.body) for stretch in slave.received()] == at_once
    master.reactor.advance(LEAST_WAIT_S)
    assert sum(at_once) + sum(len(stretch.body) for stretch in slave.received()) == 40


class Batch:
    """The records that a log has from an offset on, in one file or not."""

    def __init__(self, log: Log, start: int) -> None:
        self.start = start
        self._content = log.data[start:]

    def content(self, limit: int) -> bytes | None:
        return self._content if len(self._content) <= limit else None


@pytest.mark.parametrize(
    ("lacks", "stored", "limit", "reads"),
    [
        pytest.param(0, 2, {}, 0, id="only the batch"),
        pytest.param(1, 2, {}, 1, id="a record before"),
        pytest.param(0, 6, {}, 2, id="a batch too large"),
        pytest.param(
            0, 2, {"ha_flow_control_enable": True, "max_ha_transfer_bytes_in_second": 90}, 1, id="a limited pace"
        ),
    ],
)
def test_a_slave_that_lacks_the_newest_batch_alone_gets_it_without_a_read_of_the_log(
    lacks: int, stored: int, limit: dict[str, Any], reads: int
) -> None:
    master = Master(**limit)
    slave = master.joined()
    read, seen = master.log.log_bytes, []

    def count(start: int, limit: int) -> bytes | None:
        seen.append(start)
        return read(start, limit)

    master.log.log_bytes = count  # type: ignore[method-assign]
    master.log.data = b"".join(b"%010d" % number for number in range(lacks + stored))
    slave.received()
    master.port.follow(Batch(master.log, lacks * 10))
    assert body(slave.received()) == master.log.data
    assert len(seen) == reads


def test_a_slave_whose_connection_is_full_gets_the_newest_batch_later_and_once() -> None:
    master = Master()
    slave = master.joined()
    slave.received()
    slave.line.pauseProducing()
    master.log.data += RECORD
    master.port.follow(Batch(master.log, 0))
    assert body(slave.received()) == b""
    slave.line.resumeProducing()
    assert body(slave.received()) == RECORD


@pytest.mark.parametrize("hurries", [True, False])
def test_a_slave_that_lacks_much_gets_it_without_a_pause(hurries: bool) -> None:
    master = Master()
    master.port.hurries = hurries
    slave = master.joined()
    slave.received()
    master.append(100)
    assert sum(len(stretch.body) for stretch in slave.received()) == 1_000


def test_a_slave_that_waits_for_its_next_second_holds_up_no_other() -> None:
    master = Master(ha_flow_control_enable=True, max_ha_transfer_bytes_in_second=20)
    master.listed = {**SLAVE, 2: "10.0.0.3:10911"}
    master.append(2)
    other = master.joined("10.0.0.3", at=20)
    waiting = master.joined()
    master.append(1)
    assert [len(body(slave.received())) for slave in (waiting, other)] == [20, 10]
    master.log.data += RECORD
    master.port.follow_later()
    master.reactor.advance(LEAST_WAIT_S)
    assert [len(body(slave.received())) for slave in (waiting, other)] == [0, 10]


def test_no_slave_is_sent_anything_after_the_stop() -> None:
    master = Master(ha_flow_control_enable=True, max_ha_transfer_bytes_in_second=20)
    master.append(5)
    slave = master.joined()
    slave.received()
    ensureDeferred(master.port.stop())
    master.reactor.advance(5.0)
    assert slave.received() == []
    assert not master.reactor.getDelayedCalls()
