"""The name servers: which broker has which id at which address. They may forget, and be out of reach."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from gateway.tests.simulation.network import NAMES, Network
from gateway.tests.simulation.world import US_PER_S, World

QUICK = 0.7
"""The part of the starts before which the name servers have answered."""
PERIOD_S = 10
TIMEOUT_S = 3
LISTEN_PORT = 10911
HA_PORT = 10912


class NameServers:
    """The table of brokers of one name."""

    def __init__(self, world: World, network: Network) -> None:
        self.world = world
        self.network = network
        self.table: dict[int, Any] = {}
        """The process that registered each id last."""

    def forget(self, process: Any) -> None:
        """The connection of a broker is closed."""
        self.table = {broker_id: known for broker_id, known in self.table.items() if known is not process}

    def forget_all(self) -> None:
        """Start again."""
        self.table.clear()


class Registration:
    """The way of one broker to the name servers."""

    def __init__(self, names: NameServers, process: Any) -> None:
        self._names = names
        self._process = process
        self._known: tuple[str, str] | None = None

    def begin(self) -> None:
        """Register before anything else, if the name servers answer at once."""
        names, number = self._names, self._process.machine.number
        blocked = names.network.blocked
        if not {(number, NAMES), (NAMES, number)} & blocked and names.world.random.random() < QUICK:
            self._known = self._noted()

    def start(self) -> None:
        """Register now and again and again."""
        self._register()
        self._names.world.later(PERIOD_S * US_PER_S, self._process, self.start)

    def _register(self) -> None:
        network, number = self._names.network, self._process.machine.number
        network.post(number, NAMES, self._registered)

    def _registered(self) -> None:
        names, process = self._names, self._process
        if not process.is_alive:
            return
        names.network.post(NAMES, process.machine.number, self._answered, self._noted())

    def _noted(self) -> tuple[str, str] | None:
        """Note the broker; return the addresses of the master."""
        names, process = self._names, self._process
        host = process.machine.host
        names.table = {key: known for key, known in names.table.items() if known.machine.host != host}
        names.table[process.broker_id] = process
        names.table = dict(sorted(names.table.items()))
        master = names.table.get(0)
        if master is None:
            return None
        return f"{master.machine.host}:{LISTEN_PORT}", f"{master.machine.host}:{HA_PORT}"

    def _answered(self, master: tuple[str, str] | None) -> None:
        if self._process.is_alive:
            self._known = master

    # -- as ``NameServerRegistration`` --------------------------------------------------------------------------

    @property
    def master(self) -> tuple[str, str] | None:
        """The addresses of the master."""
        return self._known

    def register_soon(self) -> None:
        """Register again."""
        self._register()

    def members(self) -> Awaitable[Mapping[int, str] | None]:
        """Return the brokers by id; None if no name server answers."""
        world, network, process = self._names.world, self._names.network, self._process
        number = process.machine.number
        waiting: Deferred[Mapping[int, str] | None] = Deferred()

        def fire(found: Mapping[int, str] | None) -> None:
            if not waiting.called:
                waiting.callback(found)

        def back(found: Mapping[int, str]) -> None:
            if process.is_alive:
                world.carry_out(process, fire, found)

        def asked() -> None:
            found = {key: f"{known.machine.host}:{LISTEN_PORT}" for key, known in self._names.table.items()}
            network.post(NAMES, number, back, found)

        network.post(number, NAMES, asked)
        world.later(TIMEOUT_S * US_PER_S, process, fire, None)
        return waiting
