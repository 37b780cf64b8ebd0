"""Steps of machines, networks and strangers."""

from __future__ import annotations

import errno

from gateway.tests.crash.disk.recording import Fault
from gateway.tests.simulation.machine import FULL, SPACE, Machine
from gateway.tests.simulation.names import HA_PORT, NameServers
from gateway.tests.simulation.network import NAMES, STRANGER, End
from gateway.tests.simulation.operator import Operator
from gateway.tests.simulation.world import US_PER_S, World
from wire.replication.classic import StretchReader, build_report

FAULTS = ("pwrite", "fdatasync")
PARTS = ("commitlog", "consumequeue", "config", "")


class Stranger:
    """A peer at the port for slaves that is none.

    :param end: its end of the connection if it claims to have everything that it is sent; None if it is silent.
    """

    def __init__(self, end: End | None) -> None:
        self._end = end
        self._stretches = StretchReader()

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """Read what comes."""
        if self._end is not None:
            for stretch in self._stretches.receive_data(data):
                self._end.write(build_report(stretch.offset + len(stretch.body)))

    def connectionLost(self, reason: object) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing."""


class Faults:
    """The faults of one history."""

    def __init__(self, world: World, machines: list[Machine], names: NameServers, operator: Operator) -> None:
        self._world = world
        self._random = world.random
        self._machines = machines
        self._names = names
        self._network = names.network
        self._operator = operator
        self._strangers: list[End] = []
        self._latest_ms = 0
        """What the clock that was furthest ahead was ahead by."""

    def _machine(self) -> Machine:
        return self._random.choice(self._machines)

    # -- machines -----------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill a broker between two works."""
        self._operator.end(self._machine())

    def kill_soon(self) -> None:
        """Kill a broker in the middle of its writes."""
        self._machine().disk.left = self._random.randint(1, 25)

    def power_failure(self) -> None:
        """Let a machine lose its power."""
        machine = self._machine()
        self._world.tell(f"{machine.number} loses its power")
        machine.end(says_so=False)
        machine.lose_power(self._random)

    def pause(self) -> None:
        """Let a machine stand still."""
        machine = self._machine()
        duration_us = self._random.choice((US_PER_S // 2, 3 * US_PER_S, 8 * US_PER_S))
        machine.paused_until_us = max(machine.paused_until_us, self._world.now_us + duration_us)
        machine.pauses_us += duration_us
        self._world.tell(f"{machine.number} stands still until {machine.paused_until_us}")

    def jump(self) -> None:
        """Set a clock."""
        machine = self._machine()
        machine.clock_offset_ms += self._random.choice((-86_400_000, -5_000, -50, 50, 5_000, 86_400_000))
        self._latest_ms = max(self._latest_ms, machine.clock_offset_ms)
        self._world.tell(f"{machine.number} believes {machine.clock_ms()}")

    def slow_disk(self) -> None:
        """Make a disk slow, or quick again."""
        machine = self._machine()
        machine.slow_us = self._random.choice((0, US_PER_S // 10, 4 * US_PER_S))

    def disk_error(self) -> None:
        """Let a disk refuse something once."""
        machine = self._machine()
        machine.had_errors = True
        number = self._random.choice((errno.EIO, errno.ENOSPC))
        machine.disk.fault = Fault(self._random.choice(FAULTS), self._random.choice(PARTS), number)
        self._world.tell(f"{machine.number} will have {machine.disk.fault}")

    def fill(self) -> None:
        """Let a disk be full."""
        machine = self._machine()
        machine.had_errors = True
        machine.disk.space = FULL

    def free(self) -> None:
        """Make room again."""
        self._machine().disk.space = SPACE

    # -- network ------------------------------------------------------------------------------------------------

    def block(self) -> None:
        """Let nothing through in one direction."""
        source, target = self._random.sample(range(len(self._machines)), 2)
        self._network.blocked.add((source, target))
        self._world.tell(f"{source}>{target} blocked")

    def isolate(self) -> None:
        """Cut a machine off from the others, perhaps from the name servers."""
        number = self._machine().number
        others = [other.number for other in self._machines if other.number != number]
        others += [NAMES] * self._random.randint(0, 1)
        self._network.blocked.update((number, other) for other in others)
        self._network.blocked.update((other, number) for other in others)
        self._world.tell(f"{number} isolated from {others}")

    def unblock(self) -> None:
        """Let everything through again."""
        self._network.blocked.clear()
        self._world.tell("unblocked")

    def drop(self) -> None:
        """Reset a connection."""
        self._network.drop_some()

    def slow_network(self) -> None:
        """Make the network slow, or quick again."""
        self._network.slow_us = self._random.choice((0, US_PER_S // 5, 2 * US_PER_S))

    def forget_names(self) -> None:
        """Let the name servers start again."""
        self._names.forget_all()

    # -- strangers ----------------------------------------------------------------------------------------------

    def stray(self) -> None:
        """Let somebody connect who is no slave, or somebody at a slave's host who tells nonsense."""
        master = self._operator.master()
        if master is None or (master.machine.host, HA_PORT) not in self._network.ports:
            return
        port = self._network.ports[master.machine.host, HA_PORT]
        if not port.process.is_alive:
            return
        others = [machine.number for machine in self._machines if machine is not master.machine]
        place = self._random.choice((STRANGER, STRANGER, *others))
        near, far = self._network.pair(place, None, master.machine.number, port.process)
        is_silent = place != STRANGER or self._random.random() < 0.3
        near.protocol = Stranger(None if is_silent else near)
        far.protocol = port.factory.buildProtocol(None)
        self._world.tell(f"stray peer from {place}")
        self._world.carry_out(port.process, far.protocol.makeConnection, far)
        end = master.parts.store.durable_end
        near.write(build_report(self._random.choice((0, 0, end))) if place == STRANGER else self._begin())
        if is_silent:
            self._world.later(self._random.randrange(300_000), None, near.write, self._nonsense())
        self._strangers.append(near)

    def _begin(self) -> bytes:
        """Return what somebody at a slave's host reports first: nothing, or more than there is."""
        return build_report(0) if self._random.random() < 0.6 else self._nonsense()

    def _nonsense(self) -> bytes:
        """Return bytes that no slave can mean."""
        far = build_report(10**9 + self._random.randrange(10**9))
        garbage = b"\x7f" + self._random.randbytes(self._random.randint(0, 7))
        return self._random.choice((far, build_report(10**18), b"\xff" * 8, garbage))

    # -- the end ------------------------------------------------------------------------------------------------

    def end_all(self) -> None:
        """Let nothing go wrong any more."""
        network = self._network
        network.blocked.clear()
        network.slow_us = 0
        for machine in self._machines:
            machine.paused_until_us = 0
            machine.slow_us = 0
            machine.clock_offset_ms = self._latest_ms  # what was stored with it is due then
            machine.disk.left = machine.disk.fault = None
            machine.disk.space = SPACE
        for stranger in self._strangers:
            stranger.abortConnection()
