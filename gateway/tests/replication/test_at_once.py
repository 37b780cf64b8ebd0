"""The bytes between master and slave are in the socket without a turn of the reactor, and in their order."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Server
from twisted.internet.testing import StringTransport

from gateway.replication.at_once import MOST_AT_ONCE_BYTES, write_at_once
from gateway.replication.slave.intake import Intake
from gateway.replication.slave.line import MasterLine
from gateway.replication.slave.talk import ClassicMasterTalk
from gateway.tests.replication.master.test_port import RECORD, Master
from wire.replication.classic import Stretch, StretchReader, build_report


class Reactor:
    """A reactor that nobody runs: it notes who waits until a socket is writable."""

    def __init__(self) -> None:
        self.writers: list[Any] = []

    def addReader(self, _reader: object) -> None:  # noqa: N802 (Twisted's name)
        """Nobody reads here."""

    removeReader = addReader  # noqa: N815 (Twisted's name)

    def addWriter(self, writer: object) -> None:  # noqa: N802 (Twisted's name)
        if writer not in self.writers:
            self.writers.append(writer)

    def removeWriter(self, writer: object) -> None:  # noqa: N802 (Twisted's name)
        if writer in self.writers:
            self.writers.remove(writer)


class Ends:
    """A connection: ``transport`` is the end of a protocol here, ``peer`` the other one."""

    def __init__(self, host: str = "10.0.0.2") -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.peer = socket.create_connection(listening.getsockname())
            accepted, _ = listening.accept()
        self.peer.settimeout(10)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        self.reactor = Reactor()
        self.transport: Any = Server(accepted, Protocol(), (host, 40_000), None, 0, self.reactor)  # type: ignore[arg-type]

    def make(self, protocol: Any) -> None:
        self.transport.protocol = protocol
        protocol.makeConnection(self.transport)

    def came(self) -> bytes:
        """The bytes that came without a turn of the reactor."""
        self.peer.setblocking(False)
        try:
            return self.peer.recv(1 << 20)
        except BlockingIOError:
            return b""

    def all_of(self, count: int) -> bytes:
        """As many bytes, for which the reactor turns."""
        found = b""
        while len(found) < count:
            if self.reactor.writers:
                self.transport.doWrite()
            found += self.came()
        return found


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.peer.close()
    if hasattr(made.transport, "socket"):
        made.transport.socket.close()


def test_a_batch_is_on_its_way_to_the_slave_when_the_port_has_it(ends: Ends) -> None:
    master = Master()
    line = master.port.buildProtocol(None)
    ends.make(line)
    line.dataReceived(build_report(0))
    assert ends.came() == b""
    master.append(3)
    assert StretchReader().receive_data(ends.came()) == [Stretch(0, 3 * RECORD)]
    assert not ends.reactor.writers


class Owner:
    """The receiver of a slave whose log ends at ``end``."""

    end = 0

    def opened(self, line: MasterLine) -> None:
        """Note nothing."""

    def report_end(self) -> int:
        return self.end

    def seconds(self) -> float:
        return 0.0


def test_a_report_is_on_its_way_to_the_master_when_the_slave_makes_it(ends: Ends) -> None:
    owner: Any = Owner()
    store: Any = None
    line = MasterLine(owner, ClassicMasterTalk(), lambda stored, failed: Intake(store, stored=stored, failed=failed))
    ends.make(line)
    assert ends.came() == build_report(0)
    owner.end = 70
    line.report()
    assert ends.came() == build_report(70)
    assert not ends.reactor.writers


def test_what_the_kernel_does_not_take_goes_by_the_reactor_and_later_bytes_behind_it(ends: Ends) -> None:
    parts = [bytes([number]) * MOST_AT_ONCE_BYTES for number in range(40)]
    for part in parts:
        write_at_once(ends.transport, part)
    assert ends.reactor.writers == [ends.transport]
    write_at_once(ends.transport, b"last")
    assert ends.all_of(40 * MOST_AT_ONCE_BYTES + 4) == b"".join(parts) + b"last"
    assert not ends.reactor.writers
    write_at_once(ends.transport, b"again")
    assert (ends.came(), ends.reactor.writers) == (b"again", [])


def test_much_goes_by_the_reactor(ends: Ends) -> None:
    much = bytes(MOST_AT_ONCE_BYTES + 1)
    write_at_once(ends.transport, much)
    assert ends.came() == b""
    assert ends.all_of(len(much)) == much


def test_a_lost_connection_is_found_by_the_reactor(ends: Ends) -> None:
    ends.transport.socket.shutdown(socket.SHUT_WR)
    write_at_once(ends.transport, b"lost")
    assert ends.reactor.writers == [ends.transport]
    assert ends.transport.doWrite() is CONNECTION_LOST


def test_a_connection_that_closes_takes_nothing_at_once(ends: Ends) -> None:
    ends.transport.loseConnection()
    write_at_once(ends.transport, b"late")
    assert ends.came() == b""


class Sealing:
    """A transport that encrypts, in its way."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def seal(self, data: bytes) -> bytes:
        return data[::-1]

    def write(self, data: bytes) -> None:
        self.raw.write(self.seal(data))


def test_encrypted_bytes_keep_their_order_with_those_of_the_encryption_itself(ends: Ends) -> None:
    link = Sealing(ends.transport)
    write_at_once(link, b"1234")
    assert ends.came() == b"4321"
    ends.transport.write(b"(alert)")
    write_at_once(link, b"56")
    assert ends.all_of(9) == b"(alert)65"


def test_other_transports_are_written_as_ever() -> None:
    transport = StringTransport()  # type: ignore[no-untyped-call]
    write_at_once(transport, b"12")
    write_at_once(Sealing(transport), b"34")
    assert transport.value() == b"1243"  # type: ignore[no-untyped-call]
