"""The connection between a master and a slave, as TLS needs it: ``Encrypted`` for the lines of both sides.

A line gets the link as its transport before it has written anything. Nothing here knows the words of a protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from twisted.internet.interfaces import ITransport


class Line(Protocol):
    """A connection of a master or of a slave."""

    transport: Any

    @property
    def is_closed(self) -> bool:
        """True once the connection is closed."""

    @property
    def is_full(self) -> bool:
        """True while the connection takes nothing more."""

    def lose(self, reason: str) -> None:
        """Close the connection after everything is written; the owner hears of it when the connection is gone."""

    def close(self, reason: str) -> None:
        """Close the connection at once."""


class SealedLine:
    """Implementation of ``Encrypted`` for a line."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._raw: Any = line.transport
        peer = self._raw.getPeer()
        self._remote = str(peer.host), int(peer.port)
        self._is_ending = False
        self._when_closed: list[Callable[[object], None]] = []

    @property
    def closed(self) -> bool:
        """True once the connection is closed, or closes."""
        return self._is_ending or self._line.is_closed

    @property
    def remote(self) -> tuple[str, int]:
        """The peer's address and port."""
        return self._remote

    @property
    def remote_text(self) -> str:
        """The peer as log lines name it."""
        return f"{self._remote[0]}:{self._remote[1]}"

    @property
    def unsent_bytes(self) -> int:
        """1 while the connection takes nothing more, otherwise 0: how many bytes wait is not known."""
        return int(self._line.is_full)

    def encrypt(self, transport: ITransport) -> None:
        """Write through this transport from now on."""
        self._line.transport = transport

    def write_own(self, data: bytes) -> None:
        """Write bytes of TLS itself."""
        self._raw.write(data)

    def on_close(self, callback: Callable[[object], None]) -> None:
        """Call back once when the connection closes."""
        self._when_closed.append(callback)

    def close(self, reason: str, *, is_logged: bool = False) -> None:  # noqa: ARG002 (the owner of the line logs)
        """Close after everything is written: the peer learns from the last bytes what was wrong."""
        if not self.closed:
            self._is_ending = True
            self._line.lose(reason)

    def drop(self, reason: str) -> None:
        """Close at once."""
        self._line.close(reason)

    def end(self) -> None:
        """Tell the link that the line is closed."""
        callbacks, self._when_closed = self._when_closed, []
        for callback in callbacks:
            callback(self)
