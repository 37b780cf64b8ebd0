"""What is asked of a reactor: time and TCP of every one, and two ways to wait of one that is made for servers."""

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


class QuickReactor:
    """A reactor that knows that threads and disks are waited for; ``doIteration`` reads and waits once."""

    def doIteration(self, delay: float | None) -> None:  # noqa: N802 (Twisted's name)
        """Wait ``delay`` seconds at most, None for ever, and carry out what came."""
        raise NotImplementedError

    def expect_call(self, expected: bool) -> None:
        """Say whether a thread will call within moments, so that connections may be read together after it."""
        raise NotImplementedError

    def wait_for(self, work: Callable[[], Any], outcome: Callable[[Any], None]) -> None:
        """Do ``work``, which waits for a quick disk, on the reactor's thread, then ``outcome`` with its value."""
        raise NotImplementedError
