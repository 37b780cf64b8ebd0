"""A history in which a controller decides who is the master."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.settings import Settings
from gateway.tests.simulation.controlled.operator import ControlledOperator
from gateway.tests.simulation.history import FAULTS, History
from gateway.tests.simulation.names import NameServers

CONTROLLER_FAULTS = {"rest_controller": 0.7, "restart_controller": 0.3}
FIRST_MASTER_S = 30
OLD_LOG_SHARE = 0.3
"""The share of histories in which the first broker has messages from a time without a controller."""


class ControlledHistory(History):
    """One history."""

    kind = "controlled"
    option = " --controller"
    faults_of_kind: Mapping[str, float] = {**FAULTS, **CONTROLLER_FAULTS}
    operator: ControlledOperator

    def _operator(self, names: NameServers, settings: list[Settings]) -> ControlledOperator:
        return ControlledOperator(self.world, self._machines, names, self._ledger, settings)

    def _begin(self) -> None:
        operator = self.operator
        if self._random.random() < OLD_LOG_SHARE:
            self._store_alone()
        for machine in self._machines:
            operator.start(machine)
            self.world.run(10_000)
        if not operator.run_until(lambda: operator.master() is not None, FIRST_MASTER_S):
            self.world.break_promise(f"no master after {FIRST_MASTER_S} s")
        self.world.check()
        self.clients.create_topic("A")
        self.clients.create_topic("B")
        if self._random.random() < 0.85:
            members = len(self._machines)
            operator.run_until(lambda: len(operator.controller.set) == members, 12)

    def _store_alone(self) -> None:
        """Let the first broker acknowledge messages before the group exists; nobody else has to have them yet."""
        operator, machine = self.operator, self._machines[0]
        copies, self._ledger.copies = self._ledger.copies, 0
        operator.start_alone(machine)
        self.clients.create_topic("A")
        self.clients.create_topic("B")
        for _ in range(self._random.randrange(40)):
            self.clients.send()
            self.world.run(20_000)
        operator.stop_and_wait(machine)
        self._ledger.copies = copies
