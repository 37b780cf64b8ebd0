"""A broker whose role a controller decides: which service runs in which role, and what happens between two of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.testing import MemoryReactorClock

from gateway.broker import controlled
from gateway.broker.controlled import FIRST_ROLE_PATIENCE_S, ControlledBrokerService
from gateway.errors import GatewayError
from gateway.in_thread import in_this_thread
from gateway.replication.auto_switch.group import FoundLog
from gateway.replication.controlled.machine import GroupView, HeldRole
from gateway.replication.controlled.place import PlaceInGroup
from gateway.replication.controlled.sync_set import DOUBT_MS
from gateway.settings import Settings
from gateway.settings.replication import BrokerRole
from gateway.store.recovery.log_cut import LogCut
from gateway.tests.replication.controlled.one_controller import ADDRESS, Line, OneController
from wire.codes import RequestCode
from wire.headers.controller import RoleChangedRequest


class Service:
    """Notes its life in place of a ``BrokerService``."""

    made: list[Service]
    fails = 0

    def __init__(self, settings: Settings, *, group: PlaceInGroup, **_: object) -> None:
        self.settings = settings
        self.group = group
        self.is_running = False
        self.durable_end = 700
        self.changes = 0
        Service.made.append(self)

    def members_changed(self) -> None:
        self.changes += 1

    async def start(self) -> None:
        root = self.settings.store_path_root_dir
        others = [one for one in running() if one.settings.store_path_root_dir == root]
        assert others == [], "one at a time has the directory"
        if Service.fails:
            Service.fails -= 1
            raise GatewayError("the store cannot be opened")
        self.is_running = True

    async def stop(self) -> None:
        self.is_running = False


class LineClient(Line):
    """A line to the controller in place of a ``RemotingClient``."""

    def startService(self) -> None:  # noqa: N802
        self.is_cut = False

    async def stopService(self) -> None:  # noqa: N802
        self.is_cut = True


class World:
    """A controller, and brokers in directories of their own."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.controller = OneController()
        self.reactor = MemoryReactorClock()  # type: ignore[no-untyped-call]
        self.lines: list[LineClient] = []
        Service.made, Service.fails = [], 0
        monkeypatch.setattr(controlled, "BrokerService", Service)
        monkeypatch.setattr(controlled, "RemotingClient", self._line)
        monkeypatch.setattr(controlled, "in_thread_pool", lambda *_: in_this_thread)

    def _line(self, *_: object, **__: object) -> LineClient:
        self.lines.append(LineClient(self.controller))
        return self.lines[-1]

    def broker(self, name: str) -> tuple[ControlledBrokerService, Deferred[None]]:
        port = 10_911 + 10 * len(self.lines)
        settings = Settings(
            store_path_root_dir=self.root / name, broker_name="b", controller_addr=ADDRESS, listen_port=port
        )
        broker = ControlledBrokerService(settings, self.reactor, lambda: round(self.reactor.seconds() * 1_000), None)
        line = self.lines[-1]
        line.notice = lambda header, body: self._notify(line, header, body)
        return broker, ensureDeferred(broker.start())

    def _notify(self, line: LineClient, header: RoleChangedRequest, body: bytes) -> None:
        """Bring the notice to the service that runs, as its request does."""
        number = self.lines.index(line)
        running = [service for service in Service.made if service.is_running]
        of_line = [one for one in running if one.settings.listen_port == 10_911 + 10 * number]
        assert all(one.group.notice("10.0.0.9", header, body) for one in of_line)

    def kill(self, number: int) -> None:
        """Kill the process of a broker; the controller does not notice."""
        self.lines[number].is_cut = True
        for service in running():
            if service.settings.listen_port == 10_911 + 10 * number:
                service.is_running = False

    def passed(self, seconds: float) -> None:
        self.reactor.pump([0.25] * round(seconds * 4))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def roles() -> list[tuple[BrokerRole, int]]:
    return [(one.settings.broker_role, one.settings.broker_id) for one in Service.made]


def running() -> list[Service]:
    return [one for one in Service.made if one.is_running]


def test_the_controller_decides_role_and_id_whatever_the_settings_say(world: World) -> None:
    _, started = world.broker("1")
    world.passed(2)
    assert started.called
    world.broker("2")
    world.passed(2)
    assert roles() == [(BrokerRole.SYNC_MASTER, 0), (BrokerRole.SLAVE, 2)]
    assert Service.made[0].group.lead is not None
    follow = Service.made[1].group.follow
    assert follow is not None
    assert str(follow.master) == "10.0.0.1:10911"


def test_a_slave_is_stopped_before_it_is_the_master(world: World) -> None:
    world.broker("1")
    world.passed(2)
    world.broker("2")
    world.passed(2)
    world.controller.set = {1, 2}
    world.lines[0].is_cut = True
    world.controller.die(1)
    world.passed(1)
    assert roles()[2:] == [(BrokerRole.SYNC_MASTER, 0)]
    assert not Service.made[1].is_running
    assert Service.made[2].group.epoch == 2


def test_a_notice_of_another_host_is_none(world: World) -> None:
    world.broker("1")
    world.passed(2)
    notice = Service.made[0].group.notice
    header = RoleChangedRequest(master_address="6.6.6.6:1", master_epoch=9, sync_state_set_epoch=9, master_broker_id=6)
    asked = len(world.controller.asked)
    assert not notice("6.6.6.6", header, b"")
    assert (len(Service.made), len(world.controller.asked)) == (1, asked)
    assert notice("10.0.0.9", header, b"")
    assert len(Service.made) == 1, "a notice is a hint"
    assert world.controller.asked[asked:] == [RequestCode.CONTROLLER_GET_REPLICA_INFO]
    world.controller.addresses[6] = "6.6.6.6:1"
    world.controller.master, world.controller.epoch = 6, 9
    world.passed(0.25)
    assert notice("10.0.0.9", header, b"")
    assert roles()[1:] == [(BrokerRole.SLAVE, 1)]


def test_a_master_without_a_controller_serves_nothing_until_it_answers(world: World) -> None:
    world.broker("1")
    world.passed(2)
    world.lines[0].is_cut = True
    world.passed(13)
    assert running() == []
    world.lines[0].is_cut = False
    world.passed(3)
    assert [one.settings.broker_role for one in running()] == [BrokerRole.SYNC_MASTER]


def test_a_log_that_differs_is_cut_between_two_services(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[int] = []

    def cut(_settings: Settings, offset: int, *_: object) -> LogCut:
        assert all(one.settings.listen_port == 10_911 for one in running()), "the slave does not run"
        cuts.append(offset)
        return LogCut(offset, 700, None)

    monkeypatch.setattr(controlled, "cut_directory", cut)
    world.broker("1")
    world.passed(2)
    world.broker("2")
    world.passed(2)
    slave_side: Any = Service.made[1].group.follow
    slave_side._group.cut(400)
    assert cuts == [400]
    assert roles()[2:] == [(BrokerRole.SLAVE, 2)]
    assert len(running()) == 2


def test_a_cut_is_forgotten_by_who_becomes_the_master_instead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[int] = []
    monkeypatch.setattr(controlled, "cut_directory", lambda _settings, offset, *_: cuts.append(offset))
    broker, _ = world.broker("1")
    world.passed(2)
    broker._cut_at = 400
    for is_master in (True, False):
        role = HeldRole(is_master, 9, 1 if is_master else 2, "10.0.0.2:10911")
        ensureDeferred(broker.take(role, 1, GroupView(role.master_id, role.master_address, 9)))
    assert cuts == []
    assert roles()[-2:] == [(BrokerRole.SYNC_MASTER, 0), (BrokerRole.SLAVE, 1)]


def test_a_first_role_that_cannot_be_taken_ends_the_start(world: World) -> None:
    Service.fails = 1
    _, started = world.broker("1")
    world.passed(2)
    failures: list[Any] = []
    started.addErrback(failures.append)
    assert "the store cannot be opened" in str(failures[0].value)


def test_a_start_without_a_controller_goes_on_and_the_role_comes_later(world: World) -> None:
    world.controller.leader = ""
    broker, started = world.broker("1")
    world.passed(FIRST_ROLE_PATIENCE_S + 1)
    assert started.called
    assert running() == []
    world.controller.leader = ADDRESS
    world.passed(3)
    assert len(running()) == 1
    ended = ensureDeferred(broker.stop())
    assert ended.called
    assert running() == []
    assert world.lines[0].is_cut


def members_of_master() -> Any:
    """Return the members of the running master, as its start makes them for an empty log."""
    [master] = [service for service in running() if service.settings.broker_id == 0]
    lead: Any = master.group.lead
    return lead._group.make_members(FoundLog(0, 0, 0))


def joined_by_2(world: World) -> Any:
    """Let the second member join the set with 700 bytes of log, and return the members."""
    members = members_of_master()
    members.connect(2, 700, 700, 0)
    world.passed(1)
    assert world.controller.set == {1, 2}
    return members


def test_a_changed_set_is_looked_at_by_the_service(world: World) -> None:
    broker, _ = world.broker("1")
    world.passed(2)
    world.broker("2")
    world.passed(2)
    members = joined_by_2(world)
    assert Service.made[0].changes > 0
    assert broker.ends().confirm_offset == 700
    members.leave(2)
    world.passed(1)
    assert world.controller.set == {1}


def test_a_member_that_lacks_what_was_confirmed_before_a_fence_does_not_join_after_it(world: World) -> None:
    world.broker("1")
    world.passed(2)
    world.broker("2")
    world.broker("3")
    world.passed(2)
    joined_by_2(world)
    world.lines[0].is_cut = True
    world.passed(13)
    assert all(service.settings.broker_id != 0 for service in running())
    world.lines[0].is_cut = False
    world.passed(3)
    [again] = [service for service in running() if service.settings.broker_id == 0]
    lead: Any = again.group.lead
    assert lead._group.epoch == 1, "the same epoch"
    members = lead._group.make_members(FoundLog(200, 700, 700))
    assert members.confirmed(700) == 700, "it never falls in an epoch"
    members.connect(3, 200, 700, 0)
    world.passed(1)
    assert world.controller.set == {1}, "member 2 is not connected, and member 3 lacks what is confirmed"
    members.report(3, 700, 700, 0)
    world.passed(1)
    assert world.controller.set == {1, 3}


@pytest.mark.parametrize(("is_carried_out", "confirmed"), [(True, 0), (False, 700)])
def test_who_may_be_added_by_a_question_from_before_a_restart_counts_as_long_as_it_may_be_carried_out(
    world: World, is_carried_out: bool, confirmed: int
) -> None:
    world.broker("1")
    world.passed(2)
    world.broker("2")
    world.passed(2)
    controller = world.controller
    controller.late = []
    members_of_master().connect(2, 700, 700, 0)
    world.passed(0.5)
    [question] = controller.late
    world.kill(0)
    world.broker("1")
    world.passed(1)
    again = members_of_master()
    assert (controller.epoch, again.confirmed(700)) == (1, 0)
    if is_carried_out:
        question()
        assert controller.set == {1, 2}
    world.passed(DOUBT_MS / 1_000 + 1)
    assert again.confirmed(700) == confirmed
