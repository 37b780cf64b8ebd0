"""A history in which a group pops besides: a stored message is popped until the group acknowledges it.

In every third history the group pops in order.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.tests.simulation.history import WORK, History
from gateway.tests.simulation.popping.poppers import Poppers

POP_JOBS = {"pops", "revive topic"}
ORDERLY = 3
"""One history in so many pops in order."""


class PoppingHistory(History):
    """One history."""

    kind = "popping"
    option = " --pops"
    work_of_kind: Mapping[str, float] = {**WORK, "pop": 5.0, "acknowledge": 5.0}

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        super().__init__(seed, is_traced=is_traced)
        in_order = seed % ORDERLY == 0
        self.poppers = Poppers(self.world, self._ledger, self.operator.asked, in_order=in_order)
        self._actors = (*self._actors, self.poppers)
        self.clients.has_late_topic = True
        for machine in self._machines:
            machine.jobs |= POP_JOBS

    def _unhealed(self) -> str | None:
        left = self.poppers.left()
        if left is not None:
            self.poppers.pop_the_rest()
        fault = super()._unhealed()
        if fault is None and left is not None:
            fault = f"{left} is acknowledged to its sender, and a group that pops does not get it"
        return fault
