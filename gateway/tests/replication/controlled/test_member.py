"""A member and a controller of memory: roles, switches, fences, the sync state set, and answers that are nonsense."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from gateway.errors import GatewayError
from gateway.in_thread import in_this_thread
from gateway.replication.controlled.controllers import Controllers
from gateway.replication.controlled.identity import AppliedIdentity, BrokerIdentity, IdentityFiles
from gateway.replication.controlled.machine import GroupView, HeldRole, MemberPhase
from gateway.replication.controlled.member import ControllerMember, LogEnds
from gateway.replication.controlled.sync_set import InSyncMembers
from gateway.settings import Settings
from gateway.tests.replication.controlled.one_controller import ADDRESS, Line, OneController
from wire.codes import RequestCode, ResponseCode
from wire.errors import RemoteError
from wire.headers.controller import (
    AlterSyncStateSetResponse,
    ControllerMetadataResponse,
    NextBrokerIdResponse,
    RegisterToControllerResponse,
    ReplicaInfoResponse,
    RoleChangedRequest,
)


class StandIn:
    """The broker of a member: notes its roles; the test says how its log grows."""

    def __init__(self) -> None:
        self.in_sync: InSyncMembers | None = None
        self.roles: list[HeldRole | None] = []
        self.end = 0
        self.fails = self.changes = 0
        self.asked: list[tuple[set[int], int]] = []
        self.keeps = True

    def ends(self) -> LogEnds:
        return LogEnds(0, self.end, self.end)

    def set_changed(self) -> None:
        self.changes += 1

    def keep_asked(self, members: frozenset[int], set_epoch: int) -> None:
        if not self.keeps:
            raise OSError(28, "No space left on device", "syncStateSetAsked")
        self.asked.append((set(members), set_epoch))

    async def take(self, role: HeldRole, own_id: int, view: GroupView) -> None:
        if self.fails:
            self.fails -= 1
            raise GatewayError("the store cannot be opened")
        self.roles.append(role)
        self.in_sync = None
        if role.is_master:
            self.in_sync = InSyncMembers(own_id, max_behind_ms=15_000)
            self.in_sync.begin(self.end, self.end, self.end)
            self.in_sync.tell(view.sync_state_set, view.set_epoch, 0)

    async def fence(self) -> None:
        self.roles.append(None)
        self.in_sync = None


class Node:
    """A member with its broker and its connection."""

    def __init__(self, controller: OneController, root: Path, clock: Clock, port: int, fails: int = 0) -> None:
        self.clock = clock
        self.broker = StandIn()
        self.broker.fails = fails
        self.line = Line(controller)
        settings = Settings(broker_name="b", controller_addr=ADDRESS)
        controllers = Controllers(
            self.line,
            settings.controller_addresses,
            lambda: round(clock.seconds() * 1_000),
            lambda host: f"{host}:{port}",
        )
        files = IdentityFiles(root, settings.broker_cluster_name, "b")
        self.member = ControllerMember(settings, controllers, files, self.broker, clock, in_this_thread)
        self.line.notice = self.member.notice
        self.started: Deferred[None] = ensureDeferred(self.member.start())

    @property
    def role(self) -> HeldRole | None:
        return self.broker.roles[-1] if self.broker.roles else None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def controller() -> OneController:
    return OneController()


def passed(clock: Clock, seconds: float) -> None:
    clock.pump([0.25] * round(seconds * 4))


def pair(controller: OneController, root: Path, clock: Clock) -> tuple[Node, Node]:
    """A master and a slave that is in the set."""
    one, two = Node(controller, root / "1", clock, 10911), Node(controller, root / "2", clock, 10921)
    passed(clock, 2)
    assert one.broker.in_sync is not None
    one.broker.in_sync.connect(2, 0, 0, 0)
    passed(clock, 2)
    assert controller.set == {1, 2}
    return one, two


def test_the_first_member_is_the_master_and_the_next_one_its_slave(
    tmp_path: Path, clock: Clock, controller: OneController
) -> None:
    one = Node(controller, tmp_path / "1", clock, 10911)
    passed(clock, 2)
    assert one.started.called
    assert one.role == HeldRole(True, 1, 1, "10.0.0.1:10911")
    assert (tmp_path / "1" / "brokerIdentity").read_text() == "DefaultCluster#b#1"
    two = Node(controller, tmp_path / "2", clock, 10921)
    passed(clock, 2)
    assert two.role == HeldRole(False, 1, 1, "10.0.0.1:10911")


def test_a_member_keeps_its_id_over_a_restart(tmp_path: Path, clock: Clock, controller: OneController) -> None:
    files = IdentityFiles(tmp_path, "DefaultCluster", "b")
    files.keep_applied(AppliedIdentity(BrokerIdentity("DefaultCluster", "b", 1), "earlier"))
    controller.codes[1] = "earlier"
    Node(controller, tmp_path, clock, 10911)
    passed(clock, 2)
    assert controller.codes == {1: "earlier"}
    controller.die(1)
    again = Node(controller, tmp_path, clock, 10911)
    passed(clock, 2)
    assert again.member.state.broker_id == 1
    assert again.role == HeldRole(True, 2, 1, "10.0.0.1:10911")


def test_an_id_that_cannot_be_written_is_not_asked_for(
    tmp_path: Path, clock: Clock, controller: OneController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(IdentityFiles, "keep_applied", fail)
    Node(controller, tmp_path, clock, 10911)
    passed(clock, 5)
    assert controller.codes == {}


def test_a_dead_master_is_replaced_at_once(tmp_path: Path, clock: Clock, controller: OneController) -> None:
    one, two = pair(controller, tmp_path, clock)
    one.line.is_cut = True
    controller.die(1)
    assert two.role == HeldRole(True, 2, 2, "10.0.0.1:10921")
    assert two.broker.in_sync is not None
    assert two.broker.in_sync.told == frozenset({2})


def test_a_master_without_a_controller_is_fenced_and_serves_again_as_it_is_told(
    tmp_path: Path, clock: Clock, controller: OneController
) -> None:
    one, two = pair(controller, tmp_path, clock)
    one.line.is_cut = True
    passed(clock, 7)  # the last answer may be 2.5 s old
    assert one.role is not None
    passed(clock, 4)
    assert one.role is None
    controller.die(1)
    one.line.is_cut = False
    passed(clock, 5)
    assert one.role == HeldRole(False, 2, 2, "10.0.0.1:10921")
    assert two.role is not None
    assert two.role.is_master


def test_a_member_leaves_the_set_when_it_is_gone(tmp_path: Path, clock: Clock, controller: OneController) -> None:
    one, _ = pair(controller, tmp_path, clock)
    in_sync = one.broker.in_sync
    assert in_sync is not None
    in_sync.leave(2)
    one.member.slaves_changed()
    assert controller.set == {1}
    assert in_sync.told == frozenset({1})


def test_a_lost_answer_about_the_set_keeps_both_sets(tmp_path: Path, clock: Clock, controller: OneController) -> None:
    one = Node(controller, tmp_path / "1", clock, 10911)
    Node(controller, tmp_path / "2", clock, 10921)
    passed(clock, 2)
    in_sync = one.broker.in_sync
    assert in_sync is not None
    controller.loses_answers = True
    in_sync.connect(2, 0, 0, 0)
    one.member.slaves_changed()
    assert controller.set == {1, 2}
    assert (in_sync.told, in_sync.counting) == (frozenset({1}), frozenset({1, 2}))
    controller.loses_answers = False
    passed(clock, 5)
    assert (in_sync.told, in_sync.doubted) == (frozenset({1, 2}), frozenset())


def test_a_member_is_added_only_once_it_is_on_disk_that_it_may_be(
    tmp_path: Path, clock: Clock, controller: OneController
) -> None:
    one = Node(controller, tmp_path / "1", clock, 10911)
    Node(controller, tmp_path / "2", clock, 10921)
    passed(clock, 2)
    in_sync = one.broker.in_sync
    assert in_sync is not None
    one.broker.keeps = False
    in_sync.connect(2, 0, 0, 0)
    passed(clock, 2)
    assert (controller.set, set(in_sync.counting)) == ({1}, {1, 2})
    one.broker.keeps = True
    before = controller.set_epoch
    passed(clock, 5)
    assert (controller.set, one.broker.asked) == ({1, 2}, [({1, 2}, before)])
    in_sync.leave(2)
    passed(clock, 2)
    assert (controller.set, len(one.broker.asked)) == ({1}, 1), "a smaller set needs no note"


def test_a_failed_first_role_ends_the_start(tmp_path: Path, clock: Clock, controller: OneController) -> None:
    node = Node(controller, tmp_path, clock, 10911, fails=1)
    passed(clock, 2)
    failures: list[object] = []
    node.started.addErrback(failures.append)
    assert len(failures) == 1


def test_a_failed_later_role_is_tried_again(tmp_path: Path, clock: Clock, controller: OneController) -> None:
    one, two = pair(controller, tmp_path, clock)
    two.broker.fails = 2
    one.line.is_cut = True
    controller.die(1)
    passed(clock, 1)
    assert two.role is not None
    assert not two.role.is_master
    passed(clock, 3)
    assert two.role == HeldRole(True, 2, 2, "10.0.0.1:10921")


NONSENSE = [
    (RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, (0, None, b"")),
    (RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, (0, NextBrokerIdResponse(next_broker_id=-5), b"")),
    (RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, (ResponseCode.SYSTEM_ERROR, None, b"")),
    (RequestCode.CONTROLLER_APPLY_BROKER_ID, (ResponseCode.SYSTEM_ERROR, None, b"")),
    (RequestCode.CONTROLLER_ELECT_MASTER, (0, None, b"{")),
    (RequestCode.CONTROLLER_ELECT_MASTER, (7_777, None, b"{")),
]


@pytest.mark.parametrize(("code", "answer"), NONSENSE)
def test_a_controller_that_answers_nonsense_gives_no_role_and_is_asked_again(
    tmp_path: Path, clock: Clock, controller: OneController, code: RequestCode, answer: object
) -> None:
    controller.answers_only = code, answer  # type: ignore[assignment]
    node = Node(controller, tmp_path, clock, 10911)
    passed(clock, 20)
    assert node.role is None
    assert controller.asked.count(code) <= 21, "once a second at most"
    controller.answers_only = None
    passed(clock, 3)
    assert node.role is not None


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"syncStateSet":[' + b"1," * 2_000 + b'1],"syncStateSetEpoch":1}'])
def test_a_set_that_is_none_is_not_taken(tmp_path: Path, clock: Clock, controller: OneController, body: bytes) -> None:
    one, _ = pair(controller, tmp_path, clock)
    header = ReplicaInfoResponse(master_broker_id=2, master_address="10.0.0.1:10921", master_epoch=9)
    controller.answers_only = RequestCode.CONTROLLER_GET_REPLICA_INFO, (0, header, body)
    passed(clock, 5)
    assert one.role == HeldRole(True, 1, 1, "10.0.0.1:10911")


def notice(address: str, epoch: int, master_id: int) -> RoleChangedRequest:
    return RoleChangedRequest(
        master_address=address, master_epoch=epoch, sync_state_set_epoch=9, master_broker_id=master_id
    )


SET_OF_ONE = b'{"syncStateSet":[1],"syncStateSetEpoch":9}'
FORGED = {
    "the master itself, in the last epoch": (notice("10.0.0.1:10911", 2**31 - 1, 1), SET_OF_ONE),
    "a master elsewhere": (notice("6.6.6.6:1", 2, 2), b""),
    "no address": (notice("x", 2, 2), b""),
    "an epoch below zero": (notice("10.0.0.1:10911", -1, 1), SET_OF_ONE),
}


@pytest.mark.parametrize(("header", "body"), FORGED.values(), ids=FORGED)
def test_a_forged_notice_changes_nothing(
    tmp_path: Path, clock: Clock, controller: OneController, header: RoleChangedRequest, body: bytes
) -> None:
    one, two = pair(controller, tmp_path, clock)
    before, roles = one.member.state.view, [*one.broker.roles]
    with suppress(RemoteError):
        one.member.notice(header, body)
    assert (one.member.state.view, one.broker.roles) == (before, roles)
    passed(clock, 5)
    assert (one.member.state.view, one.broker.roles) == (before, roles)
    one.line.is_cut = True
    controller.die(1)
    assert two.role == HeldRole(True, 2, 2, "10.0.0.1:10921"), "the true notice is as fast as ever"
    one.line.is_cut = False
    passed(clock, 4)
    assert one.role == HeldRole(False, 2, 2, "10.0.0.1:10921"), "what the controller decides later is followed"


def test_a_thousand_notices_are_a_few_questions(tmp_path: Path, clock: Clock, controller: OneController) -> None:
    one, _ = pair(controller, tmp_path, clock)
    before = len(controller.asked)
    for epoch in range(2, 1_002):
        one.member.notice(notice("10.0.0.1:10921", epoch, 2), b"")
    assert len(controller.asked) == before + 1
    passed(clock, 0.25)
    assert len(controller.asked) - before <= 3


def test_a_notice_of_too_many_members_is_refused(tmp_path: Path, clock: Clock, controller: OneController) -> None:
    one, _ = pair(controller, tmp_path, clock)
    before = len(controller.asked)
    body = b'{"syncStateSet":[' + b"1," * 29_999 + b'1],"syncStateSetEpoch":9}'
    with pytest.raises(RemoteError, match="the sync state set has 30000 members, the limit is 1024"):
        one.member.notice(notice("10.0.0.1:10921", 9, 2), body)
    assert len(controller.asked) == before


def body_of(members: object, set_epoch: object) -> bytes:
    return json.dumps({"syncStateSet": members, "syncStateSetEpoch": set_epoch}).encode()


WRONG = {
    "no port": ("x", 9, 2, body_of([2], 9)),
    "a port too large": ("10.0.0.1:65536", 9, 2, body_of([2], 9)),
    "a long address": (".".join(["a" * 60] * 5) + ":1", 9, 2, body_of([2], 9)),
    "an epoch below zero": ("10.0.0.1:10921", -9, 2, body_of([2], 9)),
    "an id below one": ("10.0.0.1:10921", 9, 0, body_of([2], 9)),
    "a set epoch below zero": ("10.0.0.1:10921", 9, 2, body_of([2], -1)),
    "a set epoch of 32 bits": ("10.0.0.1:10921", 9, 2, body_of([2], 2**31)),
    "a set epoch without end": (
        "10.0.0.1:10921",
        9,
        2,
        b'{"syncStateSet":[2],"syncStateSetEpoch":1' + b"0" * 99 + b"}",
    ),
    "a member below one": ("10.0.0.1:10921", 9, 2, body_of([2, 0], 9)),
    "a member of 64 bits": ("10.0.0.1:10921", 9, 2, body_of([2, 2**63], 9)),
}


@pytest.mark.parametrize(("address", "epoch", "master_id", "body"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("code", [RequestCode.CONTROLLER_GET_REPLICA_INFO, RequestCode.CONTROLLER_REGISTER_BROKER])
def test_an_answer_with_a_wrong_value_changes_nothing_and_is_told_once(
    tmp_path: Path,
    clock: Clock,
    controller: OneController,
    caplog: pytest.LogCaptureFixture,
    code: RequestCode,
    address: str,
    epoch: int,
    master_id: int,
    body: bytes,
) -> None:
    four: dict[str, Any] = {"master_address": address, "master_epoch": epoch, "master_broker_id": master_id}
    is_registration = code is RequestCode.CONTROLLER_REGISTER_BROKER
    header = RegisterToControllerResponse(**four) if is_registration else ReplicaInfoResponse(**four)
    one, _ = pair(controller, tmp_path, clock)
    before, roles = one.member.state.view, [*one.broker.roles]
    if is_registration:
        one.member.state = replace(one.member.state, phase=MemberPhase.REGISTERING, ask_due_ms=0)
    caplog.clear()
    controller.answers_only = code, (0, header, body)
    passed(clock, 6)  # a master is fenced later
    assert (one.member.state.view, one.broker.roles) == (before, roles)
    assert controller.asked.count(code) > 2
    told = [record.getMessage() for record in caplog.records]
    assert sum("no use of a controller" in line for line in told) <= 2, "once for each member"
    assert any("no use of a controller" in line for line in told)
    assert "Traceback" not in caplog.text
    controller.answers_only = None
    passed(clock, 3)
    assert one.member.state.view == before


@pytest.mark.parametrize("leader", ["x", "x" * 60 + ":1" + "1" * 9, ".".join(["a" * 60] * 5) + ":9878"])
def test_a_leader_without_an_address_is_none(
    tmp_path: Path, clock: Clock, controller: OneController, leader: str
) -> None:
    header = ControllerMetadataResponse(controller_leader_address=leader, is_leader=True)
    controller.answers_only = RequestCode.CONTROLLER_GET_METADATA_INFO, (0, header, b"")
    node = Node(controller, tmp_path, clock, 10911)
    passed(clock, 5)
    assert node.member.state.leader is None


@pytest.mark.parametrize("set_epoch", [-1, 0])
def test_a_changed_set_whose_epoch_does_not_grow_is_not_taken(
    tmp_path: Path, clock: Clock, controller: OneController, set_epoch: int
) -> None:
    one = Node(controller, tmp_path / "1", clock, 10911)
    passed(clock, 2)
    in_sync = one.broker.in_sync
    assert in_sync is not None
    answer = AlterSyncStateSetResponse(new_sync_state_set_epoch=set_epoch)
    controller.answers_only = RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, (0, answer, b"")
    before = one.broker.changes
    in_sync.connect(2, 0, 0, 0)
    passed(clock, 0.5)
    assert (in_sync.told, in_sync.counting) == (frozenset({1}), frozenset({1, 2}))
    assert one.broker.changes == before
