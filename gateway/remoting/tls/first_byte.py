"""The first byte of a connection says whether its peer speaks TLS, and the mode says what happens then.

A handshake of TLS begins with 0x16. A plain frame begins with its length, and 0x16 would be a length of 352 MiB or
more, so the two cannot be confused. Nothing else is looked at: after the first read, the bytes of a plain connection
take the same way as without TLS. Upstream: ``NettyRemotingServer.TlsModeHandler``.

The libraries of TLS take about 20 MB and 0.1 s. They are loaded with the first handshake, or at the start if the
settings name files, protocols or ciphers, which have to be right before a port opens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.in_thread import InThread
from gateway.reactor.interface import TimeSource
from gateway.remoting.channel import Channel
from gateway.remoting.input import IncompleteFrames, Input
from gateway.remoting.input_turn import InputTurn
from gateway.settings.remoting import RemotingSettings
from gateway.settings.tls import TlsMode, TlsSettings
from gateway.telemetry.logs import EventLog

if TYPE_CHECKING:
    from twisted.internet.interfaces import ITransport

    from gateway.remoting.tls.identity import Identity
    from gateway.remoting.tls.renewal import Renewal

log = EventLog("tls")

HANDSHAKE: Final = 0x16
"""The first byte of a TLS connection: the content type of a handshake record (RFC 8446, 5.1); never change."""
HOW_TO_ENCRYPT = "let the client use TLS (Java: -Dtls.enable=true), or serve both with tls.server.mode=permissive"
HOW_TO_PERMIT = "switch TLS off in the client, or allow it here with tls.server.mode=permissive"

Received = Callable[[bytes], None]
"""A function that takes the bytes of each read."""


class FirstByte:
    """Decides for each connection of one server.

    :raises SettingsError: a file of the settings cannot be used.
    """

    def __init__(
        self,
        settings: RemotingSettings,
        reactor: TimeSource,
        turn: InputTurn,
        incomplete_frames: IncompleteFrames,
        in_thread: InThread,
    ) -> None:
        self._settings = settings
        self._reactor = reactor
        self._turn = turn
        self._incomplete_frames = incomplete_frames
        self._mode = settings.tls_mode
        self._identity: Identity | None = None
        self._renewal: Renewal | None = None
        if self._mode is not TlsMode.DISABLED and _must_be_checked(settings):
            from gateway.remoting.tls.renewal import Renewal

            self._renewal = Renewal(settings, reactor, in_thread, self._use)  # sees what changes from here on
            self._load()

    def start(self) -> None:
        """Use renewed files from now on."""
        if self._renewal is not None:
            self._renewal.start()

    def stop(self) -> None:
        """Look at no files any more."""
        if self._renewal is not None:
            self._renewal.stop()

    @property
    def summary(self) -> str:
        """The mode, and where the certificate comes from."""
        if self._mode is TlsMode.DISABLED:
            return self._mode.value
        return f"{self._mode.value} ({self._settings.tls_certificate or 'self-signed'})"

    def receiver(self, data: bytes, channel: Channel, own_input: Input, transport: ITransport) -> Received:
        """Return the function that takes this first read of a connection, and every later one."""
        is_tls = data[0] == HANDSHAKE
        if channel.closed or (not is_tls and self._mode is not TlsMode.ENFORCING):
            return own_input.received
        if not is_tls:
            return _refuse(channel, "plain connection refused: only TLS is served", HOW_TO_ENCRYPT)
        if self._mode is TlsMode.DISABLED:
            return _refuse(channel, "TLS connection refused: TLS is switched off", HOW_TO_PERMIT)
        identity = self._identity or self._load()
        from gateway.remoting.tls.link import Link

        return Link(
            identity.connection(),
            transport,
            channel,
            own_input,
            self._turn,
            self._incomplete_frames,
            self._reactor.callLater,
            self._settings.tls_handshake_timeout_ms,
        ).received

    def _load(self) -> Identity:
        from gateway.remoting.tls.identity import Identity

        identity = Identity(self._settings)
        self._use(identity)
        return identity

    def _use(self, identity: Identity) -> None:
        """Present this identity on new connections."""
        self._identity = identity


def _must_be_checked(settings: TlsSettings) -> bool:
    """Return whether the settings have anything that can be wrong."""
    default = TlsSettings
    return bool(
        settings.tls_certificate
        or settings.tls_authorities
        or settings.tls_ciphers
        or settings.tls_protocols != default.tls_protocols
    )


def _refuse(channel: Channel, event: str, advice: str) -> Received:
    log.warning(event, remote=channel.remote_text, advice=advice)
    channel.close(event, is_logged=True)
    return _drop


def _drop(data: bytes) -> None:
    """Drop bytes of a connection that is closing."""
