"""The process of a controller's member: the real service, whose brokers are those of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from gateway.broker import controlled
from gateway.broker.controlled import ControlledBrokerService
from gateway.errors import GatewayError
from gateway.replication.controlled.place import PlaceInGroup
from gateway.settings import Settings
from gateway.tests.simulation.controlled.controller import ControllerLine, SimulatedController
from gateway.tests.simulation.machine import SPACE, Machine, durable_end_of
from gateway.tests.simulation.names import NameServers
from gateway.tests.simulation.process import Process, Threads
from gateway.tests.simulation.world import ProcessEnded, SimulatedReactor, World


class MachineDisk:
    """The disk of a machine for a process that lives longer than one role."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine.disk, name)


class Member:
    """A running process with a member of the controller's group, which has one role after another."""

    is_ready = True

    def __init__(
        self,
        world: World,
        machine: Machine,
        names: NameServers,
        controller: SimulatedController,
        settings: Settings,
        around: Around,
    ) -> None:
        self.world = world
        self.machine = machine
        self.names = names
        self.around = around
        self.is_alive = True
        self.is_stopping = False
        machine.member = machine.disk.process = self
        self.disk = MachineDisk(machine)
        self.reactor = SimulatedReactor(world, self, names.network)
        self.threads = Threads(world, self)
        self.line = ControllerLine(world, controller, machine, self)
        with (
            patch.object(controlled, "BrokerService", self._make_role),
            patch.object(controlled, "RemotingClient", lambda *_, **__: self.line),
            patch.object(controlled, "in_thread_pool", lambda *_: self.threads.in_pool),
            patch.object(controlled, "FlushGroup", lambda _: SimpleNamespace(carry_out=None)),
        ):
            before, world.current = world.current, self
            files: Any = self.disk
            self.service = ControlledBrokerService(settings, self.reactor, machine.clock_ms, None, files)
            world.current = before

    @property
    def paused_until_us(self) -> int:
        """The time at which the machine goes on."""
        return self.machine.paused_until_us

    def _make_role(self, settings: Settings, *, group: PlaceInGroup, **_: object) -> Role:
        return Role(self, settings, group)

    def start(self) -> None:
        """Ask the controller for a role."""
        ensureDeferred(self.service.start()).addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        """End the process, whose first role could not be taken."""
        if not self.is_alive or failure.check(ProcessEnded) is not None:  # type: ignore[no-untyped-call]
            return
        if self.machine.disk.space is SPACE and not self.machine.had_errors:
            self.world.break_promise(f"machine {self.machine.number} does not start: {failure.value!r}")
        self.end_now()

    def stop(self) -> None:
        """Begin an orderly stop."""
        if not self.is_stopping:
            self.is_stopping = True
            ensureDeferred(self.service.stop()).addBoth(self._stopped)

    def _stopped(self, result: object) -> None:
        if not self.is_alive:
            return
        if isinstance(result, Failure):
            self.world.break_promise(f"machine {self.machine.number} does not stop: {result.value!r}")
        self.end_now()

    def role_ended(self, process: Process, is_orderly: bool) -> None:
        """The broker of a role has ended; unless it was told to, the process has."""
        self.around.ended(process, is_orderly)
        if not is_orderly and self.is_alive:
            self.end_now()

    def end_now(self, *, says_so: bool = True) -> None:
        """End the process, whatever it was doing."""
        if not self.is_alive:
            return
        self.is_alive = False
        machine = self.machine
        machine.member = None
        if machine.process is not None:
            machine.process.end_now(says_so=says_so)
        elif machine.disk.process is self:
            machine.settle_disk()
        self.names.network.ended(self, says_so=says_so)
        if says_so:
            self.line.closed_by_system()
        self.world.tell(f"{machine.number} has no member any more")


class Around(NamedTuple):
    """What a history does with the brokers of roles.

    :param slowness: as of ``Process``.
    :param begun: called with a broker that has started.
    :param ended: called with a broker that has ended, with True after an orderly stop.
    """

    machines: list[Machine]
    slowness: int
    begun: Callable[[Process], None]
    ended: Callable[[Process, bool], None]


class Role:
    """The broker of one role, in place of a ``BrokerService``."""

    def __init__(self, member: Member, settings: Settings, group: PlaceInGroup) -> None:
        self._member = member
        self._settings = settings
        self._group = group
        self._process: Process | None = None

    @property
    def durable_end(self) -> int:
        """The offset below which everything is on disk."""
        process = self._process
        return self._member.machine.known_end if process is None or not process.is_alive else durable_end_of(process)

    def members_changed(self) -> None:
        """Look at the sync state set again."""
        if self._process is not None and self._process.parts.master is not None:
            self._process.parts.master.members_changed()

    async def start(self) -> None:
        """Start."""
        member, world = self._member, self._member.world
        world.tell(f"{member.machine.number} becomes {self._settings.broker_role} in epoch {self._group.epoch}")
        before = world.current
        try:
            world.current = member
            self._process = process = Process(
                world,
                member.machine,
                member.names,
                self._settings,
                member.around.machines,
                member.around.slowness,
                group=self._group,
            )
            process.on_end = member.role_ended
            world.current = process
            process.start()
            member.around.begun(process)
        except ProcessEnded:
            member.end_now()
            raise
        except (GatewayError, OSError):
            had_errors = member.machine.had_errors
            process.on_end = member.around.ended
            process.end_now()
            member.machine.had_errors = had_errors
            raise
        finally:
            world.current = before

    async def stop(self) -> None:
        """Stop in order; for ever if the process ends meanwhile."""
        member, process = self._member, self._process
        if process is None or not process.is_alive:
            return
        process.stop()
        assert process.stopped is not None
        await process.stopped
        if not member.is_alive:
            await Deferred()
        member.machine.disk.process = member
