"""The name server as a service: its port, its requests, and its search for silent brokers.

A name server runs alone or beside a broker in one process. A broker in the same process registers through
``direct_registration`` and not over the network. Upstream: ``NamesrvController``.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from gateway.clock import Milliseconds
from gateway.in_thread import InThread
from gateway.nameserver.addresses import BrokerAddress, as_seen
from gateway.nameserver.direct import DirectRegistration
from gateway.nameserver.kv_config import KvConfig
from gateway.nameserver.registration_reader import RegistrationReader
from gateway.nameserver.requests.brokers import BrokerRequests, log_lost
from gateway.nameserver.requests.configuration import ConfigurationRequests
from gateway.nameserver.requests.routes import RouteRequests
from gateway.nameserver.requests.topics import RouteTopicRequests
from gateway.nameserver.route_table import RouteTable
from gateway.reactor.interface import NetworkReactor
from gateway.remoting.dispatch import Admit, Dispatch, admit_everybody
from gateway.remoting.server import RemotingServer
from gateway.remoting.turns import Turns
from gateway.settings import Settings

PORT_OPTION = "--nameserver-port (--port for a name server alone)"


class NameServer(Service):
    """A name server.

    :param in_thread: runs the writes of the key-value file; see ``gateway.metadata.saved.write_behind``.
    :param near_brokers: True if brokers that register from a loopback address are reached wherever this name server is.
    :param admit: judges every request by its account.
    :raises GatewayError: the key-value file cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        clock_ms: Milliseconds,
        reactor: NetworkReactor,
        in_thread: InThread,
        *,
        near_brokers: bool = False,
        admit: Admit = admit_everybody,
    ) -> None:
        self._turns = Turns(reactor)
        self.routes = RouteTable(
            settings,
            in_turns=self._turns.begin,
        )
        self.dispatch = Dispatch(admit)
        self.kv_config = KvConfig(settings.kv_config_file, in_thread)
        self._settings = settings
        self._clock_ms = clock_ms
        self._reactor = reactor
        self._scan: IDelayedCall | None = None
        self._register_requests(as_seen if near_brokers else str)
        addresses = [(settings.bind_address, settings.nameserver_port)]
        self.server = RemotingServer(
            reactor, self.dispatch, addresses, settings, port_option=PORT_OPTION, in_thread=in_thread
        )

    @property
    def port(self) -> int:
        """The port on which the name server listens; only while the name server runs."""
        return self.server.ports[0]

    def direct_registration(self) -> DirectRegistration:
        """Return a link by which a broker of this process registers."""
        return DirectRegistration(self.routes, self._clock_ms)

    def startService(self) -> None:  # noqa: N802 (Twisted's name)
        """Listen and start to look for silent brokers.

        :raises GatewayError: the server cannot listen on the port.
        """
        self.server.startService()
        self._scan_later()
        super().startService()  # type: ignore[no-untyped-call]

    def stopService(self) -> Deferred[None]:  # noqa: N802 (Twisted's name)
        """Close the port and all connections; the deferred fires when they are closed."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._scan is not None and self._scan.active():
            self._scan.cancel()
        return self.server.stopService()

    def _register_requests(self, read_address: Callable[[str], BrokerAddress]) -> None:
        settings, reader = self._settings, RegistrationReader(self._turns)
        for requests in (
            BrokerRequests(
                routes=self.routes,
                kv_config=self.kv_config,
                reader=reader,
                settings=settings,
                clock_ms=self._clock_ms,
                read_address=read_address,
            ),
            RouteRequests(
                routes=self.routes,
                kv_config=self.kv_config,
                settings=settings,
                clock_ms=self._clock_ms,
                turns=self._turns,
            ),
            RouteTopicRequests(routes=self.routes, reader=reader, settings=settings, turns=self._turns),
            ConfigurationRequests(kv_config=self.kv_config, settings=settings, turns=self._turns),
        ):
            requests.register(self.dispatch)

    def _scan_later(self) -> None:
        interval_s = self._settings.scan_not_active_broker_interval_ms / 1_000
        self._scan = self._reactor.callLater(interval_s, self._remove_silent)

    def _remove_silent(self) -> None:
        silent = self.routes.expire(self._clock_ms())
        log_lost(silent, "silent")
        for live in silent:
            channel = None if live.channel_id is None else self.server.channels.get(live.channel_id)
            if channel is not None:
                channel.close("the broker stopped registering")
        self._scan_later()
