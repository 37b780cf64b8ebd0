"""What a slave without a controller shows: what is proven to be a copy; of three copies, what its master shows."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.testing import MemoryReactorClock

from gateway.replication.replicated_mark import FILE_NAME
from gateway.replication.slave.beginning import MasterAddresses
from gateway.replication.slave.receiver import Receiver
from gateway.replication.slave.role import Slave
from gateway.replication.slave.rounds import TableRounds
from gateway.settings import Address, Settings
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.replication.around import role_of, surroundings
from gateway.tests.replication.master.test_role import SyncMaster
from gateway.tests.replication.slave.test_receiver import Wire
from gateway.tests.replication.slave.test_role import MASTER, SLAVE, Pair
from wire.codes import RequestCode as Code
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.replication.classic import build_stretch_head


def slave_of(broker: WholeBroker) -> Slave:
    """The role of a broker."""
    assert broker.parts.slave is not None
    return broker.parts.slave


def copies(broker: WholeBroker, master: Address | None) -> None:
    """Let a slave copy a master, or nobody."""
    addresses = None if master is None else SimpleNamespace(remoting=master)
    slave_of(broker)._receiver = SimpleNamespace(state=SimpleNamespace(master=addresses))  # type: ignore[assignment]


def seen(broker: WholeBroker) -> list[bytes]:
    return [message.body for message in broker.messages("orders")]


@pytest.fixture
def former(tmp_path: Path) -> WholeBroker:
    """A former master that starts as a slave, with a message that nobody else has."""
    broker = SyncMaster(tmp_path)
    peer = broker.connect()
    broker.report(0)
    first = broker.parts.store
    broker.lose()
    broker.send(peer, body=b"one")
    broker.report(first.durable_end)
    broker.lose()
    broker.send(peer, body=b"two")
    broker.stop()
    return WholeBroker(tmp_path, broker.clock(), **SLAVE)


def test_a_former_master_hides_its_own_end_until_it_copies(former: WholeBroker) -> None:
    assert seen(former) == [b"one"]
    end = former.parts.store.durable_end
    copies(former, None)
    slave_of(former)._told(MASTER, end)
    assert seen(former) == [b"one"], "refused: the master at this address is not copied"
    copies(former, Address("192.0.2.8", 10911))
    slave_of(former)._told(MASTER, end)
    assert seen(former) == [b"one"], "another one is copied"
    copies(former, MASTER)
    slave_of(former)._told(MASTER, end)
    former.turn()
    assert seen(former) == [b"one", b"two"]
    assert not (former.directory / FILE_NAME).exists()
    former.stop()


def test_a_former_master_that_is_promoted_unheard_hides_its_own_end(former: WholeBroker) -> None:
    former.stop()
    promoted = SyncMaster(former.directory, former.clock())
    assert promoted.bodies() == [b"one"]
    promoted.report()
    assert promoted.bodies() == [b"one", b"two"]
    promoted.stop()


class Three(Pair):
    """A pair of which the slave waits for what its master shows."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.slave.stop()
        self.start()

    def start(self, *args: Any) -> None:
        """Start the slave."""
        self.slave = WholeBroker(self.directory / "slave", *args, in_sync_replicas=3, **SLAVE)
        copies(self.slave, MASTER)


def test_with_three_copies_a_slave_shows_what_its_master_shows(tmp_path: Path) -> None:
    pair = Three(tmp_path)
    ends = []
    for body in (b"one", b"two"):
        pair.master.send(pair.client, body=body)
        ends.append(pair.master.parts.store.durable_end)
        pair.carry_log()
    assert seen(pair.slave) == []
    slave_of(pair.slave)._told(MASTER, ends[0])
    assert seen(pair.slave) == [b"one"]
    pair.slave.stop()
    pair.start(pair.slave.clock())
    assert seen(pair.slave) == [b"one"], "also after a restart"
    pair.rounds = pair.rounds.__class__(
        pair.slave.parts, pair.rounds._around, lambda: MASTER, slave_of(pair.slave)._told
    )
    ensureDeferred(pair.rounds.round())
    pair.slave.turn()
    assert seen(pair.slave) == [b"one", b"two"], "a round tells it"
    pair.slave.stop()
    pair.master.stop()


def test_a_former_master_hides_its_own_end_while_the_new_master_compares_the_logs(tmp_path: Path) -> None:
    """A round through the tables comes while the connection is open, and nothing was heard on it."""
    former = SyncMaster(tmp_path / "former")
    former.report(0)
    former.lose()
    former.send(former.connect(), body=b"only here")
    former.stop()
    shutil.copytree(former.directory, tmp_path / "master")
    slave = WholeBroker(tmp_path / "former", former.clock(), **SLAVE)
    master = WholeBroker(tmp_path / "master", former.clock())
    client = master.connect()
    reactor = MemoryReactorClock()  # type: ignore[no-untyped-call]

    async def call(_address: Address, code: int, header: Header | None, /) -> RemotingCommand:
        return role_of(is_master=True) if code == Code.GET_BROKER_HA_STATUS else master.ask(client, code, header)

    async def addresses() -> MasterAddresses:
        return MasterAddresses(MASTER, Address("192.0.2.7", 10912))

    around, role = surroundings(call=call, reactor=reactor), slave_of(slave)
    role._receiver = receiver = Receiver(slave.parts.store, Settings(), around, addresses)
    receiver.start()
    line: Any = reactor.tcpClients[0][2].buildProtocol(None)
    line.makeConnection(Wire())
    rounds = TableRounds(slave.parts, around, lambda: MASTER, role._told)
    for heard in (False, True):
        if heard:
            line.dataReceived(build_stretch_head(slave.parts.store.durable_end, 0))
        ensureDeferred(rounds.round())
        slave.turn()
        assert seen(slave) == ([b"only here"] if heard else [])
        assert (slave.directory / FILE_NAME).exists() is not heard
    receiver.stop()
    slave.stop()
    master.stop()
