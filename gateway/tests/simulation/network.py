"""The network between machines: connections whose bytes arrive late and in pieces, and calls that may get lost.

Each direction between two machines may be blocked. Bytes of a connection then wait, as TCP sends them again; messages
of calls are lost. What a dead process has sent still arrives; what is sent to one is answered by a reset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.python.failure import Failure

from gateway.tests.simulation.world import US_PER_S, World

NAMES = -1
"""The place of the name servers."""
STRANGER = -2
"""The place of somebody who does not belong here."""
RETRANSMIT_US = 150_000
PIECES = (1, 7, 20, 300, 4_000, 1 << 20)
FULL_BYTES = 6_000
"""The unsent bytes above which a connection takes no more for a while."""
FIRST_PORT = 40_000


def _failure(kind: Any) -> Failure:
    return Failure(kind())  # type: ignore[no-untyped-call]


def host_of(place: int) -> str:
    """Return the address of a machine."""
    return f"10.0.0.{place + 1}" if place >= 0 else "10.0.9.9"


class Port:
    """A port that is listened on."""

    def __init__(self, network: Network, key: tuple[str, int], process: Any, factory: Any) -> None:
        self._network = network
        self._key = key
        self.process = process
        self.factory = factory

    def getHost(self) -> IPv4Address:  # noqa: N802 (Twisted's name)
        """Return the own address."""
        return IPv4Address("TCP", *self._key)

    def stopListening(self) -> None:  # noqa: N802 (Twisted's name)
        """Accept nothing more."""
        self._network.ports.pop(self._key, None)


class End:
    """One end of a connection: the transport of a protocol.

    :param process: the process whose end it is; None for a stranger.
    """

    def __init__(self, network: Network, place: int, process: Any, peer: IPv4Address) -> None:
        self._network = network
        self.place = place
        self.process = process
        self._peer_address = peer
        self.other: End = self
        self.protocol: Any = None
        self.is_closed = False
        self.out = bytearray()
        self.reads = True
        self._producer: Any = None
        self._is_full = False
        self._is_scheduled = False

    # -- as a transport of Twisted ----------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send."""
        if self.is_closed:
            return
        self.out += data
        if self._producer is not None and not self._is_full and len(self.out) > FULL_BYTES:
            self._is_full = True
            self._producer.pauseProducing()
        self.schedule()

    def getPeer(self) -> IPv4Address:  # noqa: N802 (Twisted's name)
        """Return the address of the other side."""
        return self._peer_address

    def setTcpNoDelay(self, enabled: bool) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing."""

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802 (Twisted's name)
        """Take who is told when it is too much."""
        assert streaming
        self._producer = producer

    def unregisterProducer(self) -> None:  # noqa: N802 (Twisted's name)
        """Forget it."""
        self._producer = None

    def pauseProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Read nothing."""
        self.reads = False

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Read on."""
        self.reads = True
        self.other.schedule()

    def abortConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """Close at once."""
        if not self.is_closed:
            self.is_closed = True
            self.out.clear()
            self._network.world.later(0, self.process, self._lost)
            self.reset_other()

    loseConnection = abortConnection  # noqa: N815 (Twisted's name)

    # -- the network's side -----------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Let some of what was written arrive."""
        if self.out and not self._is_scheduled:
            self._is_scheduled = True
            self._network.world.later(self._network.delay_us(), None, self._arrive)

    def _arrive(self) -> None:
        self._is_scheduled = False
        other, network = self.other, self._network
        wait_us = network.wait_us(self.place, other.place)
        if not self.out or self.is_closed:
            return
        if wait_us:
            self._is_scheduled = True
            network.world.later(wait_us, None, self._arrive)
            return
        if other.is_closed or (other.process is not None and not other.process.is_alive):
            self.reset()  # the reset comes back as surely as the bytes went
            return
        if not other.reads:
            return
        count = network.world.random.choice(PIECES)
        piece = bytes(self.out[:count])
        del self.out[:count]
        if network.world.trace is not None:
            network.world.tell_bytes(f"{self.place}>{other.place}", piece)
        network.world.carry_out(other.process, other.protocol.dataReceived, piece)
        if self._is_full and len(self.out) < FULL_BYTES // 2:
            self._is_full = False
            if self._producer is not None and not self.is_closed and self._is_alive:
                network.world.carry_out(self.process, self._producer.resumeProducing)
        self.schedule()

    @property
    def _is_alive(self) -> bool:
        return self.process is None or self.process.is_alive

    def reset(self) -> None:
        """Lose the connection because the other side says so."""
        if not self.is_closed:
            self.is_closed = True
            self.out.clear()
            self._network.world.later(0, self.process, self._lost)

    def reset_other(self) -> None:
        """Tell the other side that there is no connection any more; lost if the way is blocked."""
        network = self._network
        if not network.wait_us(self.place, self.other.place):
            network.world.later(network.delay_us(), None, self.other.reset)

    def _lost(self) -> None:
        protocol, self.protocol = self.protocol, None
        if protocol is not None:
            protocol.connectionLost(_failure(error.ConnectionLost))


class Connector:
    """An attempt to connect."""

    def __init__(self) -> None:
        self.end: End | None = None
        self.is_stopped = False

    def disconnect(self) -> None:
        """Give up."""
        self.is_stopped = True
        if self.end is not None:
            self.end.abortConnection()

    stopConnecting = disconnect  # noqa: N815 (Twisted's name)


class Network:
    """All connections and calls.

    :param machines: the machines by their place.
    """

    def __init__(self, world: World, machines: list[Any]) -> None:
        self.world = world
        self._machines = machines
        self.ports: dict[tuple[str, int], Port] = {}
        self.blocked: set[tuple[int, int]] = set()
        """The directions in which nothing arrives."""
        self.slow_us = 0
        """The most microseconds that something takes; 0 for a quick network."""
        self.ends: list[End] = []
        self._next_port = FIRST_PORT

    def delay_us(self) -> int:
        """Return how long something takes."""
        random = self.world.random
        if self.slow_us and random.random() < 0.3:
            return random.randrange(self.slow_us)
        return 50 + random.randrange(2_000)

    def wait_us(self, source: int, target: int) -> int:
        """Return how long to wait before bytes are sent again; 0 if they arrive."""
        if (source, target) in self.blocked:
            return RETRANSMIT_US + self.world.random.randrange(RETRANSMIT_US)
        if target < 0:
            return 0
        machine = self._machines[target]
        if not machine.has_power:
            return RETRANSMIT_US
        left_us: int = machine.paused_until_us - self.world.now_us
        return max(left_us, 0)

    def post(self, source: int, target: int, function: Callable[..., None], *arguments: object) -> None:
        """Send a message that may get lost; ``function`` runs where it arrives."""
        if (source, target) not in self.blocked:
            self.world.later(self.delay_us(), None, self._arrived, source, target, function, arguments)

    def _arrived(self, source: int, target: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if (source, target) in self.blocked or (target != NAMES and not self._machines[target].has_power):
            return
        wait_us = 0 if target == NAMES else self._machines[target].paused_until_us - self.world.now_us
        if wait_us > 0:
            self.world.later(wait_us, None, self._arrived, source, target, function, arguments)
        else:
            function(*arguments)

    def listen(self, process: Any, port: int, factory: Any) -> Port:
        """Accept connections for a process."""
        key = (process.machine.host, port)
        self.ports[key] = found = Port(self, key, process, factory)
        return found

    def connect(self, process: Any, host: str, port: int, factory: Any, timeout_s: float) -> Connector:
        """Make a connection from a process."""
        connector = Connector()
        target = int(host.rpartition(".")[2]) - 1
        self.world.later(self.delay_us(), process, self._syn, process, (host, port), target, factory, connector)
        self.world.later(round(timeout_s * US_PER_S), process, self._timed_out, factory, connector)
        return connector

    def _syn(self, process: Any, key: tuple[str, int], target: int, factory: Any, connector: Connector) -> None:
        own = process.machine.number
        if connector.is_stopped:
            return
        if self.wait_us(own, target) or self.wait_us(target, own):
            return  # until the time is over
        port = self.ports.get(key)
        if port is None or not port.process.is_alive:
            connector.is_stopped = True
            factory.clientConnectionFailed(connector, _failure(error.ConnectionRefusedError))
            return
        near, far = self.pair(own, process, target, port.process)
        connector.end = near
        self.world.tell(f"{own}>{target} connects")
        far.protocol = port.factory.buildProtocol(None)
        self.world.carry_out(port.process, far.protocol.makeConnection, far)
        near.protocol = factory.buildProtocol(None)
        near.protocol.makeConnection(near)

    def pair(self, own: int, process: Any, target: int, other: Any) -> tuple[End, End]:
        """Return the two ends of a new connection."""
        self._next_port += 1
        near = End(self, own, process, IPv4Address("TCP", host_of(target), 1))
        far = End(self, target, other, IPv4Address("TCP", host_of(own), self._next_port))
        near.other, far.other = far, near
        self.ends = [end for end in self.ends if not end.is_closed]
        self.ends += [near, far]
        return near, far

    def _timed_out(self, factory: Any, connector: Connector) -> None:
        if connector.end is None and not connector.is_stopped:
            connector.is_stopped = True
            factory.clientConnectionFailed(connector, _failure(error.TimeoutError))

    def ended(self, process: Any, *, says_so: bool) -> None:
        """A process has ended; its system closes the connections, unless the power is gone."""
        self.ports = {key: port for key, port in self.ports.items() if port.process is not process}
        for end in self.ends:
            if end.process is process and not end.is_closed:
                end.is_closed = True
                end.out.clear()
                if says_so:
                    end.reset_other()

    def drop_some(self) -> None:
        """Reset a connection on both sides."""
        open_ends = [end for end in self.ends if not end.is_closed]
        if open_ends:
            end = self.world.random.choice(open_ends)
            end.reset()
            end.other.reset()
