"""The servers of a process, as ``run`` starts and stops them.

This module alone calls the servers' constructors, and hands over what a server needs (clock, reactor, a way into
threads). A server's code is imported when the server is made, and a server is made after the servers before it run.
The broker is most of the code. With this order, requests to the name server wait meanwhile instead of being refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gateway.clock import wall_clock_ms
from gateway.errors import SettingsError
from gateway.settings.addresses import Address, reachable
from gateway.settings.files.load import Role
from gateway.settings.tree import Settings

if TYPE_CHECKING:
    from gateway.access.control import AccessControl
    from gateway.cli.serving.members import BrokerMember
    from gateway.store.disk.files import FileLayer


class Server(Protocol):
    """The common interface of a name server and a broker."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """The address at which clients find the server after its start; several addresses for several servers."""

    @property
    def advertised(self) -> Sequence[Address | None]:
        """The other address that clients get, for each of ``addresses``; None if clients get the same address."""

    async def start(self) -> None:
        """Start, and return when clients may connect.

        :raises GatewayError: the server cannot start.
        """

    async def stop(self) -> None:
        """Stop, and return when every received request is answered and on disk. Allowed after a failed start."""


class Part(NamedTuple):
    """A server and its name in the ready line."""

    label: str
    server: Server


class ListeningNameServer:
    """The name server with the interface of ``Server``.

    :param access: the accounts of the process; None if requests need none.
    :param near_brokers: passed on to ``NameServer``.
    """

    def __init__(
        self, settings: Settings, reactor: Any, access: AccessControl | None = None, *, near_brokers: bool = False
    ) -> None:
        from gateway.nameserver.service import NameServer
        from gateway.reactor.log_thread import in_thread_pool
        from gateway.remoting.dispatch import admit_everybody

        self._settings = settings
        in_thread = in_thread_pool(reactor, lambda done, value: self.service.server.flush_group.carry_out(done, value))
        self._access = access
        admit = admit_everybody if access is None else access.guard.admit
        self.service = NameServer(settings, wall_clock_ms, reactor, in_thread, near_brokers=near_brokers, admit=admit)

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """The one address of the name server."""
        return [(self._settings.bind_address, self.service.port)]

    @property
    def advertised(self) -> Sequence[Address | None]:
        """The address to advertise: none, because clients know the address from their own settings."""
        return [None]

    async def start(self) -> None:
        """Listen on the port."""
        self.service.startService()
        if self._access is not None:
            self._access.tell("name server", [self.service.port])

    async def stop(self) -> None:
        """Close the port and the connections."""
        if self.service.running:
            await self.service.stopService()


def make_parts(role: Role, settings: Settings, reactor: Any, files: FileLayer | None = None) -> Iterator[Part]:
    """Yield the servers of a role in the order of their start. Start each server before you ask for the next.

    :raises GatewayError: a server cannot be made.
    """
    _check_root(settings)
    name_server = None
    access = opened(settings, reactor)
    if access is not None:
        yield Part("access", access)
    if role is not Role.BROKER:
        listening = ListeningNameServer(settings, reactor, access)
        name_server = listening.service
        yield Part("nameserver", listening)
    if role is not Role.NAMESERVER:
        # A name server alone stays small, and one beside a broker listens this much earlier.
        if settings.enable_controller_mode:
            from gateway.broker.controlled import ControlledBrokerService

            member = ControlledBrokerService(settings, reactor, wall_clock_ms, name_server, files, access)
            yield Part("broker", member)
            return
        from gateway.broker.life import BrokerLife
        from gateway.broker.service import BrokerService
        from gateway.reactor.log_thread import in_thread_pool
        from gateway.reactor.thread_result import thread_result

        in_thread = in_thread_pool(reactor, lambda done, value: done(value))
        yield Part(
            "broker",
            BrokerLife(
                settings,
                lambda now: BrokerService(now, reactor, wall_clock_ms, name_server, files, access),
                reactor,
                lambda work: thread_result(in_thread, work),
            ),
        )


def make_parts_of_many(members: Sequence[BrokerMember], settings: Settings, reactor: Any) -> Iterator[Part]:
    """Yield a name server, and brokers in processes of their own. Start the first before you ask for the next.

    :raises GatewayError: a server cannot be made.
    """
    from gateway.cli.serving.broker_processes import BrokerProcesses

    _check_root(settings)
    access = opened(settings, reactor)
    if access is not None:
        yield Part("access", access)
    listening = ListeningNameServer(settings, reactor, access, near_brokers=settings.advertised.host is None)

    def name_servers() -> list[Address]:
        host, port = listening.addresses[0]
        return [Address(reachable(host), port), *settings.name_server_addresses]

    yield Part("nameserver", listening)
    yield Part("broker", BrokerProcesses(members, reactor, name_servers, settings.store_path_root_dir))


def opened(settings: Settings, reactor: Any) -> AccessControl | None:
    """Return the accounts of this process, None if requests need none.

    :raises GatewayError: the accounts cannot be read.
    """
    if not settings.is_guarded:
        return None
    from gateway.access.control import AccessControl
    from gateway.reactor.log_thread import in_thread_pool

    in_thread = in_thread_pool(reactor, lambda done, value: done(value))
    return AccessControl(settings, reactor, in_thread, wall_clock_ms)


def _check_root(settings: Settings) -> None:
    root = settings.store_path_root_dir
    if root.exists() and not root.is_dir():
        raise SettingsError(f"{root} is a file: --data (storePathRootDir) names a directory, which may be missing")
