"""The servers of a process, as ``run`` starts and stops them.

Here the constructors are called; what a server needs to be handed (clock, reactor, a way into threads) is
put in here and nowhere else. A server's code is imported when it is made, and it is made when the ones before it
run: the broker is most of the code, and what clients ask the name server meanwhile waits instead of being refused.
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
    from gateway.cli.serving.members import BrokerMember
    from gateway.store.disk.files import FileLayer


class Server(Protocol):
    """What a name server and a broker have in common."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """After the start: where clients find it; several addresses when it is several servers."""

    @property
    def advertised(self) -> Sequence[Address | None]:
        """For each of these, the other one that clients are told; None when they are told this one."""

    async def start(self) -> None:
        """Ends when clients may connect; GatewayError when that will never be."""

    async def stop(self) -> None:
        """Ends when everything received is answered and on disk; may be called after a failed start."""


class Part(NamedTuple):
    """A server and what the ready line calls it."""

    label: str
    server: Server


class ListeningNameServer:
    """The name server with the face of ``Server``.

    :param near_brokers: see ``NameServer``.
    """

    def __init__(self, settings: Settings, reactor: Any, *, near_brokers: bool = False) -> None:
        from gateway.nameserver.service import NameServer
        from gateway.reactor.thread_pool import in_thread_pool

        self._settings = settings
        in_thread = in_thread_pool(reactor, lambda done, value: self.service.server.flush_group.carry_out(done, value))
        self.service = NameServer(settings, wall_clock_ms, reactor, in_thread, near_brokers=near_brokers)

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """Its one address."""
        return [(self._settings.bind_address, self.service.port)]

    @property
    def advertised(self) -> Sequence[Address | None]:
        """Clients know a name server by themselves."""
        return [None]

    async def start(self) -> None:
        """Listen."""
        self.service.startService()

    async def stop(self) -> None:
        """Close port and connections."""
        if self.service.running:
            await self.service.stopService()


def make_parts(role: Role, settings: Settings, reactor: Any, files: FileLayer | None = None) -> Iterator[Part]:
    """The servers of a role, in the order of their start; each is to be started before the next is asked for.

    :raises GatewayError: one cannot be made.
    """
    _check_root(settings)
    name_server = None
    if role is not Role.BROKER:
        listening = ListeningNameServer(settings, reactor)
        name_server = listening.service
        yield Part("nameserver", listening)
    if role is not Role.NAMESERVER:
        # A name server alone stays small, and one beside a broker listens this much earlier.
        from gateway.broker.service import BrokerService

        yield Part("broker", BrokerService(settings, reactor, wall_clock_ms, name_server, files))


def make_parts_of_many(members: Sequence[BrokerMember], settings: Settings, reactor: Any) -> Iterator[Part]:
    """A name server, and brokers in processes of their own; to be taken as from ``make_parts``.

    :raises GatewayError: one cannot be made.
    """
    from gateway.cli.serving.broker_processes import BrokerProcesses

    _check_root(settings)
    listening = ListeningNameServer(settings, reactor, near_brokers=settings.advertised.host is None)

    def name_servers() -> list[Address]:
        host, port = listening.addresses[0]
        return [Address(reachable(host), port), *settings.name_server_addresses]

    yield Part("nameserver", listening)
    yield Part("broker", BrokerProcesses(members, reactor, name_servers, settings.store_path_root_dir))


def _check_root(settings: Settings) -> None:
    root = settings.store_path_root_dir
    if root.exists() and not root.is_dir():
        raise SettingsError(f"{root} is a file: --data (storePathRootDir) names a directory, which may be missing")
