"""Registration without a network, for a broker in the name server's own process.

Such a broker may leave its host open (``gateway.advertise=auto``). Each client is then told the address at which the
client reached this name server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.clock import Milliseconds
from gateway.nameserver.addresses import AutoAddress, BrokerAddress, seen_from
from gateway.nameserver.route_table import Registration, RouteTable
from gateway.settings import Address, Advertised
from wire.bodies.topics import DataVersion, TopicConfig
from wire.message.flags import Permission

LOOPBACK = "127.0.0.1"
"""The local address for routes of which nobody uses the addresses."""
NO_HA_ADDRESS = ""
"""The HA address of a broker from which no slave may copy."""


class OwnBroker(Protocol):
    """The facts that a broker registers about itself."""

    @property
    def cluster(self) -> str:
        """The broker's cluster."""

    @property
    def broker_name(self) -> str:
        """The broker's name."""

    @property
    def broker_id(self) -> int:
        """The broker's id: 0, the master."""

    @property
    def advertised(self) -> Advertised:
        """The broker's host in routes, or None to leave the host open."""

    @property
    def port(self) -> int:
        """The broker's port in routes."""

    @property
    def ha_port(self) -> int | None:
        """The port for slaves; None if none may copy."""

    @property
    def topics(self) -> Mapping[str, TopicConfig]:
        """The broker's topics."""

    @property
    def data_version(self) -> DataVersion:
        """The version of the broker's topics."""


class DirectRegistration:
    """The way of the broker in this process into the route table."""

    name = "own"

    def __init__(self, routes: RouteTable, clock_ms: Milliseconds) -> None:
        self.lost: Callable[[], None] = _never
        self.master: tuple[str, str] | None = None
        self._routes = routes
        self._clock_ms = clock_ms

    async def register(self, broker: OwnBroker) -> str | None:
        """Put the broker into the route table; return the reason of a refusal, or None after success."""
        registration = Registration(
            cluster=broker.cluster,
            broker_name=broker.broker_name,
            broker_id=broker.broker_id,
            address=_address(broker),
            ha_address=NO_HA_ADDRESS if broker.ha_port is None else _at(broker.advertised.host, broker.ha_port),
            topics=broker.topics,
            data_version=broker.data_version,
        )
        registered = self._routes.register(registration, self._clock_ms())
        master, ha = registered.master_address, registered.master_ha_address
        if master and ha:
            self.master = seen_from(master, LOOPBACK), seen_from(ha, LOOPBACK)
        return registered.refusal

    async def unregister(self, broker: OwnBroker) -> None:
        """Take the broker out of the route table."""
        self._routes.unregister(broker.broker_name, broker.broker_id, _address(broker))

    async def read_queues(self, topic: str) -> Mapping[str, int] | None:
        """Return how many queues of a topic can be read, by broker name; None for an unknown topic."""
        route = self._routes.route(topic, LOOPBACK)
        if route is None:
            return None
        readable = (queues for queues in route.queue_datas if queues.perm & Permission.READ)
        return {queues.broker_name: queues.read_queue_nums for queues in readable}

    async def members(self, cluster: str, broker_name: str) -> Mapping[int, str]:
        """Return the brokers of a name by id, with their addresses as this machine reaches them."""
        return self._routes.group_addresses(cluster, broker_name, LOOPBACK)


def _address(broker: OwnBroker) -> BrokerAddress:
    return _at(broker.advertised.host, broker.port)


def _at(host: str | None, port: int) -> BrokerAddress:
    return AutoAddress(port) if host is None else str(Address(host, port))


def _never() -> None:
    """Do nothing: there is no connection that could be lost."""
