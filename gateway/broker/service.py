"""The broker as one service: the order in which its parts start and stop.

A start opens and recovers the store, loads the tables and finds open transactions. Only then do the ports listen, and
only then does the broker register with the name servers. A stop goes the other way. The broker unregisters from the
name servers and accepts no new connections. Then it answers every received request, makes everything durable and closes
the files. ``parts`` says what the parts are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import TimeoutError as DeferredTimeout

from gateway.broker.announcing.advertised import fixed_address, unheard, unheard_at
from gateway.broker.announcing.registration import NameServerLink, NameServerRegistration, RemoteNameServer
from gateway.broker.door import Door, RequestAdmission
from gateway.broker.jobs import jobs
from gateway.broker.life import BrokerLife, BrokerPorts
from gateway.broker.parts import BrokerParts, Surroundings
from gateway.broker.request_loader import load_requests
from gateway.broker.upkeep.upkeep import Upkeep
from gateway.clock import Milliseconds
from gateway.reactor.log_thread import LogThread, has_few_processors, in_thread_pool
from gateway.reactor.loop import loop_on
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.client import RemotingClient
from gateway.remoting.dispatch import Dispatch
from gateway.remoting.server import RemotingServer
from gateway.remoting.tls.makers import LinkMakers
from gateway.settings import Address, Settings
from gateway.settings.access import CREDENTIALS_MEMBERS, credentials
from gateway.settings.tree import MetricsExporter
from gateway.store.disk.files import FileLayer
from gateway.telemetry.logs import EventLog
from wire.command import RemotingCommand

if TYPE_CHECKING:
    from gateway.access.control import AccessControl
    from gateway.broker.figures.metrics_server import MetricsServer
    from gateway.replication.controlled.place import PlaceInGroup

log = EventLog("broker")

REGISTRATION_PATIENCE_S = 3.0
"""Seconds that a start waits for the name servers: by then a reachable name server has answered.

Equal to the time-out of a client's call.
"""
NOT_READY = "the broker starts or stops"
LATENESS = "rocketmq_gateway_lateness_seconds"
LATENESS_BOUNDS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)
VIP_PORT_DISTANCE = 2
"""The distance from listenPort down to the VIP channel of clients.

Never change this distance, because clients compute the port themselves.
"""


class NameServerNextDoor(Protocol):
    """A name server in the same process."""

    def direct_registration(self) -> NameServerLink:
        """Return a link that registers with this name server without a network."""

    @property
    def port(self) -> int:
        """The port on which the name server listens."""

    @property
    def server(self) -> RemotingServer:
        """The server whose sum of bytes and whose certificate the broker shares."""


class BrokerService:
    """One broker.

    :param name_server: the name server of the same process, which learns our topics without a network; None if there is
        none.
    :param files: the disk of the store; the operating system's files when left out.
    :param access: the accounts of the process; None if requests need none.
    :param group: the place in the group of a controller; None if ``brokerRole`` alone decides.
    """

    def __init__(
        self,
        settings: Settings,
        reactor: Any,
        clock: Milliseconds,
        name_server: NameServerNextDoor | None,
        files: FileLayer | None = None,
        access: AccessControl | None = None,
        group: PlaceInGroup | None = None,
    ) -> None:
        self._settings = settings
        self._access = access
        self._reactor = reactor
        self._flush_group = FlushGroup(reactor)
        loop = loop_on(reactor, self._flush_group.carry_out)
        # With ASYNC_FLUSH nobody waits for it.
        is_awaited = settings.sync_flush
        self._log_thread = LogThread(
            reactor,
            self._flush_group.carry_out,
            loop.expect_call if is_awaited else None,
            loop.wait_for if is_awaited and has_few_processors() else None,
        )
        self._dispatch = Dispatch(
            RequestAdmission(settings, None if access is None else access.guard.admit).admit,
            lambda code, on_slave: self._parts.refusal_of(code, on_slave),
        )
        self._parts = BrokerParts(
            settings,
            Surroundings(
                reactor=reactor,
                clock=clock,
                soon=loop.at_end_of_turn,
                in_log_thread=self._log_thread.submit,
                in_sync=self._log_thread.sync,
                in_thread=in_thread_pool(reactor, self._flush_group.carry_out),
                listen_port=lambda: self._server.ports[0],
                read_queues=lambda topic: self._registration.read_queues(topic),
                call=lambda address, code, header: self._client.call(address, code, header),
                links=LinkMakers(
                    lambda *connection: self._server.first_byte.link(*connection),
                    lambda *connection: self._client.link(*connection),
                ),
                files=files,
                access=access,
                group=group,
            ),
        )
        if access is not None:
            access.guard.client_of = self._parts.heartbeats.clients.id_of
        if name_server is not None:
            self._parts.name_server_port = lambda: name_server.port
        self._door = Door(self._dispatch)
        self._server = RemotingServer(
            reactor,
            self._door,
            _listen_on(settings),
            settings,
            self._flush_group,
            in_thread=self._parts.in_thread,
            beside=None if name_server is None else name_server.server,
        )
        self._client = RemotingClient(
            reactor, self._dispatch, settings, self._flush_group, self._parts.in_thread, sign=signs(settings)
        )
        self._registration = self._make_registration(name_server)
        lateness = self._parts.registry.histogram(
            LATENESS, "Seconds by which periodic jobs were late", LATENESS_BOUNDS_S
        )
        self._upkeep = Upkeep(reactor, jobs(self._parts), lateness.of().observe)
        self._metrics = self._make_metrics()
        self._kept_ports: BrokerPorts | None = None
        self._started = False
        self._is_ready = False

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """The address at which clients find the broker: its main port."""
        return [(self._settings.bind_address, self._server.ports[0])]

    @property
    def advertised(self) -> Sequence[Address | None]:
        """The address that clients get instead of the main port's address.

        None unless the settings name such an address.
        """
        address = fixed_address(self._settings, self._server.ports[0])
        return [None if address in self.addresses else address]

    @property
    def ports(self) -> BrokerPorts:
        """The ports on which the broker listens."""
        return BrokerPorts(self._server.ports, None if self._parts.master is None else self._parts.master.port)

    def live(self, life: BrokerLife, ports: BrokerPorts | None) -> None:
        """Take the life, through which requests change the role, and the ports of the broker before; None: choose."""
        self._parts.life = life
        self._kept_ports = ports
        if ports is not None:
            self._server.keep_ports(ports.requests)

    @property
    def durable_end(self) -> int:
        """The offset of the log below which everything is on disk."""
        return self._parts.store.durable_end

    def members_changed(self) -> None:
        """Look at the sync state set of a master's group again: it is another one now."""
        if self._parts.master is not None:
            self._parts.master.members_changed()

    @property
    def dispatch(self) -> Dispatch:
        """The requests that the broker answers, for the generated table of request codes."""
        return self._dispatch

    async def start(self) -> None:
        """Recover, load, listen, register.

        :raises GatewayError: the store cannot be used, a table cannot be read, a port cannot be listened on.
        """
        self._parts.open()
        if self._parts.master is not None:
            self._parts.master.serve(self._parts.store, self._registration.members)
        if self._parts.slave is not None:
            self._parts.slave.serve(self._parts.store, self._parts, self._registration)
        self._log_thread.start()
        self._started = True
        load_requests(self._parts, self._dispatch)
        if self._metrics is not None:
            self._metrics.start()
        self._server.startService()
        if self._access is not None:
            self._access.tell("broker", self._server.ports)
        self._parts.start()
        self._listen_for_slaves()
        self._upkeep.start()
        self._look_at_address()
        self._client.startService()
        self._registration.startService()
        if self._parts.slave is not None:
            self._parts.slave.start()
        await self._first_registration()
        self._is_ready = True

    async def stop(self) -> None:
        """Answer every received request, make everything durable, and close."""
        if not self._started:
            return
        self._started = self._is_ready = False
        if self._metrics is not None:
            await self._metrics.stop()
        if self._parts.slave is not None:
            self._parts.slave.stop()
        if self._registration.running:
            await self._registration.stopService()
            await self._client.stopService()
        await self._server.stop_listening()
        # Clients keep sending until their connection ends: without this the store might never be idle.
        self._door.close()
        await self._upkeep.stop()
        await self._parts.stop()
        if self._parts.master is not None:
            await self._parts.master.stop()
        self._flush_group.flush()
        await self._server.stopService()
        self._log_thread.stop()
        self._parts.close()

    def _listen_for_slaves(self) -> None:
        """Open the port for slaves, by custom the next one; 0 lets the system pick both."""
        settings, master = self._settings, self._parts.master
        if master is not None:
            port = self._server.ports[0] + 1 if settings.listen_port else 0
            if settings.ha_listen_port > 0:
                port = settings.ha_listen_port
            elif self._kept_ports is not None and self._kept_ports.replicas is not None:
                port = self._kept_ports.replicas
            master.start(settings.bind_address, port)

    def _look_at_address(self) -> None:
        """Warn the operator if clients get an address on which nothing listens."""
        port = self._server.ports[0]
        address = fixed_address(self._settings, port)
        fault = None if address is None else unheard(self._settings, address, port)
        if fault is not None:
            log.warning(fault)

    def _reached(self, name_server: Address, our_address: str) -> None:
        fault = unheard_at(self._settings, name_server, our_address)
        if fault is not None:
            log.warning(fault)

    async def _first_registration(self) -> None:
        """Wait ``REGISTRATION_PATIENCE_S`` seconds at most for the name servers, through which clients find the broker.

        The start goes on without name servers that do not answer.
        """
        attempted = self._registration.attempted()
        attempted.addTimeout(REGISTRATION_PATIENCE_S, self._reactor)
        try:
            await attempted
        except DeferredTimeout:
            log.warning("ready before the name servers answered", waited_s=REGISTRATION_PATIENCE_S)

    def _make_registration(self, name_server: NameServerNextDoor | None) -> NameServerRegistration:
        remote = [
            RemoteNameServer(
                address,
                self._client,
                self._settings,
                self._parts.in_thread,
                partial(self._reached, address),
            )
            for address in self._settings.name_server_addresses
        ]
        own = [] if name_server is None else [name_server.direct_registration()]
        return NameServerRegistration(
            name_servers=[*own, *remote],
            topics=self._parts.topics,
            settings=self._settings,
            listen_port=lambda: self._server.ports[0],
            ha_port=lambda: None if self._parts.master is None else self._parts.master.port,
            reactor=self._reactor,
        )

    def _make_metrics(self) -> MetricsServer | None:
        exporter = self._settings.metrics_exporter_type
        if exporter is not MetricsExporter.PROM:
            if exporter is not MetricsExporter.DISABLE:
                log.warning("metrics are not exported: metricsExporterType may be PROM only", set=exporter.value)
            return None
        from gateway.broker.figures.metrics_server import MetricsServer  # for those who ask for it only
        from gateway.telemetry.memory_in_use import watch_memory

        watch_memory(self._parts.registry)
        store = self._parts.store
        problems = {"healthz": lambda: store.failure, "readyz": lambda: store.refusal if self._is_ready else NOT_READY}
        return MetricsServer(
            self._parts.registry, self._settings, self._reactor, problems, self._server.room, self._server.first_byte
        )


def signs(settings: Settings) -> Callable[[RemotingCommand], None] | None:
    """Return the function that signs the broker's own requests to name servers, None if they are not signed."""
    keys = credentials(settings.inner_client_authentication_credentials, CREDENTIALS_MEMBERS)
    if keys is None:
        return None
    from wire.signature import RequestSigner  # with hashes

    return RequestSigner(*keys).sign


def _listen_on(settings: Settings) -> list[tuple[str, int]]:
    """Return the addresses to listen on: the main port and, as upstream, the VIP port below the main port.

    Port 0 lets the system pick both ports.
    """
    addresses = [(settings.bind_address, settings.listen_port)]
    if settings.vip_channel_enable:
        vip = settings.listen_port - VIP_PORT_DISTANCE if settings.listen_port else 0
        if vip > 0 or not settings.listen_port:  # below ports 1 and 2 there is none
            addresses.append((settings.bind_address, vip))
    return addresses
