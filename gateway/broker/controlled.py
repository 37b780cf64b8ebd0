"""A broker whose role a controller decides: one ``BrokerService`` after another over one directory.

Each role is a ``BrokerService`` of its own: the one before is stopped in order, then the next one starts. Without a
role nothing is served and nothing is registered, and the connections to the controllers go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.defer import ensureDeferred

from gateway.access.control import AccessControl
from gateway.broker.announcing.advertised import fixed_address
from gateway.broker.service import BrokerService, NameServerNextDoor, signs
from gateway.broker.takeover import cut_directory
from gateway.clock import Milliseconds, steady_clock
from gateway.errors import GatewayError
from gateway.reactor.log_thread import in_thread_pool
from gateway.reactor.thread_result import thread_result
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.client import RemotingClient
from gateway.remoting.dispatch import Dispatch
from gateway.replication.auto_switch.group import FoundLog, MasterOfGroup, SlaveOfGroup
from gateway.replication.auto_switch.master_side import MasterSide
from gateway.replication.auto_switch.slave_side import SlaveSide
from gateway.replication.controlled.asked_file import AskedFile
from gateway.replication.controlled.controllers import Controllers
from gateway.replication.controlled.identity import IdentityFiles
from gateway.replication.controlled.machine import GroupView, HeldRole
from gateway.replication.controlled.member import ControllerMember, LogEnds
from gateway.replication.controlled.place import PlaceInGroup
from gateway.replication.controlled.sync_set import InSyncMembers
from gateway.replication.epoch_file import EpochFile
from gateway.settings import Address, Settings
from gateway.settings.addresses import parse_address
from gateway.settings.replication import BrokerRole
from gateway.store.disk.files import FileLayer
from gateway.telemetry.logs import EventLog
from wire.headers.controller import RoleChangedRequest

log = EventLog("controller")
FIRST_ROLE_PATIENCE_S = 10.0
"""Seconds that a start waits for a role; the role may come at any time after that."""
NO_LOG = LogEnds(epoch=0, max_offset=0, confirm_offset=0)


class LifeOfBroker(Protocol):
    """One broker in one role; ``BrokerService`` is one."""

    @property
    def durable_end(self) -> int:
        """The offset below which everything is on disk."""

    def members_changed(self) -> None:
        """Look at the sync state set again."""

    async def start(self) -> None:
        """Start."""

    async def stop(self) -> None:
        """Stop in order."""


class CountedMembers:
    """The sync state set of one master for its connections (``SyncMembers``).

    :param changed: called when a slave joined, left or reported.
    """

    def __init__(self, members: InSyncMembers, changed: Callable[[], None]) -> None:
        self._members = members
        self._changed = changed

    @property
    def counting(self) -> frozenset[int]:
        """Implement ``SyncMembers.counting``."""
        return self._members.counting

    def connect(self, broker_id: int, end: int, own_end: int, now_ms: int, /) -> None:
        """Implement ``SyncMembers.connect``."""
        self._members.connect(broker_id, end, own_end, now_ms)
        self._changed()

    def report(self, broker_id: int, end: int, own_end: int, now_ms: int, /) -> None:
        """Implement ``SyncMembers.report``; most reports are of members, and change nothing."""
        self._members.report(broker_id, end, own_end, now_ms)
        if broker_id not in self._members.told:
            self._changed()

    def leave(self, broker_id: int, /) -> None:
        """Implement ``SyncMembers.leave``."""
        self._members.leave(broker_id)
        self._changed()

    def confirmed(self, own_end: int, /) -> int:
        """Implement ``SyncMembers.confirmed``."""
        return self._members.confirmed(own_end)


class ControlledBrokerService:
    """The server of a process with ``enableControllerMode``; its parameters are those of ``BrokerService``."""

    def __init__(
        self,
        settings: Settings,
        reactor: Any,
        clock: Milliseconds,
        name_server: NameServerNextDoor | None,
        files: FileLayer | None = None,
        access: AccessControl | None = None,
    ) -> None:
        self._settings = settings
        self._reactor = reactor
        self._make_service = partial(
            BrokerService, reactor=reactor, clock=clock, name_server=name_server, files=files, access=access
        )
        self._files = files
        flush_group = FlushGroup(reactor)
        self._in_thread = in_thread_pool(reactor, flush_group.carry_out)
        self._client = RemotingClient(reactor, Dispatch(), settings, flush_group, self._in_thread, sign=signs(settings))
        self._controllers = Controllers(
            self._client, settings.controller_addresses, steady_clock(clock), self._own_address
        )
        root = settings.store_path_root_dir
        self._epoch_file = EpochFile(root)
        self._asked_file = AskedFile(root)
        self._member = ControllerMember(
            settings,
            self._controllers,
            IdentityFiles(root, settings.broker_cluster_name, settings.broker_name),
            self,
            reactor,
            self._in_thread,
        )
        self._service: LifeOfBroker | None = None
        self._cut_at: int | None = None
        self._ends = NO_LOG
        self._in_sync: InSyncMembers | None = None
        self._led: tuple[int, InSyncMembers] | None = None
        """The last epoch of this broker as a master, and its members; what is in doubt outlasts a fence."""

    # -- the server -----------------------------------------------------------------------------------------

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """The address at which clients find the broker while it has a role."""
        return [(self._settings.bind_address, self._settings.listen_port)]

    @property
    def advertised(self) -> Sequence[Address | None]:
        """The address that clients get instead; None unless the settings name one."""
        address = fixed_address(self._settings, self._settings.listen_port)
        return [None if address in self.addresses else address]

    async def start(self) -> None:
        """Wait ``FIRST_ROLE_PATIENCE_S`` seconds at most for the first role, and serve in it.

        :raises GatewayError: the first role cannot be taken, or the id in the directory cannot be used.
        """
        self._client.startService()
        first = ensureDeferred(self._member.start())
        first.addTimeout(FIRST_ROLE_PATIENCE_S, self._reactor)
        try:
            await first
        except DeferredTimeout:
            log.warning("nothing is served yet: no controller gave a role", waited_s=FIRST_ROLE_PATIENCE_S)

    async def stop(self) -> None:
        """Stop in order, and then leave the controllers, which elect another master at once."""
        await self._member.stop()
        try:
            await self._end_service()
        finally:
            await self._client.stopService()

    def _own_address(self, reached_at: str) -> str:
        host, port = self._settings.advertised
        return str(Address(host or reached_at, self._settings.listen_port if port is None else port))

    # -- the member's broker --------------------------------------------------------------------------------

    @property
    def in_sync(self) -> InSyncMembers | None:
        """Implement ``ControlledBroker.in_sync``."""
        return self._in_sync

    def ends(self) -> LogEnds:
        """Implement ``ControlledBroker.ends``."""
        if self._service is not None:
            end = self._service.durable_end
            confirmed = end if self._in_sync is None else self._in_sync.confirmed(end)
            self._ends = LogEnds(self._ends.epoch, end, confirmed)
        return self._ends

    def set_changed(self) -> None:
        """Implement ``ControlledBroker.set_changed``."""
        if self._service is not None:
            self._service.members_changed()

    def keep_asked(self, members: frozenset[int], set_epoch: int) -> None:
        """Implement ``ControlledBroker.keep_asked``."""
        self._asked_file.keep(members, set_epoch)

    async def take(self, role: HeldRole, own_id: int, view: GroupView) -> None:
        """Implement ``ControlledBroker.take``."""
        cut_at, self._cut_at = self._cut_at, None
        await self._end_service()
        if role.is_master:  # its log is the group's now, whatever was to be cut
            settings = replace(self._settings, broker_role=BrokerRole.SYNC_MASTER, broker_id=0)
        else:
            if cut_at is not None:
                await self._cut(cut_at, role)
            settings = replace(self._settings, broker_role=BrokerRole.SLAVE, broker_id=own_id)
        service = self._make_service(settings, group=self._place(role, own_id, view))
        try:
            await service.start()
        except BaseException:
            self._in_sync = None
            await service.stop()
            raise
        self._service = service
        self._ends = self._ends._replace(epoch=role.epoch)

    async def fence(self) -> None:
        """Implement ``ControlledBroker.fence``."""
        await self._end_service()

    async def _end_service(self) -> None:
        """Stop what runs; what could not be saved is logged, and the next role recovers the directory."""
        self.ends()
        service, self._service, self._in_sync = self._service, None, None
        if service is not None:
            try:
                await service.stop()
            except GatewayError as error:
                log.error("a role was left with a loss", reason=str(error))

    # -- one role -------------------------------------------------------------------------------------------

    def _place(self, role: HeldRole, own_id: int, view: GroupView) -> PlaceInGroup:
        common: dict[str, Any] = {
            "own_id": own_id,
            "epoch": role.epoch,
            "epoch_file": self._epoch_file,
            "notice": self._notice,
        }
        if not role.is_master:
            master = parse_address(role.master_address)
            follow = SlaveSide(SlaveOfGroup(own_id, self._epoch_file, lambda: master, self._ask_for_cut))
            return PlaceInGroup(**common, follow=follow)
        lead = MasterOfGroup(
            role.epoch,
            self._epoch_file,
            partial(self._make_members, own_id, role.epoch, view),
            self._settings.min_in_sync_replicas,
        )
        return PlaceInGroup(**common, lead=MasterSide(lead, self._now_ms))

    def _now_ms(self) -> int:
        return int(self._reactor.seconds() * 1_000)

    def _make_members(self, own_id: int, epoch: int, view: GroupView, found: FoundLog) -> CountedMembers:
        before, now_ms = self._led, self._now_ms()
        if before is None or before[0] != epoch:
            max_behind_ms = self._settings.ha_max_time_slave_not_catchup_ms
            members = InSyncMembers(own_id, max_behind_ms=max_behind_ms)
            self._led = epoch, members
        else:
            members = before[1]
        self._in_sync = members
        members.begin(*found)
        members.tell(view.sync_state_set, view.set_epoch, now_ms)
        if before is None:  # this process has asked nothing yet, but the one before may have
            members.doubt(self._asked_file.doubted(view.set_epoch), now_ms)
        return CountedMembers(members, self._member.slaves_changed)

    def _ask_for_cut(self, offset: int) -> None:
        """Take the role again, with a cut of the log in between."""
        self._cut_at = offset
        self._member.take_again()

    async def _cut(self, offset: int, role: HeldRole) -> None:
        """Cut the log at the place up to which it is the master's, with what was derived from the rest."""
        cut = await thread_result(self._in_thread, partial(cut_directory, self._settings, offset, self._files))
        log.warning(
            "the log was cut where it differs from the master's",
            offset=cut.offset,
            log_end=cut.end,
            kept=cut.copy,
            master=role.master_address,
        )

    def _notice(self, host: str, header: RoleChangedRequest, body: bytes) -> bool:
        if not self._controllers.is_host(host):
            return False
        self._member.notice(header, body)
        return True
