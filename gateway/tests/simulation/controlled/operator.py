"""Steps of the people who run the brokers of a group whose master a controller decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.settings import Settings
from gateway.settings.replication import BrokerRole
from gateway.settings.store import FlushDiskType
from gateway.tests.simulation.controlled.controller import ADDRESS, SimulatedController
from gateway.tests.simulation.controlled.member import Around, Member
from gateway.tests.simulation.ledger import Ledger
from gateway.tests.simulation.machine import Machine
from gateway.tests.simulation.names import LISTEN_PORT, NameServers
from gateway.tests.simulation.operator import Operator
from gateway.tests.simulation.process import Process
from gateway.tests.simulation.world import US_PER_S, ProcessEnded, World


class ControlledOperator(Operator):
    """The people of one history; a lineage is an epoch."""

    def __init__(
        self, world: World, machines: list[Machine], names: NameServers, ledger: Ledger, settings: list[Settings]
    ) -> None:
        super().__init__(world, machines, names, ledger, settings)
        machines[0].lineage = -1
        self.controller = SimulatedController(world, names.network, self._elected)
        self._around = Around(machines, self.slowness, self._begun, self._ended)
        ledger.is_current = self._is_current
        times: dict[str, Any] = {
            "controller_heartbeat_timeout_ms": world.random.choice((1_000, 3_000, 10_000)),
            "broker_heartbeat_interval_ms": world.random.choice((200, 1_000)),
            "sync_controller_metadata_period_ms": world.random.choice((1_000, 10_000)),
            "ha_max_time_slave_not_catchup_ms": world.random.choice((1_000, 5_000)),
        }
        common: dict[str, Any] = {
            "enable_controller_mode": True,
            "controller_addr": ADDRESS,
            "listen_port": LISTEN_PORT,
            **times,
        }
        self._settings = [replace(each, **common, min_in_sync_replicas=ledger.copies + 1) for each in settings]

    def _elected(self, broker_id: int) -> None:
        host = self.controller.addresses[broker_id].partition(":")[0]
        self.master_machine = next(machine for machine in self._machines if machine.host == host)
        self._ledger.lineage = self.master_machine.lineage = self.controller.epoch
        self.promotions += 1

    def _is_current(self, master: Process) -> bool:
        group = master.parts.group
        return group is not None and group.lead is not None and group.epoch == self.controller.epoch

    def master(self) -> Process | None:
        """Return the last master that was elected, if it takes requests in its epoch."""
        process = super().master()
        return process if process is not None and self._is_current(process) else None

    def slaves(self) -> list[Process]:
        """Return the running slaves; an earlier master that still runs is none."""
        return [process for process in super().slaves() if process.is_slave]

    def asked(self) -> Process | None:
        """Return any broker that takes itself for the master."""
        running = [machine.process for machine in self._machines if machine.process is not None]
        found = [each for each in running if each.is_ready and not each.is_stopping and not each.is_slave]
        return self._random.choice(found) if found else None

    def start(self, machine: Machine) -> None:
        """Start a machine's broker, which asks the controller for its role."""
        if machine.member is not None:
            return
        machine.has_power = True
        self.starts += 1
        settings = self._settings[machine.number]
        member = Member(self._world, machine, self._names, self.controller, settings, self._around)
        before, self._world.current = self._world.current, member
        try:
            member.start()
        except ProcessEnded:
            pass
        finally:
            self._world.current = before
        self._world.check()

    def start_alone(self, machine: Machine) -> None:
        """Start a machine's broker without a controller, as one that waits for no slave."""
        settings = replace(
            self._settings[machine.number],
            enable_controller_mode=False,
            broker_id=0,
            broker_role=BrokerRole.ASYNC_MASTER,
            flush_disk_type=FlushDiskType.SYNC_FLUSH,
        )
        self._begin(machine, settings)

    def promote(self) -> None:
        """Let the controller elect another member of the set."""
        self.controller.elect_another()

    def rest_controller(self) -> None:
        """Let the controller answer nothing for a while."""
        seconds = self._random.choice((1, 4, 15))
        self._world.tell(f"controller silent for {seconds} s")
        self.controller.silent_until_us = self._world.now_us + seconds * US_PER_S

    def restart_controller(self) -> None:
        """Let the controller start again."""
        self._world.tell("controller starts again")
        self.controller.restart()

    def empty_refused(self) -> None:
        """Do nothing: a member cuts its own log where it differs."""
