"""The member of a controller at work: time, answers and notices go into the machine, and its actions are carried out.

The broker whose role is decided is behind ``ControlledBroker``. Its role changes one at a time. While it is the master,
the controller is asked for another sync state set as soon as slaves join, leave or fall behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.interfaces import IDelayedCall

from gateway.errors import GatewayError
from gateway.in_thread import InThread
from gateway.reactor.interface import TimeSource
from gateway.reactor.thread_result import thread_result
from gateway.replication.controlled.controllers import AskedSet, Controllers, view_of
from gateway.replication.controlled.identity import IdentityFiles
from gateway.replication.controlled.machine import (
    RETRY_MS,
    Ask,
    Fence,
    GroupView,
    HeldRole,
    IdRefused,
    KeepApplied,
    KeepIdentity,
    MemberAction,
    MemberEvent,
    MemberState,
    RoleChanged,
    RoleFailed,
    RoleTaken,
    SetChanged,
    TakeRole,
    Tick,
    Timing,
    step,
)
from gateway.replication.controlled.sync_set import InSyncMembers
from gateway.settings import Settings
from gateway.telemetry.logs import EventLog
from wire.headers.controller import RoleChangedRequest
from wire.headers.name_server import BrokerHeartbeatRequest

log = EventLog("controller")

TICK_S = 0.25
"""The time between two looks at what is due."""


class LogEnds(NamedTuple):
    """The ends of a log as heartbeats tell them: candidates are compared by epoch, then by ``max_offset``."""

    epoch: int
    max_offset: int
    confirm_offset: int


class ControlledBroker(Protocol):
    """The broker whose role the controller decides."""

    @property
    def in_sync(self) -> InSyncMembers | None:
        """The sync state set of a master; None of a slave, and as long as nothing is served."""

    def ends(self) -> LogEnds:
        """Return the ends of the log."""

    def set_changed(self) -> None:
        """Note that ``in_sync`` counts other members now."""

    def keep_asked(self, members: frozenset[int], set_epoch: int) -> None:
        """Write down that the controller may take a set, before it is asked; blocks.

        :param set_epoch: the epoch of the set before.
        :raises OSError: it cannot be written.
        """

    async def take(self, role: HeldRole, own_id: int, view: GroupView) -> None:
        """Stop what runs, and serve in a role; return when clients may connect.

        :raises GatewayError: the role cannot be taken.
        """

    async def fence(self) -> None:
        """Stop what runs, and serve nothing."""


class ControllerMember:
    """One member.

    :param files: the id in the directory.
    :param reactor: whose seconds never run backwards.
    """

    def __init__(
        self,
        settings: Settings,
        controllers: Controllers,
        files: IdentityFiles,
        broker: ControlledBroker,
        reactor: TimeSource,
        in_thread: InThread,
    ) -> None:
        self._settings = settings
        self._controllers = controllers
        self._files = files
        self._broker = broker
        self._reactor = reactor
        self._in_thread = in_thread
        self._next_tick: IDelayedCall | None = None
        self._next_beat_s = 0.0
        self._role_work: Deferred[None] | None = None
        self._is_altering = False
        self._has_stopped = True
        self._first: Deferred[None] = Deferred()
        timing = Timing(
            leader_every_ms=settings.sync_controller_metadata_period_ms,
            group_every_ms=settings.controller_heartbeat_timeout_ms // 4,
            lifetime_ms=settings.controller_heartbeat_timeout_ms,
        )
        self.state = MemberState(cluster=settings.broker_cluster_name, broker_name=settings.broker_name, timing=timing)

    # -- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin, and return when a role is held for the first time.

        :raises GatewayError: the files of the id or the directory cannot be used.
        """
        identity, applied = await thread_result(self._in_thread, self._files.load)
        self.state = replace(self.state, identity=identity, applied=applied)
        self._has_stopped = False
        log.info("waiting for a role", controllers=self._settings.controller_addr, id=self.state.broker_id)
        self._tick()
        await self._first

    async def stop(self) -> None:
        """Ask nothing more; return when no role is being taken."""
        self._has_stopped = True
        if self._next_tick is not None and self._next_tick.active():
            self._next_tick.cancel()
        if self._role_work is not None:
            await self._role_work

    def take_again(self) -> None:
        """Take the role that is held once more, after what runs is stopped."""
        if self.state.taking is None:
            self._feed(RoleFailed())

    def notice(self, header: RoleChangedRequest, body: bytes) -> None:
        """Ask the controllers' leader at once, because of a notice that a master was elected.

        :raises RemoteError: it names no group.
        """
        view = view_of(header, body)
        if view.master_id is not None:
            self._feed(RoleChanged(view.epoch))

    # -- the machine --------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._next_tick = self._reactor.callLater(TICK_S, self._tick)
        self._feed(Tick())
        self._beat()
        self._judge_set()

    def _now_ms(self) -> int:
        return int(self._reactor.seconds() * 1_000)

    def _feed(self, event: MemberEvent) -> None:
        if self._has_stopped:
            return
        self.state, actions = step(self.state, event, self._now_ms())
        self._tell_set()
        if actions:
            ensureDeferred(self._carry_out(actions))

    async def _carry_out(self, actions: Sequence[MemberAction]) -> None:
        for action in actions:
            match action:
                case KeepApplied(applied):
                    if not await self._kept(partial(self._files.keep_applied, applied)):
                        self._feed(IdRefused())  # it is not asked for before it is on disk
                        return
                case KeepIdentity(identity):
                    if await self._kept(partial(self._files.keep, identity)):
                        log.info("broker id taken", id=identity.broker_id, broker=identity.broker_name)
                case Ask(question):
                    self._feed(await self._controllers.ask(question, self.state))
                case TakeRole(role):
                    self._change_role(partial(self._take, role))
                case Fence(silent_ms):
                    log.error("nothing is served: no controller answers", silent_ms=silent_ms)
                    self._change_role(self._broker.fence)

    async def _kept(self, write: Callable[[], None]) -> bool:
        try:
            await thread_result(self._in_thread, write)
        except OSError as error:
            log.error("the broker id cannot be kept", reason=error.strerror or str(error), file=str(error.filename))
            return False
        return True

    # -- roles --------------------------------------------------------------------------------------------------

    def _change_role(self, work: Callable[[], Any]) -> None:
        """Start work after the work before it has ended."""
        before = self._role_work

        async def in_turn() -> None:
            if before is not None:
                await before
            await work()

        # Whoever waits for this one gets no result of it, so each waits for its own copy.
        done: Deferred[None] = Deferred()
        self._role_work = done
        running = ensureDeferred(in_turn())
        running.addErrback(lambda failure: log.error("a role could not be left", failure=failure.value))
        running.addBoth(lambda _: done.callback(None))

    async def _take(self, role: HeldRole) -> None:
        view, own_id = self.state.view, self.state.broker_id
        assert view is not None, "it names the role"
        assert own_id is not None, "taken before"
        if self._has_stopped:
            return
        if self.state.wanted != role:  # while what ran before was stopped, the controller told of another master
            self._feed(RoleFailed())
            return
        log.info(
            "role of the controller",
            role="master" if role.is_master else "slave",
            epoch=role.epoch,
            master=role.master_address,
            id=own_id,
            sync_state_set=sorted(view.sync_state_set),
        )
        try:
            await self._broker.take(role, own_id, view)
        except Exception as error:  # noqa: BLE001 - the first failure ends the start, each other one is tried again
            if not self._first.called:
                self._has_stopped = True
                self._first.errback(error)
                return
            if isinstance(error, GatewayError):
                log.error("the role cannot be taken", reason=str(error))
            else:
                log.error("the role cannot be taken", failure=error)
            self._reactor.callLater(RETRY_MS / 1_000, lambda: self._feed(RoleFailed()))
            return
        self._feed(RoleTaken(role))
        if not self._first.called:
            self._first.callback(None)

    # -- signs of life ------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        own_id, now_s = self.state.broker_id, self._reactor.seconds()
        if own_id is not None and now_s >= self._next_beat_s:
            self._next_beat_s = now_s + self._settings.broker_heartbeat_interval_ms / 1_000
            ensureDeferred(self._controllers.beat(partial(self._heartbeat, own_id)))

    def _heartbeat(self, own_id: int, own_address: str) -> BrokerHeartbeatRequest:
        ends = self._broker.ends()
        return BrokerHeartbeatRequest(
            cluster_name=self.state.cluster,
            broker_addr=own_address,
            broker_name=self.state.broker_name,
            broker_id=own_id,
            epoch=ends.epoch,
            max_offset=ends.max_offset,
            confirm_offset=ends.confirm_offset,
            heartbeat_timeout_mills=self._settings.controller_heartbeat_timeout_ms,
            election_priority=self._settings.broker_election_priority,
        )

    # -- the sync state set -------------------------------------------------------------------------------------

    def _tell_set(self) -> None:
        """Give a master the set that the controller named in the master's own epoch."""
        view, held, in_sync = self.state.view, self.state.held, self._broker.in_sync
        if view is None or held is None or not held.is_master or view.epoch != held.epoch or in_sync is None:
            return
        before = in_sync.counting
        in_sync.tell(view.sync_state_set, view.set_epoch, self._now_ms())
        if in_sync.counting != before:
            self._broker.set_changed()

    def slaves_changed(self) -> None:
        """Look at the sync state set now: a slave joined, left or caught up."""
        self._judge_set()

    def _judge_set(self) -> None:
        held, in_sync = self.state.held, self._broker.in_sync
        if held is None or not held.is_master or in_sync is None or self._is_altering or self._has_stopped:
            return
        wanted = in_sync.wanted(self._broker.ends().max_offset, self._now_ms())
        if wanted is not None:
            self._is_altering = True
            ensureDeferred(self._alter(in_sync, AskedSet(wanted, held.epoch, in_sync.set_epoch)))

    async def _alter(self, in_sync: InSyncMembers, asked: AskedSet) -> None:
        in_sync.ask(asked.members, self._now_ms())
        changed = None
        if await self._is_asked_kept(in_sync, asked):
            changed = await self._controllers.alter(self.state, asked)
        if changed is None:
            in_sync.lose()
            self._reactor.callLater(RETRY_MS / 1_000, self._may_alter)
            return
        self._is_altering = False
        members, set_epoch = changed
        log.info("sync state set changed", members=sorted(members), before=sorted(in_sync.told), set_epoch=set_epoch)
        in_sync.answer(members, set_epoch, self._now_ms())
        self._broker.set_changed()
        self._feed(SetChanged(members, set_epoch))

    async def _is_asked_kept(self, in_sync: InSyncMembers, asked: AskedSet) -> bool:
        """Return whether a restart would know the members that the question may add."""
        if in_sync.doubted <= in_sync.told:
            return True
        try:
            await thread_result(self._in_thread, partial(self._broker.keep_asked, in_sync.doubted, asked.set_epoch))
        except OSError as error:
            log.error("no member can be added", reason=error.strerror or str(error), file=str(error.filename))
            return False
        return True

    def _may_alter(self) -> None:
        self._is_altering = False
