"""A broker whose role changes while its process runs: what stays, and what happens when something fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred

from gateway.broker.life import RETRY_FIRST_S, BrokerLife, RoleNotChanged
from gateway.broker.service import BrokerService
from gateway.errors import GatewayError
from gateway.remoting.protocol import RemotingProtocol
from gateway.settings import Settings
from gateway.settings.replication import BrokerRole
from gateway.tests.broker.test_service import Machine, NextDoor
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, sending, small_settings
from gateway.tests.remoting.conversation import Peer
from wire.codes import RequestCode, ResponseCode


class Living:
    """A broker with a life, in a process with a name server."""

    def __init__(self, directory: Path, **changed: Any) -> None:
        self.machine = Machine()
        self.name_server = NextDoor()
        self.made: list[BrokerService] = []
        settings = small_settings(directory, **{"flush_disk_type": "ASYNC_FLUSH", **changed})
        self.life = BrokerLife(settings, self._make, self.machine, self._off_reactor)
        self.run(self.life.start())

    def _make(self, settings: Settings) -> BrokerService:
        self.made.append(BrokerService(settings, self.machine, self.now_ms, self.name_server))
        return self.made[-1]

    def _off_reactor(self, work: Callable[[], None]) -> Awaitable[None]:
        return maybeDeferred(work)

    def now_ms(self) -> int:
        return START_MS + round(self.machine.seconds() * 1000)

    def begin(self, coroutine: Any) -> list[object]:
        ended: list[object] = []
        ensureDeferred(coroutine).addCallbacks(ended.append, lambda failure: ended.append(failure.value))
        return ended

    def run(self, coroutine: Any) -> None:
        ended = self.begin(coroutine)
        self.machine.turn()
        assert ended == [None]

    def connect(self) -> Peer:
        protocol = self.machine.tcpServers[-2][1].buildProtocol(IPv4Address("TCP", "192.0.2.7", 50_000))
        assert isinstance(protocol, RemotingProtocol)
        return Peer(protocol, ("192.0.2.7", 50_000), ("127.0.0.1", 10911))

    def send(self, body: bytes) -> int:
        client = self.connect()
        answers = client.ask_all(RequestCode.SEND_MESSAGE, sending(), body)
        self.machine.turn()
        (answer,) = answers + client.received()
        return answer.code

    @property
    def role(self) -> tuple[BrokerRole, int]:
        settings = self.life.settings
        return settings.broker_role, settings.broker_id


MASTER, SLAVE = BrokerRole.ASYNC_MASTER, BrokerRole.SLAVE


def test_a_master_becomes_a_slave_and_a_master_again_on_its_ports_with_all_it_had(tmp_path: Path) -> None:
    living = Living(tmp_path)
    assert living.send(b"one") == ResponseCode.SUCCESS
    living.run(living.life.become(SLAVE, 3))
    assert living.role == (SLAVE, 3)
    assert living.machine.open_ports == [10911, 10909]
    assert list(living.life.addresses) == [("127.0.0.1", 10911)]
    assert living.send(b"two") != ResponseCode.SUCCESS
    living.run(living.life.become(BrokerRole.SYNC_MASTER, 0))
    assert 10912 in living.machine.open_ports
    living.run(living.life.become(MASTER, 0))
    assert living.machine.open_ports == [10911, 10909]
    assert living.send(b"three") == ResponseCode.SUCCESS
    assert (len(living.made), living.life.changes) == (4, 3)
    living.run(living.life.stop())
    assert living.machine.open_ports == []
    again = WholeBroker(tmp_path)
    assert [message.body for message in again.messages("orders")] == [b"one", b"three"]


def test_a_port_that_the_system_chose_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    living = Living(tmp_path, listen_port=0)
    (old,) = living.made
    monkeypatch.setattr(type(old._server), "ports", property(lambda self: [40_001, 40_002]))
    living.life._ports = old.ports
    living.run(living.life.become(SLAVE, 1))
    assert living.made[1]._server._addresses == (("127.0.0.1", 40_001), ("127.0.0.1", 40_002))
    living.run(living.life.stop())


def test_work_between_stop_and_start_finds_the_directory_closed(tmp_path: Path) -> None:
    living = Living(tmp_path)
    seen: list[object] = []

    def look() -> None:
        seen.append(((tmp_path / "abort").exists(), living.machine.open_ports[:], living.role))

    living.run(living.life.become(SLAVE, 1, between=look))
    assert seen == [(False, [], (MASTER, 0))]
    living.run(living.life.stop())


def test_a_failure_of_that_work_leaves_the_role(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    living = Living(tmp_path)

    def fail() -> None:
        raise GatewayError("no record starts there")

    with caplog.at_level(logging.ERROR, "gateway.broker"):
        ended = living.begin(living.life.become(SLAVE, 1, between=fail))
        living.machine.turn()
    (failure,) = ended
    assert isinstance(failure, RoleNotChanged)
    assert str(failure) == "the role was not changed: no record starts there"
    assert living.role == (MASTER, 0)
    assert living.life.changes == 1, "who ordered the change waits for its end"
    assert living.send(b"one") == ResponseCode.SUCCESS
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["role not changed"]
    living.run(living.life.stop())


def test_changes_come_one_after_the_other(tmp_path: Path) -> None:
    living = Living(tmp_path)
    held: list[Deferred[None]] = []

    def hold(_work: Callable[[], None]) -> Deferred[None]:
        held.append(Deferred())
        return held[-1]

    living.life._off_reactor = hold
    first = living.begin(living.life.become(SLAVE, 1, between=lambda: None))
    second = living.begin(living.life.become(MASTER, 0, between=lambda: None))
    assert (len(held), living.life.is_changing) == (1, True)
    held[0].callback(None)
    living.machine.turn()
    assert (first, len(held), living.role) == ([None], 2, (SLAVE, 1))
    held[1].callback(None)
    living.machine.turn()
    assert (second, living.life.is_changing) == ([None], False)
    assert living.send(b"x") == ResponseCode.SUCCESS
    living.run(living.life.stop())


def test_a_start_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    living = Living(tmp_path)
    living.machine.taken = (10909,)
    with caplog.at_level(logging.ERROR, "gateway.broker"):
        ended = living.begin(living.life.become(SLAVE, 1))
        living.machine.turn()
    assert ended == []
    (told,) = [record for record in caplog.records if "start failed" in record.getMessage()]
    assert told.__dict__["facts"]["again_in_s"] == RETRY_FIRST_S
    assert "10909" in str(told.__dict__["facts"]["reason"])
    living.machine.taken = ()
    living.machine.advance(RETRY_FIRST_S)
    living.machine.turn()
    assert ended == [None]
    assert living.machine.open_ports == [10911, 10909]
    living.run(living.life.stop())


def test_a_stop_ends_a_change_whose_start_fails(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.machine.taken = (10911,)
    ended = living.begin(living.life.become(SLAVE, 1))
    living.machine.turn()
    stopped = living.begin(living.life.stop())
    living.machine.advance(RETRY_FIRST_S)
    living.machine.turn()
    assert stopped == [None]
    assert [str(failure) for failure in ended] == ["the role was not changed: the broker stops"]
    assert living.machine.open_ports == []
    assert not (tmp_path / "abort").exists()


def test_a_stop_waits_for_the_change_before_it(tmp_path: Path) -> None:
    living = Living(tmp_path)
    held: Deferred[None] = Deferred()
    living.life._off_reactor = lambda work: held
    ended = living.begin(living.life.become(SLAVE, 1, between=lambda: None))
    living.machine.turn()
    stopped = living.begin(living.life.stop())
    assert stopped == []
    held.callback(None)
    living.machine.turn()
    assert (stopped, len(ended)) == ([None], 1)
    assert living.machine.open_ports == []
