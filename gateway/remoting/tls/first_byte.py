"""The first byte of a connection says whether its peer speaks TLS, and the mode says what happens then.

A handshake of TLS begins with 0x16. A plain frame begins with its length, and 0x16 would be a length of 352 MiB or
more, so the two cannot be confused. Nothing else is looked at: after the first read, the bytes of a plain connection
take the same way as without TLS. Upstream: ``NettyRemotingServer.TlsModeHandler``.

The libraries of TLS take about 20 MB and 0.1 s. They are loaded with the first handshake, or at the start if the
settings name files, protocols or ciphers, which have to be right before a port opens.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.in_thread import InThread
from gateway.reactor.interface import TimeSource
from gateway.remoting.input import IncompleteFrames
from gateway.remoting.input_turn import InputTurn
from gateway.remoting.tls.renewal import Renewal
from gateway.settings.remoting import RemotingSettings
from gateway.settings.tls import ClientCertificates, ServerTlsSettings, TlsMode
from gateway.telemetry.logs import EventLog

if TYPE_CHECKING:
    from twisted.internet.interfaces import ITransport

    from gateway.remoting.tls.identity import Identity
    from gateway.remoting.tls.link import Encrypted, Link, Received

log = EventLog("tls")

HANDSHAKE: Final = 0x16
"""The first byte of a TLS connection: the content type of a handshake record (RFC 8446, 5.1); never change."""


class Served(NamedTuple):
    """The languages of a kind of port, and the words for its clients."""

    mode: TlsMode
    setting: str
    client: str
    """The way in which clients speak TLS."""


class FirstByte:
    """Decides for each connection of one server.

    :param renewal: of ``renewed_identity``.
    """

    def __init__(
        self,
        settings: RemotingSettings,
        reactor: TimeSource,
        turn: InputTurn,
        incomplete_frames: IncompleteFrames,
        renewal: Renewal[Identity],
    ) -> None:
        self._settings = settings
        self._reactor = reactor
        self._turn = turn
        self._incomplete_frames = incomplete_frames
        self._requests = Served(settings.tls_mode, "tls.server.mode", "Java: -Dtls.enable=true")
        self._pages = Served(settings.tls_pages_mode, "gateway.metricsTlsMode", "https")
        self._renewal = renewal

    def start(self) -> None:
        """Use renewed files from now on."""
        self._renewal.start(self)

    def stop(self) -> None:
        """Look at no files any more."""
        self._renewal.stop(self)

    @property
    def summary(self) -> str:
        """The mode, and where the certificate comes from."""
        return self._summary(self._requests)

    @property
    def summary_of_pages(self) -> str:
        """The same of the port of the pages."""
        return self._summary(self._pages)

    def receiver(
        self, data: bytes, channel: Encrypted, received: Received, transport: ITransport, *, is_page: bool = False
    ) -> Received:
        """Return the function that takes this first read of a connection, and every later one.

        :param received: takes the plain bytes.
        """
        served = self._pages if is_page else self._requests
        is_tls = data[0] == HANDSHAKE
        if channel.closed or (not is_tls and served.mode is not TlsMode.ENFORCING):
            return received
        both = f"serve both with {served.setting}={TlsMode.PERMISSIVE}"
        if not is_tls:
            advice = f"let the client use TLS ({served.client}), or {both}"
            return _refuse(channel, "plain connection refused: only TLS is served", advice)
        if served.mode is TlsMode.DISABLED:
            advice = f"switch TLS off in the client, or {both}"
            return _refuse(channel, "TLS connection refused: TLS is switched off", advice)
        return self.link(transport, channel, received).received

    def link(self, transport: ITransport, channel: Encrypted, received: Received) -> Link:
        """Return the server's side of a connection whose peer speaks TLS; ``received`` takes the plain bytes."""
        identity = self._renewal.identity()
        from gateway.remoting.tls.link import Link

        return Link(
            identity.connection(),
            transport,
            channel,
            received,
            self._turn,
            self._incomplete_frames,
            self._reactor.callLater,
            self._settings.tls_handshake_timeout_ms,
        )

    def _summary(self, served: Served) -> str:
        if served.mode is TlsMode.DISABLED:
            return served.mode.value
        return f"{served.mode.value} ({self._settings.tls_certificate or 'self-signed'})"


def renewed_identity(settings: RemotingSettings, reactor: TimeSource, in_thread: InThread) -> Renewal[Identity]:
    """Return the server's side of TLS, which all servers of a process share.

    :raises SettingsError: a file of the settings cannot be used.
    """
    is_used = {settings.tls_mode, settings.tls_pages_mode} != {TlsMode.DISABLED}
    files = (settings.tls_certificate, settings.tls_key, settings.tls_authorities) if is_used else ()
    renewal = Renewal(partial(_identity, settings), files, reactor, in_thread)
    if is_used and _must_be_checked(settings):
        renewal.identity()
    if settings.tls_client_certificates is ClientCertificates.REQUIRE and settings.tls_mode is not TlsMode.ENFORCING:
        advice = f"to keep out who has none, set tls.server.mode={TlsMode.ENFORCING}"
        log.warning("plain connections are let in without a certificate of the client", advice=advice)
    return renewal


def _identity(settings: ServerTlsSettings) -> Identity:
    from gateway.remoting.tls.identity import Identity

    return Identity(settings)


def _must_be_checked(settings: ServerTlsSettings) -> bool:
    """Return whether the settings have anything that can be wrong."""
    default = ServerTlsSettings
    return bool(
        settings.tls_certificate
        or settings.tls_authorities
        or settings.tls_ciphers
        or settings.tls_protocols != default.tls_protocols
    )


def _refuse(channel: Encrypted, event: str, advice: str) -> Received:
    log.warning(event, remote=channel.remote_text, advice=advice)
    channel.close(event, is_logged=True)
    return _drop


def _drop(data: bytes) -> None:
    """Drop bytes of a connection that is closing."""
