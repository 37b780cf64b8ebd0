"""Bytes on their way out of a channel: when they may be written, and how many are not gone yet.

``SocketOutput`` is for plain TCP. It tries the socket first, which saves a round through the reactor for
nearly every answer, and gives the reactor only what the kernel did not take. ``TransportOutput`` is for every
other transport (TLS, tests): it writes, and stops while the transport asks it to. Both are *blocked* while
earlier bytes wait; the channel then keeps its answers, and hears ``on_drained`` when it may go on.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import errno
import socket
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from typing import Final, Protocol, cast

from twisted.internet import tcp
from twisted.internet.interfaces import IConsumer, IPullProducer, IPushProducer, ITCPTransport, ITransport
from zope.interface import classImplements

MAX_SENT_AT_ONCE: Final = 1024 * 1024
"""After so many bytes other connections get their turn."""
NOT_NOW: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})
"""The kernel's buffer is full."""


class Output:
    """What a channel needs to know of its way out."""

    __slots__ = ("_on_drained", "blocked", "unsent_bytes")

    def __init__(self, on_drained: Callable[[], None]) -> None:
        self._on_drained = on_drained
        self.blocked = False
        self.unsent_bytes = 0

    def write(self, data: bytes) -> None:
        """Send; only to be called while not blocked."""
        raise NotImplementedError

    def untaken_bytes(self) -> int:
        """Bytes that the peer has not taken, as exactly as is known: while blocked, another number says it took some.

        Costs some system calls; ``unsent_bytes`` costs none and falls only when all are gone.
        """
        return self.unsent_bytes

    def release(self) -> None:
        """Let go of the transport, so that it may close once its buffer is empty."""
        raise NotImplementedError

    def end(self) -> None:
        """Forget everything: the transport is gone."""
        self._on_drained = _nothing
        self.blocked = False
        self.unsent_bytes = 0


class NoOutput(Output):
    """The output of a channel whose transport is gone."""

    __slots__ = ()

    def write(self, data: bytes) -> None:
        """Nobody is there."""

    def release(self) -> None:
        """Nothing is held."""


class _Gone:
    """Stands for a transport that is gone, so that its channel does not keep the real one."""

    def write(self, data: bytes) -> None:
        """Nobody is there."""

    def pauseProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Nothing is read."""

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Nothing is read."""

    def loseConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """It is lost."""


def _nothing() -> None:
    """Nobody waits any more."""


NO_OUTPUT: Final = NoOutput(_nothing)
GONE: Final = cast(ITransport, _Gone())


class DirectTransport(Protocol):
    """The members of ``twisted.internet.tcp.Connection`` that direct sending uses."""

    dataBuffer: bytes  # noqa: N815
    offset: int
    """What it sends now, from here on; empty before it has begun."""

    def write(self, data: bytes) -> None:
        """Buffer and send when the socket is writable."""

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802
        """A pull producer is resumed at once and whenever the buffer has become empty."""

    def unregisterProducer(self) -> None:  # noqa: N802
        """Forget the producer."""

    def getHandle(self) -> socket.socket:  # noqa: N802
        """The socket itself."""


def output_for(transport: ITransport, on_drained: Callable[[], None]) -> Output:
    """The right kind of output for a transport."""
    if isinstance(transport, tcp.Connection) and not transport.TLS:
        return SocketOutput(cast(DirectTransport, transport), on_drained)
    return TransportOutput(transport, on_drained)


def send_without_delay(transport: ITransport) -> None:
    """Switch Nagle's algorithm off: answers are written whole, waiting gains nothing."""
    if ITCPTransport.providedBy(transport):
        transport.setTcpNoDelay(True)


class SocketOutput(Output):
    """Sends straight to the socket; registers as pull producer only while something is left over."""

    __slots__ = ("_rest", "_send", "_transport")

    def __init__(self, transport: DirectTransport, on_drained: Callable[[], None]) -> None:
        super().__init__(on_drained)
        self._transport = transport
        self._send = transport.getHandle().send
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Send; whatever the kernel does not take blocks this output until the reactor has sent it."""
        sent = data if len(data) <= MAX_SENT_AT_ONCE else memoryview(data)[:MAX_SENT_AT_ONCE]
        try:
            taken = self._send(sent)
        except OSError as error:
            if error.errno not in NOT_NOW:
                self._end()
                return
            taken = 0
        if taken == len(data):
            return
        self._rest = data[taken:]
        self.unsent_bytes = len(self._rest)
        self.blocked = True
        self._transport.registerProducer(self, False)

    def untaken_bytes(self) -> int:
        """What the transport and the kernel still have: the kernel alone asks for more in steps of a megabyte."""
        transport = self._transport
        sending = len(transport.dataBuffer) - transport.offset
        return (sending or self.unsent_bytes) + _queued_bytes(transport.getHandle())

    def _end(self) -> None:
        """Answers reach the peer no more, but what it sent before it went is carried out, such as a producer's last
        outcomes: it lies unread in the kernel. Reading finds the end behind it.
        """
        with suppress(OSError):  # mostly it is known there as ended already
            self._transport.getHandle().shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Let go of the transport; what it already has it still sends."""
        if self.blocked:
            self._transport.unregisterProducer()

    def end(self) -> None:
        """Forget everything: the transport is gone."""
        super().end()
        self._rest = b""

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """The transport's buffer is empty: hand over the rest, or be done with it."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._transport.write(rest)
            return
        self.blocked = False
        self.unsent_bytes = 0
        self._transport.unregisterProducer()
        self._on_drained()

    def stopProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """The connection is lost."""
        self._rest = b""


def _queued_bytes(connected: socket.socket) -> int:
    """Bytes in the kernel that the peer's has not acknowledged; 0 where the system does not tell."""
    try:
        return int.from_bytes(ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except (OSError, ValueError):
        return 0


class TransportOutput(Output):
    """Writes to any transport; blocked while the transport's own buffer is over its limit."""

    __slots__ = ("_transport",)

    def __init__(self, transport: ITransport, on_drained: Callable[[], None]) -> None:
        super().__init__(on_drained)
        self._transport = transport
        self._consumer.registerProducer(cast(IPushProducer, self), True)

    @property
    def _consumer(self) -> IConsumer:
        return cast(IConsumer, self._transport)

    def write(self, data: bytes) -> None:
        """Hand over to the transport, which never refuses."""
        self._transport.write(data)
        if self.blocked:
            self.unsent_bytes = len(data)

    def release(self) -> None:
        """Let go of the transport; what it already has it still sends."""
        self._consumer.unregisterProducer()

    def pauseProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """The transport has enough."""
        self.blocked = True

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """The transport has sent what it had."""
        self.blocked = False
        self.unsent_bytes = 0
        self._on_drained()

    def stopProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """The connection is lost."""


# Not as decorators, with which classes are not compiled.
classImplements(SocketOutput, IPullProducer)
classImplements(TransportOutput, IPushProducer)
