"""What remoting asks of a reactor: time and TCP. The real one and the memory reactor both have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.interfaces import IConnector, IDelayedCall, IListeningPort


class TimeSource(Protocol):
    """The clock half: ``twisted.internet.task.Clock`` is enough for it."""

    def seconds(self) -> float:
        """Seconds that never run backwards."""

    def callLater(self, delay: float, callable: Callable[..., object], *args: object) -> IDelayedCall:  # noqa: A002, N802
        """Call once, ``delay`` seconds from now."""


class NetworkReactor(TimeSource, Protocol):
    """Time and TCP."""

    def listenTCP(self, port: int, factory: Any, backlog: int, interface: str) -> IListeningPort:  # noqa: N802
        """Accept connections; raises ``CannotListenError``."""

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float) -> IConnector:  # noqa: N802
        """Make a connection; tells the factory when it fails."""
