"""The server: it listens on one or more ports and owns the channels of the connections that come in.

One server has one dispatch, so a broker's ports (main and VIP) answer the same requests. One scan of all channels finds
the idle ones, instead of a timer for each channel. Upstream: ``NettyRemotingServer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import EADDRINUSE
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from twisted.application.service import Service
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress, IDelayedCall, IListeningPort
from twisted.internet.protocol import Factory, connectionDone
from twisted.python.failure import Failure

from gateway.errors import GatewayError
from gateway.in_thread import InThread, in_this_thread
from gateway.reactor.interface import NetworkReactor
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.answers.held_bytes import HeldBytes
from gateway.remoting.channel import Channel, host_of
from gateway.remoting.descriptors import takes_reserve
from gateway.remoting.input import Commands, IncompleteFrames, Input
from gateway.remoting.input_turn import InputTurn
from gateway.remoting.protocol import RemotingProtocol
from gateway.remoting.proxied import Proxies
from gateway.remoting.tls.first_byte import FirstByte, renewed_identity
from gateway.remoting.tls.renewal import Renewal
from gateway.settings import Address, RemotingSettings
from gateway.shares import Shares, counted_host
from gateway.telemetry.logs import EventLog
from wire.connection import Connection
from wire.quick.whole import whole_headers

if TYPE_CHECKING:
    from gateway.remoting.tls.identity import Identity

log = EventLog("remoting")

ROOM_SHARE = 16
"""The divisor that limits how many idle connections one search closes when descriptors run short.

A search closes at most one in this many open connections, plus one: each search has to read all connections.
"""
IDLE_LEAST_S = 5.0
"""The seconds that a connection must have been idle before it is closed for others."""
LOOKS_FOR_IDLE_EVERY_S = 1.0
"""The seconds between two searches for idle connections that find none."""
IDLE_SCANS = 12
"""The number of scans in one idle time: an idle channel is closed late by at most a twelfth of the idle time."""


class RemotingServer(Service):
    """A server that accepts connections on ``addresses`` while it runs.

    :param addresses: (interface, port) each; port 0 picks a free one, see ``ports``.
    :param flush_group: shared with the parts that complete batches of answers.
    :param port_option: the option that an error names when a port is in use.
    :param beside: another server of this process: the requests of both count in one sum, and both use one certificate.
    :param in_thread: looks at the files of TLS, and reads them when they are renewed.
    :raises SettingsError: a file of TLS cannot be used.
    """

    def __init__(
        self,
        reactor: NetworkReactor,
        dispatch: Commands,
        addresses: Sequence[tuple[str, int]],
        settings: RemotingSettings,
        flush_group: FlushGroup | None = None,
        port_option: str = "--port",
        in_thread: InThread = in_this_thread,
        beside: RemotingServer | None = None,
    ) -> None:
        self.flush_group = FlushGroup(reactor) if flush_group is None else flush_group
        self.input_turn = InputTurn(reactor, self.flush_group)
        self.whole_headers = whole_headers() if settings.short_ways else {}
        """The readers of frequent requests, which learn the forms of these requests."""
        self.new_connection = partial(Connection, settings.max_frame_bytes, self.whole_headers)
        """A function that makes the decoder for the bytes of a connection."""
        self.channels: dict[int, Channel] = {}
        self.held_bytes: HeldBytes = HeldBytes(settings.held_bytes_total) if beside is None else beside.held_bytes
        """The bytes that all requests hold, here and at other servers of the process."""
        self.incomplete_frames = IncompleteFrames(settings.incomplete_frame_bytes_limit, self.held_bytes)
        self.room = AnswerRoom(reactor, self.flush_group, settings.unsent_bytes_total, self.held_bytes)
        self.tls: Renewal[Identity] = renewed_identity(settings, reactor, in_thread) if beside is None else beside.tls
        """The server's side of TLS."""
        self.first_byte = FirstByte(settings, reactor, self.input_turn, self.incomplete_frames, self.tls)
        """Decides for each connection whether it is encrypted."""
        self.proxies = Proxies(settings, reactor, self.incomplete_frames)
        self._reactor = reactor
        self._dispatch = dispatch
        self._addresses = tuple(addresses)
        self._settings = settings
        self._port_option = port_option
        self._listening: list[IListeningPort] = []
        self._last_channel_id = 0
        self._idle_scan: IDelayedCall | None = None
        self._all_lost: Deferred[None] | None = None
        self._connected = 0
        self._shares: Shares[str] = Shares(settings.max_connections)
        self._next_look_s = 0.0

    @property
    def ports(self) -> list[int]:
        """The ports that the server listens on, in the order of the addresses; empty while stopped."""
        return [_port_of(listening) for listening in self._listening]

    def keep_ports(self, ports: Sequence[int]) -> None:
        """Listen on these ports instead of those of the addresses; call it before the start."""
        self._addresses = tuple((host, port) for (host, _), port in zip(self._addresses, ports, strict=True))

    def startService(self) -> None:  # noqa: N802 (Twisted's name)
        """Listen on all addresses, or on none.

        :raises GatewayError: the server cannot listen on an address; the text names the address and says what to do.
        """
        for interface, port in self._addresses:
            try:
                self._listen(interface, port)
            except CannotListenError as error:
                self._stop_listening()
                raise GatewayError(self._cannot_listen(interface, port, error)) from error
        self._scan_later()
        self.first_byte.start()
        super().startService()  # type: ignore[no-untyped-call]

    def stopService(self) -> Deferred[None]:  # noqa: N802 (Twisted's name)
        """Close the ports and all channels; fires when the last channel is gone."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._idle_scan is not None and self._idle_scan.active():
            self._idle_scan.cancel()
        self.first_byte.stop()
        closed = self.stop_listening()
        for channel in list(self.channels.values()):
            channel.close("the server stops")
        self.input_turn.finish()
        closed.addCallback(lambda _: self._wait_for_channels())
        return closed

    def stop_listening(self) -> Deferred[None]:
        """Accept no more connections; open channels stay, so that requests under way can be answered."""
        return DeferredList(self._stop_listening()).addCallback(lambda _: None)

    def open_channel(self, protocol: RemotingProtocol) -> Channel:
        """Make the channel of a connection that came in; called by the connection's protocol."""
        assert protocol.transport is not None
        self._last_channel_id += 1
        channel = Channel(
            protocol.transport,
            self._last_channel_id,
            flush_group=self.flush_group,
            room=self.room,
            reactor=self._reactor,
            settings=self._settings,
        )
        self.channels[channel.id] = channel
        channel.on_close(self._forget)
        if takes_reserve(protocol.transport, self._settings.reserved_descriptors) and not self._close_idlest():
            channel.abort("gateway.reservedDescriptors: the last descriptors of this process are for files")
        return channel

    def new_protocol(self, address: IAddress | None) -> RemotingProtocol | None:
        """Return a protocol for a connection that arrived, or None if there are too many connections."""
        host, _ = host_of(address)
        holder = counted_host(host)
        is_full = self._connected >= self._settings.max_connections
        if is_full or not (self.proxies.lists(host) or self._shares.has_room(holder)):
            reason = self._shares.refusal(holder, "connections of this host (gateway.maxConnections)")
            log.warning("connection refused", remote=address, reason=reason)
            return None
        self._shares.add(holder)
        self._connected += 1
        return ServerProtocol(self, self._dispatch, holder)

    def disconnected(self, holder: str) -> None:
        """Count a transport that is gone for good; called by its protocol."""
        self._shares.give_back(holder)
        self._connected -= 1
        if self._connected == 0 and self._all_lost is not None:
            all_lost, self._all_lost = self._all_lost, None
            all_lost.callback(None)

    def _listen(self, interface: str, port: int) -> None:
        listening = self._reactor.listenTCP(port, _Connections(self), self._settings.server_socket_backlog, interface)
        self._listening.append(listening)
        log.info("listening", address=Address(interface, _port_of(listening)), tls=self.first_byte.summary)

    def _cannot_listen(self, interface: str, port: int, error: CannotListenError) -> str:
        reason = error.socketError
        if isinstance(reason, OSError) and reason.errno == EADDRINUSE:
            return f"port {port} on {interface} is in use by another process, choose another with {self._port_option}"
        return f"cannot listen on {Address(interface, port)}: {getattr(reason, 'strerror', None) or reason}"

    def _stop_listening(self) -> list[Deferred[None]]:
        listening, self._listening = self._listening, []
        stopped = (port.stopListening() for port in listening)
        return [closed for closed in stopped if isinstance(closed, Deferred)]

    def _wait_for_channels(self) -> Deferred[None] | None:
        if self._connected == 0:
            return None
        self._all_lost = Deferred()
        return self._all_lost

    def _forget(self, channel: Channel) -> None:
        del self.channels[channel.id]

    def _close_idlest(self) -> bool:
        """Close the connections that have been idle the longest; return whether there were any."""
        now_s = self._reactor.seconds()
        if now_s < self._next_look_s:
            return False
        idle = [
            channel
            for channel in self.channels.values()
            if not channel.active and now_s - channel.idle_since_s >= IDLE_LEAST_S
        ]
        idle.sort(key=attrgetter("idle_since_s"))
        for channel in idle[: len(self.channels) // ROOM_SHARE + 1]:
            channel.close("idle, and descriptors run short (gateway.reservedDescriptors)")
        if not idle:
            self._next_look_s = now_s + LOOKS_FOR_IDLE_EVERY_S
        return bool(idle)

    def _scan_later(self) -> None:
        idle_s = self._settings.server_channel_max_idle_time_seconds
        self._idle_scan = self._reactor.callLater(idle_s / IDLE_SCANS, self._close_idle)

    def _close_idle(self) -> None:
        now_s = self._reactor.seconds()
        idle_s = self._settings.server_channel_max_idle_time_seconds
        for channel in list(self.channels.values()):
            if channel.active:
                channel.active = False
                channel.idle_since_s = now_s
            elif now_s - channel.idle_since_s >= idle_s:
                channel.close(f"idle for {idle_s} s")
        self._scan_later()


class ServerProtocol(RemotingProtocol):
    """The protocol of an accepted connection; it reports the connection's end to the server."""

    def __init__(self, server: RemotingServer, commands: Commands, holder: str) -> None:
        super().__init__(server, commands, server.input_turn, server.incomplete_frames, server.new_connection)
        self._server = server
        self._holder = holder
        self._is_known = False

    def begin(self, own_input: Input) -> None:
        """Keep the input until the first read."""
        self._input = own_input

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """Take the first read; where the later ones go is decided by the first byte."""
        assert self.channel is not None
        assert self.transport is not None
        if not self._is_known:
            self._is_known = True
            header_received = self._server.proxies.receiver(data, self.channel, self._go_on)
            if header_received is not None:
                self.dataReceived = header_received  # type: ignore[method-assign, assignment]
                header_received(data)
                return
        received = self._server.first_byte.receiver(data, self.channel, self._input.received, self.transport)
        self.dataReceived = received  # type: ignore[method-assign, assignment]
        received(data)

    def _go_on(self, rest: bytes) -> None:
        """Begin with the client's bytes, of which a proxy's header may have brought none."""
        del self.dataReceived
        if rest:
            self.dataReceived(rest)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """Notify the channel and the server that the transport is gone."""
        super().connectionLost(reason)
        self._server.disconnected(self._holder)


class _Connections(Factory):
    """A factory that asks the server for the protocol of each connection."""

    noisy = False

    def __init__(self, server: RemotingServer) -> None:
        self._server = server

    def buildProtocol(self, addr: IAddress | None) -> RemotingProtocol | None:  # noqa: N802
        return self._server.new_protocol(addr)


def _port_of(listening: IListeningPort) -> int:
    return cast(IPv4Address, listening.getHost()).port
