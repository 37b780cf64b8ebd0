"""The outgoing bytes of a channel: when they may be written, and how many are left.

``SocketOutput`` is for plain TCP. ``SocketOutput`` writes to the socket first, which saves a round through the reactor
for nearly every answer. The reactor gets only the bytes that the kernel did not take. ``SealedOutput`` does the same
with encrypted bytes. ``TransportOutput`` is for every other transport (tests): it writes, and pauses while the
transport asks for a pause. All are *blocked* while earlier bytes wait. The channel then keeps its answers until
``on_drained`` is called.
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
"""The number of bytes after which other connections get their turn."""
NOT_NOW: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})
"""The errors that say that the kernel's buffer is full."""


class Output:
    """The way out of a channel, in the form that the channel uses."""

    __slots__ = ("_on_drained", "blocked", "unsent_bytes")

    def __init__(self, on_drained: Callable[[], None]) -> None:
        self._on_drained = on_drained
        self.blocked = False
        self.unsent_bytes = 0

    def write(self, data: bytes) -> None:
        """Send the bytes of an answer; call this only while the output is not blocked."""
        raise NotImplementedError

    def write_own(self, data: bytes) -> None:
        """Send bytes that TLS itself needs, after all earlier bytes. May be called while the output is blocked, too."""
        raise NotImplementedError

    def untaken_bytes(self) -> int:
        """Return how many bytes the peer has not taken, as exactly as the system can tell.

        While the output is blocked, a changed number means that the peer took some. This call costs some system calls;
        ``unsent_bytes`` costs none and falls only when all bytes are gone.
        """
        return self.unsent_bytes

    def release(self) -> None:
        """Release the transport, so that it may close after its buffer is empty."""
        raise NotImplementedError

    def end(self) -> None:
        """Forget everything, because the transport is gone."""
        self._on_drained = _nothing
        self.blocked = False
        self.unsent_bytes = 0


class NoOutput(Output):
    """The output of a channel whose transport is gone."""

    __slots__ = ()

    def write(self, data: bytes) -> None:
        """Do nothing: nobody is there."""

    def write_own(self, data: bytes) -> None:
        """Do nothing: nobody is there."""

    def release(self) -> None:
        """Do nothing: no transport is held."""


class _Gone:
    """A stand-in for a transport that is gone, so that its channel does not keep the real transport."""

    def write(self, data: bytes) -> None:
        """Do nothing: nobody is there."""

    def pauseProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing: nothing is read."""

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing: nothing is read."""

    def loseConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing: the connection is already lost."""


def _nothing() -> None:
    """Do nothing: nobody waits any more."""


NO_OUTPUT: Final = NoOutput(_nothing)
GONE: Final = cast(ITransport, _Gone())


class DirectTransport(Protocol):
    """The members of ``twisted.internet.tcp.Connection`` that direct sending uses."""

    dataBuffer: bytes  # noqa: N815
    offset: int
    """The start of the unsent bytes in ``dataBuffer``, which is empty before sending has begun."""

    def write(self, data: bytes) -> None:
        """Buffer the bytes and send them when the socket is writable."""

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: N802
        """Register a producer; a pull producer is resumed at once and whenever the buffer has become empty."""

    def unregisterProducer(self) -> None:  # noqa: N802
        """Forget the producer."""

    def getHandle(self) -> socket.socket:  # noqa: N802
        """Return the socket itself."""


class SealingTransport(Protocol):
    """A transport that encrypts what goes to another, ``raw``."""

    raw: DirectTransport

    def seal(self, data: bytes) -> bytes:
        """Return the encrypted form of bytes."""


def output_for(transport: ITransport, on_drained: Callable[[], None]) -> Output:
    """Return the right kind of output for a transport."""
    if isinstance(transport, tcp.Connection) and not transport.TLS:
        return SocketOutput(cast(DirectTransport, transport), on_drained)
    raw = getattr(transport, "raw", None)
    if isinstance(raw, tcp.Connection):
        return SealedOutput(cast(SealingTransport, transport), on_drained)
    return TransportOutput(transport, on_drained)


def shown_print(transport: object) -> bytes | None:
    """Return the fingerprint of the certificate that a peer showed, empty if it showed none; None without TLS.

    :param transport: the transport of the connection, which is a ``Link`` if the peer speaks TLS.
    """
    found = getattr(transport, "peer_print", None)
    return found if isinstance(found, bytes) else None


def send_without_delay(transport: ITransport) -> None:
    """Switch Nagle's algorithm off: answers are written whole, so waiting gains nothing."""
    if ITCPTransport.providedBy(transport):
        transport.setTcpNoDelay(True)


class SocketOutput(Output):
    """An output that sends straight to the socket; it is a pull producer only while bytes are left over."""

    __slots__ = ("_rest", "_send", "_transport")

    def __init__(self, transport: DirectTransport, on_drained: Callable[[], None]) -> None:
        super().__init__(on_drained)
        self._transport = transport
        self._send = transport.getHandle().send
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Send; bytes that the kernel does not take block this output until the reactor has sent them."""
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
        """Return how many bytes the transport and the kernel still have.

        The kernel's bytes alone are not enough: the kernel takes further bytes in steps of a megabyte.
        """
        transport = self._transport
        sending = len(transport.dataBuffer) - transport.offset
        return (sending or self.unsent_bytes) + _queued_bytes(transport.getHandle())

    def _end(self) -> None:
        """Shut the socket down, because answers do not reach the peer any more.

        Commands that the peer sent before it left, such as a producer's last outcomes, lie unread in the kernel and are
        still carried out. Reading finds the end of the connection after them.
        """
        with suppress(OSError):  # usually the connection has ended already
            self._transport.getHandle().shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Release the transport; it still sends the bytes it already has."""
        if self.blocked:
            self._transport.unregisterProducer()

    def end(self) -> None:
        """Forget everything, because the transport is gone."""
        super().end()
        self._rest = b""

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Hand over the rest, or end the blocking if no rest is left; called when the transport's buffer is empty."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._transport.write(rest)
            return
        self.blocked = False
        self.unsent_bytes = 0
        self._transport.unregisterProducer()
        self._on_drained()

    def stopProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Drop the rest, because the connection is lost."""
        self._rest = b""


class SealedOutput(SocketOutput):
    """An output that encrypts; its counts are of encrypted bytes."""

    __slots__ = ("_seal",)

    def __init__(self, transport: SealingTransport, on_drained: Callable[[], None]) -> None:
        super().__init__(transport.raw, on_drained)
        self._seal = transport.seal

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        super().write(self._seal(data))

    def write_own(self, data: bytes) -> None:
        """Send bytes that are encrypted already; while blocked, all earlier bytes are in the transport's buffer."""
        if self.blocked:
            self._transport.write(data)
        else:
            super().write(data)

    def end(self) -> None:
        """Forget everything, because the transport is gone."""
        super().end()
        self._seal = _unsealed


def _unsealed(data: bytes) -> bytes:  # noqa: ARG001
    """Return nothing: nobody is there."""
    return b""


def _queued_bytes(connected: socket.socket) -> int:
    """Return how many bytes in the kernel the peer has not acknowledged; 0 if the system cannot tell."""
    try:
        return int.from_bytes(ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except (OSError, ValueError):
        return 0


class TransportOutput(Output):
    """An output for any transport; it is blocked while the transport's own buffer is over its limit."""

    __slots__ = ("_transport",)

    def __init__(self, transport: ITransport, on_drained: Callable[[], None]) -> None:
        super().__init__(on_drained)
        self._transport = transport
        self._consumer.registerProducer(cast(IPushProducer, self), True)

    @property
    def _consumer(self) -> IConsumer:
        return cast(IConsumer, self._transport)

    def write(self, data: bytes) -> None:
        """Hand the bytes to the transport, which never refuses."""
        self._transport.write(data)
        if self.blocked:
            self.unsent_bytes = len(data)

    def write_own(self, data: bytes) -> None:
        """Hand bytes that are encrypted already to the transport below."""
        cast(SealingTransport, self._transport).raw.write(data)

    def release(self) -> None:
        """Release the transport; it still sends the bytes it already has."""
        self._consumer.unregisterProducer()

    def pauseProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Block: the transport has enough bytes."""
        self.blocked = True

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Unblock: the transport has sent its bytes."""
        self.blocked = False
        self.unsent_bytes = 0
        self._on_drained()

    def stopProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing: the connection is lost."""


# Not decorators, because mypyc does not compile decorated classes.
classImplements(SocketOutput, IPullProducer)
classImplements(TransportOutput, IPushProducer)
