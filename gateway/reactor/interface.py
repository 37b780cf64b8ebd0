"""The interfaces of a reactor: time and TCP of every reactor, and two ways to wait of a reactor made for servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.interfaces import IConnector, IDelayedCall, IListeningPort


class TimeSource(Protocol):
    """The time part of a reactor: ``twisted.internet.task.Clock`` is enough for tests."""

    def seconds(self) -> float:
        """Return seconds that never run backwards."""

    def callLater(self, delay: float, callable: Callable[..., object], *args: object) -> IDelayedCall:  # noqa: A002, N802
        """Call ``callable`` once, ``delay`` seconds from now."""


class NetworkReactor(TimeSource, Protocol):
    """The time part and the TCP part of a reactor."""

    def listenTCP(self, port: int, factory: Any, backlog: int, interface: str) -> IListeningPort:  # noqa: N802
        """Accept connections on a port.

        :raises CannotListenError: the port cannot be listened on.
        """

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float) -> IConnector:  # noqa: N802
        """Make a connection; the factory is notified if the attempt fails."""


class QuickReactor:
    """A reactor with special ways to wait for threads and disks; ``doIteration`` reads and waits once."""

    def doIteration(self, delay: float | None) -> None:  # noqa: N802 (Twisted's name)
        """Wait ``delay`` seconds at most, or for ever with None, and handle the events that came."""
        raise NotImplementedError

    def expect_call(self, expected: bool) -> None:
        """Say whether a thread will call within moments, so that connections may be read at once after the call."""
        raise NotImplementedError

    def wait_for(self, work: Callable[[], Any], outcome: Callable[[Any], None]) -> None:
        """Call ``work``, which waits for a quick disk, on the reactor's thread, then ``outcome`` with its value."""
        raise NotImplementedError
