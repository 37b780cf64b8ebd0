"""The servers of a process, as ``run`` starts and stops them.

Here the constructors are called; what a server needs to be handed (clock, reactor, a way into threads) is
put in here and nowhere else. A server's code is imported when it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gateway.clock import wall_clock_ms
from gateway.errors import ConfigurationError
from gateway.settings.load import Role
from gateway.settings.tree import Settings

if TYPE_CHECKING:
    from gateway.store.files import FileLayer


class Server(Protocol):
    """What a name server and a broker have in common."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """After the start: where it listens, the address for clients first."""

    async def start(self) -> None:
        """Ends when clients may connect; GatewayError when that will never be."""

    async def stop(self) -> None:
        """Ends when everything received is answered and on disk; may be called after a failed start."""


class Part(NamedTuple):
    """A server and what the ready line calls it."""

    label: str
    server: Server


class ListeningNameServer:
    """The name server with the face of ``Server``."""

    def __init__(self, settings: Settings, reactor: Any) -> None:
        from gateway.nameserver.service import NameServer
        from gateway.remoting.thread_pool import in_thread_pool

        self._settings = settings
        in_thread = in_thread_pool(reactor, lambda: self.service.server.flush())
        self.service = NameServer(settings, wall_clock_ms, reactor, in_thread)

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """Its one address."""
        return [(self._settings.bind_address, self.service.port)]

    async def start(self) -> None:
        """Listen."""
        self.service.startService()

    async def stop(self) -> None:
        """Close port and connections."""
        if self.service.running:
            await self.service.stopService()


def make_parts(role: Role, settings: Settings, reactor: Any, files: FileLayer | None = None) -> list[Part]:
    """The servers of a role, in the order of their start; GatewayError when one cannot be made."""
    root = settings.store_path_root_dir
    if root.exists() and not root.is_dir():
        raise ConfigurationError(f"{root} is a file: --data (storePathRootDir) names a directory, which may be missing")
    parts: list[Part] = []
    name_server = None
    if role is not Role.BROKER:
        listening = ListeningNameServer(settings, reactor)
        name_server = listening.service
        parts.append(Part("nameserver", listening))
    if role is not Role.NAMESERVER:
        # A name server alone stays small: the broker is most of the code.
        from gateway.broker.service import BrokerService

        parts.append(Part("broker", BrokerService(settings, reactor, wall_clock_ms, name_server, files)))
    return parts
