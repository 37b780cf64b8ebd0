"""A master and a slave of ours, joined by a network that a seed decides: pieces, delays, lost connections, kills.

What a sender was told is stored twice, nobody reads what is not, and the logs are equal in the end.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from gateway.in_thread import InThread, in_this_thread
from gateway.replication.master.role import Master
from gateway.replication.slave.beginning import MasterAddresses
from gateway.replication.slave.receiver import Receiver
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.settings import Address, Settings
from gateway.settings.replication import BrokerRole
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutResult, PutStatus
from gateway.tests.replication.around import figures_of, role_of, surroundings
from gateway.tests.store.durability.test_copying import units
from gateway.tests.store.small_store import ASYNC, SMALL, Clock, Executor, killed, message, small_store
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.headers.pull import ViewMessageRequest

HOSTS = {0: Address("10.0.0.1", 10911), 1: Address("10.0.0.2", 10911)}
SYNC_MASTER = Settings(broker_role=BrokerRole.SYNC_MASTER)
STEPS = 300


class Wire(StringTransport):
    """One end of a connection."""

    def __init__(self, host: str) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", host, 40_000))  # type: ignore[no-untyped-call]
        self.aborted = False

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802 (Twisted's name)
        assert enabled

    def abortConnection(self) -> None:  # noqa: N802 (Twisted's name)
        self.aborted = True


class Connection:
    """Both ends of a connection, and what is on its way between them."""

    def __init__(self, ends: tuple[Any, Any], hosts: tuple[str, str] = ("10.0.0.1", "10.0.0.2")) -> None:
        self.wires = Wire(hosts[0]), Wire(hosts[1])  # that of the slave, whose peer is the master, first
        self.ends = ends
        self.under_way = bytearray(), bytearray()
        for end, wire in zip(ends, self.wires, strict=True):
            end.makeConnection(wire)

    def carry(self, side: int, count: int) -> None:
        """Let the other side of ``side`` have some of what was written here."""
        written: bytes = self.wires[side].value()  # type: ignore[no-untyped-call]
        self.wires[side].clear()  # type: ignore[no-untyped-call]
        self.under_way[side].extend(written)
        if self.under_way[side] and self.wires[1 - side].producerState == "producing":
            part = bytes(self.under_way[side][:count])
            del self.under_way[side][:count]
            self.ends[1 - side].dataReceived(part)

    @property
    def is_closed(self) -> bool:
        return any(wire.aborted for wire in self.wires)

    def lose(self) -> None:
        for end in self.ends:
            end.connectionLost(Failure(ConnectionError("lost")))  # type: ignore[no-untyped-call]


class Pair:
    """The master, the slave, and dice."""

    def __init__(self, root: Path, seed: int, slave_settings: Any) -> None:
        self.root, self.random = root, Random(seed)
        self.slave_settings = slave_settings
        self.reactor = MemoryReactorClock()  # type: ignore[no-untyped-call]
        self.clock = Clock()
        self.executors = [Executor(), Executor()]
        self.role = Master(SYNC_MASTER, self._around(in_this_thread))
        master = self.executors[0]
        self.master = small_store(
            root / "master", clock=self.clock, soon=master.soon, in_thread=master.in_thread, stage=self.role.stage
        )
        self.master.open()
        master.run()
        self.role.serve(self.master, self._members)
        self.role.start("10.0.0.1", 10912)
        self.told: list[PutResult] = []
        self.sent = self.lives = self.acknowledged = 0
        self.connection: Connection | None = None
        self._begin_slave(root / "slave")

    def _begin_slave(self, directory: Path) -> None:
        self.directory = directory
        executor = self.executors[1] = Executor()
        self.slave: MessageStore = small_store(
            directory, self.slave_settings, clock=self.clock, soon=executor.soon, in_thread=executor.in_thread
        )
        self.slave.open()
        executor.run()
        self.receiver = Receiver(self.slave, SYNC_MASTER, self._around(executor.in_thread), self._address)
        self.receiver.start()

    def _around(self, in_thread: InThread) -> ReplicationSurroundings:
        return surroundings(reactor=self.reactor, clock_ms=self.clock, in_thread=in_thread, call=self._call)

    async def _address(self) -> MasterAddresses:
        return MasterAddresses(HOSTS[0], Address("10.0.0.1", 10912))

    async def _members(self) -> dict[int, str]:
        return {broker_id: str(address) for broker_id, address in HOSTS.items()}

    async def _call(self, address: Address, code: int, header: Header | None = None) -> RemotingCommand:
        store = self.master if address == HOSTS[0] else self.slave
        if code == RequestCode.GET_BROKER_RUNTIME_INFO:
            return figures_of(store)
        if code == RequestCode.GET_BROKER_HA_STATUS:
            return role_of(is_master=address == HOSTS[0])
        assert isinstance(header, ViewMessageRequest)
        found = store.record_at(header.offset)
        return RemotingCommand(ResponseCode.SYSTEM_ERROR if found is None else ResponseCode.SUCCESS, body=found or b"")

    # --- steps ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        name = self.random.choices(["send", "turn", "carry", "advance", "lose", "kill"], [6, 10, 16, 2, 0.4, 0.2])[0]
        getattr(self, name)()
        self.check()

    def send(self) -> None:
        self.sent += 1
        body = b"%d " % self.sent + b"x" * self.random.choice((0, 10, 300, 1500))
        sent = message(body, topic="AB"[self.random.randrange(2)], queue_id=self.random.randrange(2))
        self.master.append(sent, self._answered)

    def _answered(self, result: PutResult) -> None:
        self.told.append(result)
        if result.status is PutStatus.PUT_OK:
            self.acknowledged = max(self.acknowledged, result.commit_log_offset + result.size)

    def turn(self) -> None:
        executor = self.random.choice(self.executors)
        if executor.threads and self.random.random() < 0.6:
            executor.work()()
        else:
            executor.run_turn()

    def carry(self) -> None:
        self.accept()
        if self.connection is not None:
            self.connection.carry(self.random.randrange(2), self.random.choice((1, 8, 100, 5000)))
            if self.connection.is_closed:
                self.lose()

    def accept(self) -> None:
        if self.connection is None and self.reactor.tcpClients:
            factory = self.reactor.tcpClients.pop()[2]
            port: Any = self.reactor.tcpServers[-1][1]
            self.connection = Connection((factory.buildProtocol(None), port.buildProtocol(None)))

    def lose(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.lose()

    def kill(self) -> None:
        """End the slave's process, whatever it was doing."""
        self.receiver.stop()
        self.lose()
        self.reactor.tcpClients.clear()
        self.lives += 1
        self._begin_slave(killed(self.directory, self.lives))

    def advance(self) -> None:
        seconds = self.random.choice((0.1, 1, 6))
        self.clock.now_ms += int(seconds * 1000)
        self.reactor.advance(seconds)

    def check(self) -> None:
        assert self.acknowledged <= self.slave.durable_end, "acknowledged without a copy"
        assert self.master.stored_end <= self.slave.durable_end, "visible without a copy"
        assert self.slave.durable_end <= self.master.durable_end, "the slave has what the master may lose"

    def heal(self) -> None:
        """Let everything that is under way arrive."""
        for _ in range(60):
            for executor in self.executors:
                executor.run()
            self.accept()
            for side in (0, 1):
                if self.connection is not None:
                    self.connection.carry(side, 1 << 20)
            if self.connection is not None and self.connection.is_closed:
                self.lose()
            self.clock.now_ms += 1_000
            self.reactor.advance(1)


def log_of(store: MessageStore) -> bytes:
    found, offset = bytearray(), 0
    while part := store.log_bytes(offset, 1 << 20):
        found += part
        offset += len(part)
    return bytes(found)


@pytest.mark.parametrize("settings", [SMALL, replace(ASYNC, broker_role=BrokerRole.SLAVE)], ids=["sync", "async"])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_network_does_acknowledged_messages_are_on_both_sides(
    tmp_path: Path, seed: int, settings: Any
) -> None:
    pair = Pair(tmp_path, seed, replace(settings))
    for _ in range(STEPS):
        pair.step()

    pair.heal()

    assert len(pair.told) == pair.sent > 20
    assert any(result.status is PutStatus.PUT_OK for result in pair.told)
    assert pair.master.stored_end == pair.slave.durable_end == pair.master.max_commit_log_offset
    assert log_of(pair.slave) == log_of(pair.master)
    assert units(pair.slave) == units(pair.master)
