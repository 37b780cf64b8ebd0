"""One TLS connection: between the bytes of the socket and the commands of a channel.

The socket's reads come to ``received``, which gives decrypted bytes to the channel's input. To the channel, the link is
the transport. All limits of the port hold for TLS, because input, output and channel are the same. The handshake has
limits of its own: its time, its bytes, and its share of a turn of the reactor, since it takes a millisecond or two.

Twisted's own TLS (``TLSMemoryBIOProtocol``) has none of these limits, see docs/decisions/0029-tls-in-our-own-layer.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from cryptography.x509 import InvalidVersion
from OpenSSL import SSL
from OpenSSL.crypto import FILETYPE_ASN1, dump_certificate
from twisted.internet.interfaces import IConsumer, IDelayedCall, ITransport

from gateway.errors import forget_frames
from gateway.remoting.input import IncompleteFrames
from gateway.remoting.input_turn import InputTurn
from gateway.remoting.tls.identity import reason_of
from gateway.telemetry.logs import EventLog

log = EventLog("tls")

HANDSHAKE_BYTES: Final = 65_536
"""The bytes that a peer may send until its handshake is done: a long chain of certificates takes 20 KB."""
HANDSHAKE_HELD_BYTES: Final = 65_536
"""The memory of an unfinished handshake, as it counts in ``gateway.incompleteFrameBytesLimit``."""
MAX_OWED_BYTES: Final = 16_384
"""The bytes of TLS itself (answers to key updates, refusals) that wait for a peer that does not read."""
READ_BYTES: Final = 65_536
SEALED_EXTRA_BYTES: Final = 256
"""More than encryption adds to a record of up to ``RECORD_BYTES``."""
RECORD_BYTES: Final = 16_384
"""The most that a record holds (RFC 8446, 5.1); never change."""
HEADER_BYTES: Final = 5
"""The header of a record, which ends with the length of the rest in two bytes (RFC 8446, 5.1); never change."""


Received = Callable[[bytes], None]
"""A function that takes the bytes of each read."""


class Encrypted(Protocol):
    """The part of a connection that a link needs: of a ``Channel``, or of a connection to the pages."""

    @property
    def closed(self) -> bool:
        """True once the connection is closed, or closes."""

    @property
    def remote(self) -> tuple[str, int]:
        """The peer's address and port."""

    @property
    def remote_text(self) -> str:
        """The peer as log lines name it."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the kernel has not taken yet."""

    def encrypt(self, transport: ITransport) -> None:
        """Write through this transport from now on; nothing was written before."""

    def write_own(self, data: bytes) -> None:
        """Write bytes of TLS itself."""

    def on_close(self, callback: Callable[[object], None]) -> None:
        """Call back once when the connection closes."""

    def close(self, reason: str, *, is_logged: bool = False) -> None:
        """Close after all gathered bytes have been written."""

    def drop(self, reason: str) -> None:
        """Close at once."""


class Link:
    """The transport of a channel whose peer speaks TLS.

    :param connection: OpenSSL's side of the connection.
    :param raw: the transport of the encrypted bytes.
    :param plain_received: takes the decrypted bytes.
    """

    __slots__ = (
        "_came",
        "_channel",
        "_connection",
        "_head",
        "_incomplete_frames",
        "_is_begun",
        "_is_open",
        "_kept",
        "_missing",
        "_on_open",
        "_overhead_bytes",
        "_plain_received",
        "_timer",
        "_turn",
        "_waits",
        "raw",
    )

    def __init__(
        self,
        connection: SSL.Connection,
        raw: ITransport,
        channel: Encrypted,
        plain_received: Received,
        turn: InputTurn,
        incomplete_frames: IncompleteFrames,
        call_later: Callable[..., IDelayedCall],
        handshake_timeout_ms: int,
    ) -> None:
        self.raw = raw
        """The transport of the encrypted bytes."""
        self._on_open: Callable[[], None] | None = None
        self._connection = connection
        self._channel = channel
        self._plain_received = plain_received
        self._turn = turn
        self._incomplete_frames = incomplete_frames
        self._is_begun = False
        self._is_open = False
        self._waits = False
        self._overhead_bytes = 0
        self._kept = b""
        self._head = b""  # of a record whose length has not come
        self._came = 0  # of a record whose length has come
        self._missing = 0
        self._timer: IDelayedCall | None = call_later(
            handshake_timeout_ms / 1_000, self.drop, "gateway.tlsHandshakeTimeoutMs: the TLS handshake is not done"
        )
        channel.encrypt(cast(ITransport, self))
        channel.on_close(self._end_handshake)
        incomplete_frames.holds(self, HANDSHAKE_HELD_BYTES)

    @property
    def peer_print(self) -> bytes:
        """The fingerprint (SHA-256) of the peer's certificate; empty if it showed none."""
        certificate = self._connection.get_peer_certificate()
        return b"" if certificate is None else hashlib.sha256(dump_certificate(FILETYPE_ASN1, certificate)).digest()

    # Reading

    def begin(self, on_open: Callable[[], None]) -> None:
        """Begin the handshake of a connection that this process made; call back once when it is done."""
        if not self._channel.closed:
            self._on_open = on_open
            self.go_on()

    def received(self, data: bytes) -> None:
        """Take encrypted bytes from the socket."""
        if self._channel.closed:
            return
        self._overhead_bytes += len(data)
        had_incomplete = self._incomplete_bytes > 0
        self._follow(data)
        if self._is_open:
            if had_incomplete or self._incomplete_bytes:
                self._incomplete_frames.holds(self, self._incomplete_bytes)
            if not self._channel.closed:
                self._read(data)
            return
        self._connection.bio_write(data)
        if self._overhead_bytes > HANDSHAKE_BYTES:
            self.drop(f"its TLS handshake is longer than {HANDSHAKE_BYTES} bytes")
        elif not self._waits:
            self._waits = not self._turn.has_time_for_handshake
            if self._waits:
                self._turn.wait_for_handshake(self, self._channel.remote[0], self._is_begun)
            else:
                self.go_on()

    @property
    def _incomplete_bytes(self) -> int:
        """The bytes that have come of a record that is not complete."""
        return self._came + len(self._head)

    def _follow(self, data: bytes) -> None:
        """Note where the records in the encrypted bytes end."""
        data, begin, end = self._head + data, -self._came, self._missing
        while end + HEADER_BYTES <= len(data):
            begin, end = end, end + HEADER_BYTES + int.from_bytes(data[end + 3 : end + HEADER_BYTES], "big")
        self._head = data[end:]
        self._missing = max(end - len(data), 0)
        self._came = len(data) - begin if self._missing else 0

    def go_on(self) -> None:
        """Take a step of the handshake."""
        self._waits = False
        if self._channel.closed:
            return
        self._is_begun = True
        turn = self._turn
        began_s = turn.seconds()
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            self._write_own()
        except SSL.Error as error:
            self.raw.write(self._made())  # an alert, which tells the peer
            self._failed("TLS handshake failed", error)
        else:
            self._write_own()
            self._opened()
        turn.spend_on_handshake(began_s)
        if self._is_open and not self._channel.closed:
            self._read()

    def drop(self, reason: str) -> None:
        """Close at once."""
        self._channel.drop(reason)

    def _opened(self) -> None:
        self._is_open = True
        self._overhead_bytes = 0
        on_open = self._on_open
        self._end_handshake(self._channel)
        if not self._channel.closed:
            self._incomplete_frames.holds(self, self._incomplete_bytes)
        if log.has_debug:
            log.debug(
                "TLS connection",
                remote=self._channel.remote_text,
                protocol=self._connection.get_protocol_version_name(),
                cipher=self._connection.get_cipher_name(),
                certificate=_name_of(self._connection),
            )
        if on_open is not None:
            on_open()

    def _read(self, data: bytes = b"") -> None:
        """Decrypt what came, and hand it over at once; OpenSSL keeps the memory of the longest piece that it got."""
        receive = self._connection.recv
        parts: list[bytes] = []
        end: SSL.Error | None = None
        try:
            for at in range(0, len(data) or 1, RECORD_BYTES):
                if data:
                    self._connection.bio_write(data[at : at + RECORD_BYTES])
                with suppress(SSL.WantReadError):
                    while True:
                        parts.append(receive(READ_BYTES))
        except SSL.Error as error:
            forget_frames(error)  # this one would keep the error
            end = error
        if parts:
            plain = parts[0] if len(parts) == 1 else b"".join(parts)
            self._overhead_bytes -= len(plain)
            self._plain_received(plain)
        if not parts or self._overhead_bytes > MAX_OWED_BYTES:
            self._overhead_bytes = 0
            self._write_own()
        if isinstance(end, SSL.ZeroReturnError):
            self._channel.close("the peer ended TLS", is_logged=True)
        elif end is not None:
            self._failed("malformed TLS bytes", end)

    def _write_own(self) -> None:
        """Write what TLS itself has to say: its part of the handshake, answers to key updates, refusals.

        A peer that asks for more and more of it and does not read is closed.
        """
        made = self._made()
        if not made or self._channel.closed:
            return
        if not self._channel.unsent_bytes:
            self._channel.write_own(self._kept + made)
            self._kept = b""
            return
        self._kept += made  # goes out before the next answer
        if len(self._kept) >= MAX_OWED_BYTES:
            self.drop("it does not read what TLS answers to it")

    def _failed(self, event: str, error: SSL.Error) -> None:
        if not self._channel.closed:
            log.warning(event, remote=self._channel.remote_text, reason=reason_of(error))
        forget_frames(error)
        self._channel.close(event, is_logged=True)

    def _end_handshake(self, _: object) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        self._on_open = None  # it refers to the protocol, which refers to this link
        self._incomplete_frames.holds(self, 0)

    # Writing: what a channel and its output need of a transport

    def seal(self, data: bytes) -> bytes:
        """Return the encrypted form of bytes; it has to be written before anything that is sealed later."""
        try:
            self._connection.sendall(data)
        except SSL.Error as error:  # the connection has failed, and its channel closes
            forget_frames(error)
            return b""
        self._overhead_bytes = 0
        kept, self._kept = self._kept, b""
        return kept + self._made(len(data) + (len(data) // RECORD_BYTES + 1) * SEALED_EXTRA_BYTES)

    def write(self, data: bytes) -> None:
        """Encrypt and write."""
        self.raw.write(self.seal(data))

    def loseConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """Tell the peer that nothing follows, and close after everything is written."""
        self._say_end()
        self.raw.loseConnection()

    def loseWriteConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """Tell the peer that nothing follows, and go on reading."""
        self._say_end()
        cast(Any, self.raw).loseWriteConnection()

    def abortConnection(self) -> None:  # noqa: N802 (Twisted's name)
        """Close at once."""
        cast(Any, self.raw).abortConnection()

    def pauseProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Read no more from the socket."""
        cast(Any, self.raw).pauseProducing()

    def resumeProducing(self) -> None:  # noqa: N802 (Twisted's name)
        """Read from the socket again."""
        cast(Any, self.raw).resumeProducing()

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: N802 (Twisted's name)
        """Register a producer, which the transport pauses while its buffer is full."""
        cast(IConsumer, self.raw).registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:  # noqa: N802 (Twisted's name)
        """Forget the producer."""
        cast(IConsumer, self.raw).unregisterProducer()

    def _say_end(self) -> None:
        if self._is_open:
            with suppress(SSL.Error):
                self._connection.shutdown()
        self.raw.write(self._kept + self._made())
        self._kept = b""

    def _made(self, expected_bytes: int = RECORD_BYTES) -> bytes:
        """Return what OpenSSL has made to be sent."""
        read = self._connection.bio_read
        found = b""
        with suppress(SSL.WantReadError):
            found = read(expected_bytes)
            while len(found) % expected_bytes == 0:  # there may be more
                found += read(expected_bytes)
        return found


def _name_of(connection: SSL.Connection) -> str | None:
    """Return the name in the peer's certificate; None if it showed none.

    OpenSSL takes certificates that cannot be read here: of another version, or with a name in no encoding.
    """
    try:
        certificate = connection.get_peer_certificate(as_cryptography=True)
        return None if certificate is None else certificate.subject.rfc4514_string()
    except (ValueError, TypeError, InvalidVersion):
        return "a name that cannot be read"
