"""What a slave without a controller shows: what is proven to be a copy; of three copies, what its master shows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from gateway.replication.replicated_mark import FILE_NAME
from gateway.replication.slave.role import Slave
from gateway.settings import Address
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.replication.master.test_role import SyncMaster
from gateway.tests.replication.slave.test_role import MASTER, SLAVE, Pair


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
