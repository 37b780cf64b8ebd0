"""Calls to name servers and brokers: each address has one connection, which is made when needed and made again.

Frames, channels and limits are the same as on the server's side. After a failed attempt an address rests for a growing
time, in which calls fail at once. Upstream: ``NettyRemotingClient``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import strerror
from typing import TYPE_CHECKING, Any, cast

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IAddress, IConnector
from twisted.internet.protocol import ClientFactory, connectionDone
from twisted.python.failure import Failure

from gateway.in_thread import InThread, in_this_thread
from gateway.reactor.interface import NetworkReactor
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.channel import Channel
from gateway.remoting.input import Commands, IncompleteFrames, Input
from gateway.remoting.input_turn import InputTurn
from gateway.remoting.pending import CallFailed
from gateway.remoting.protocol import RemotingProtocol
from gateway.remoting.tls.renewal import Renewal
from gateway.settings import Address, RemotingSettings
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.headers.declare import Header

if TYPE_CHECKING:
    from twisted.internet.interfaces import ITransport

    from gateway.remoting.tls.identity import CallerIdentity
    from gateway.remoting.tls.link import Encrypted, Link, Received

CONNECT_TIMEOUT_S = 3.0
"""The limit of an attempt to connect, in seconds; upstream's ``connectTimeoutMillis``."""
FIRST_REST_S = 0.5
LONGEST_REST_S = 10.0
"""The longest rest of an address after a failed attempt, in seconds: rests double from ``FIRST_REST_S`` to this one."""
MAX_ADDRESSES = 1_000
"""The number of addresses to which one client keeps connections."""


class ConnectFailed(CallFailed):
    """A connection to the address could not be made."""


class RemotingClient(Service):
    """The connections to other servers.

    :param commands: answers requests of those servers; a ``Dispatch`` without methods refuses all of them.
    :param in_thread: looks at the files of TLS, and reads them when they are renewed.
    :param sign: signs every request to those servers; None if they know no accounts.
    :raises SettingsError: a file of TLS cannot be used.
    """

    def __init__(
        self,
        reactor: NetworkReactor,
        commands: Commands,
        settings: RemotingSettings,
        flush_group: FlushGroup | None = None,
        in_thread: InThread = in_this_thread,
        sign: Callable[[RemotingCommand], None] | None = None,
    ) -> None:
        self._sign = sign
        self._reactor = reactor
        self._commands = commands
        self._settings = settings
        self._flush_group = FlushGroup(reactor) if flush_group is None else flush_group
        self._input_turn = InputTurn(reactor, self._flush_group)
        self._incomplete_frames = IncompleteFrames(settings.incomplete_frame_bytes_limit)
        self._room = AnswerRoom(reactor, self._flush_group, settings.unsent_bytes_total)
        self._peers: dict[Address, _Peer] = {}
        self._last_channel_id = 0
        self._identities: Renewal[CallerIdentity] | None = None
        if settings.calls_with_tls:
            from gateway.remoting.tls.identity import CallerIdentity

            files = (settings.tls_own_certificate, settings.tls_own_key, settings.tls_trusted_servers)
            self._identities = Renewal(partial(CallerIdentity, settings), files, reactor, in_thread)
            self._identities.identity()

    async def call(
        self,
        address: Address,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """Call the server at ``address``; ``timeout_s`` starts after connecting, which has a limit of its own.

        :raises CallFailed: ``ConnectFailed``, ``CallTimeout``, ``ChannelClosed`` or ``TooManyCalls``.
        """
        channel = await self.channel(address)
        return await channel.call(code, header, body, timeout_s)

    async def channel(self, address: Address) -> Channel:
        """Return the open channel to ``address``; connect if there is none.

        :raises ConnectFailed: the connection cannot be made, or the address rests after a failure.
        """
        peer = self._peers.get(address)
        if peer is None:
            if len(self._peers) >= MAX_ADDRESSES:
                raise ConnectFailed(f"already connected to {MAX_ADDRESSES} addresses")
            peer = self._peers[address] = _Peer(self, address, self._reactor)
        return await peer.open()

    def startService(self) -> None:  # noqa: N802 (Twisted's name)
        """Use renewed files of TLS from now on."""
        super().startService()  # type: ignore[no-untyped-call]
        if self._identities is not None:
            self._identities.start(self)

    def stopService(self) -> Deferred[None]:  # noqa: N802 (Twisted's name)
        """Close all connections; later calls make new ones."""
        if self._identities is not None:
            self._identities.stop(self)
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()
        self._input_turn.finish()
        return maybeDeferred(super().stopService)

    def open_channel(self, protocol: RemotingProtocol) -> Channel:
        """Make the channel of a new connection; called by the connection's protocol."""
        assert protocol.transport is not None
        self._last_channel_id += 1
        channel = Channel(
            protocol.transport,
            self._last_channel_id,
            flush_group=self._flush_group,
            room=self._room,
            reactor=self._reactor,
            settings=self._settings,
        )
        channel.sign = self._sign
        return channel

    def link(self, transport: ITransport, channel: Encrypted, received: Received) -> Link | None:
        """Return the caller's side of a new connection that is to be encrypted; None if connections are plain.

        :param received: takes the plain bytes.
        """
        if self._identities is None:
            return None
        from gateway.remoting.tls.link import Link

        return Link(
            self._identities.identity().connection(),
            transport,
            channel,
            received,
            self._input_turn,
            self._incomplete_frames,
            self._reactor.callLater,
            self._settings.tls_handshake_timeout_ms,
        )

    def new_protocol(self, peer: _Peer) -> RemotingProtocol:
        """Return the protocol for a connection under way."""
        new_connection = partial(Connection, self._settings.max_frame_bytes)
        return _ClientProtocol(peer, self, self._commands, self._input_turn, self._incomplete_frames, new_connection)


class _Peer(ClientFactory):
    """One address, with its open channel, the attempt under way, or the rest after a failure."""

    noisy = False

    def __init__(self, client: RemotingClient, address: Address, reactor: NetworkReactor) -> None:
        self._client = client
        self._address = address
        self._reactor = reactor
        self._channel: Channel | None = None
        self._connector: IConnector | None = None
        self._waiting: list[Deferred[Channel]] = []
        self._rest_s = 0.0
        self._rests_until_s = 0.0
        self._last_fault = ""

    async def open(self) -> Channel:
        """Return the open channel; connect if there is none."""
        if self._channel is not None and not self._channel.closed:
            return self._channel
        if self._connector is None:
            if self._reactor.seconds() < self._rests_until_s:
                raise ConnectFailed(self._last_fault)
            self._connect()
        opened: Deferred[Channel] = Deferred()
        self._waiting.append(opened)
        return await opened

    def close(self) -> None:
        """Close the channel, or end the attempt."""
        if self._channel is not None:
            self._channel.close("the client stops")
        elif self._connector is not None:
            self._connector.disconnect()

    def buildProtocol(self, addr: IAddress | None) -> RemotingProtocol:  # noqa: ARG002, N802
        """Return the protocol, just before the transport is ready."""
        return self._client.new_protocol(self)

    def opened(self, channel: Channel) -> None:
        """Note the made connection, and give its channel to every waiting caller."""
        self._channel = channel
        self._connector = None
        self._rest_s = 0.0
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(channel)

    def clientConnectionFailed(self, connector: IConnector, reason: Failure) -> None:  # noqa: ARG002, N802
        """Let the address rest after a failed attempt, and fail every waiting caller."""
        self.failed(_sentence(reason))

    def lost_in_handshake(self) -> None:
        """Fail the attempt soon: tracebacks of the callers would keep the lost transport until a collection."""
        self._reactor.callLater(0, self.failed, "the TLS handshake failed, does it speak TLS? (tls.enable)")

    def failed(self, reason: str) -> None:
        """Let the address rest after a failed attempt, and fail every waiting caller."""
        self._connector = None
        self._rest_s = min(max(self._rest_s * 2, FIRST_REST_S), LONGEST_REST_S)
        self._rests_until_s = self._reactor.seconds() + self._rest_s
        self._last_fault = f"cannot connect to {self._address}: {reason}"
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.errback(ConnectFailed(self._last_fault))

    def clientConnectionLost(self, connector: IConnector, reason: Failure) -> None:  # noqa: ARG002, N802
        """Break the circle of connector and transport after the connection; otherwise both would stay in memory."""
        cast(Any, connector).transport = None

    def _connect(self) -> None:
        self._connector = self._reactor.connectTCP(self._address.host, self._address.port, self, CONNECT_TIMEOUT_S)


class _ClientProtocol(RemotingProtocol):
    """The protocol of a connection that this client made; it notifies its ``_Peer`` when the connection is open."""

    def __init__(
        self,
        peer: _Peer,
        client: RemotingClient,
        commands: Commands,
        turn: InputTurn,
        incomplete_frames: IncompleteFrames,
        new_connection: Callable[[], Connection],
    ) -> None:
        super().__init__(client, commands, turn, incomplete_frames, new_connection)
        self._peer = peer
        self._client = client
        self._is_open = False

    def begin(self, own_input: Input) -> None:
        """Hand the new channel to the ``_Peer`` now, or after the handshake of TLS."""
        super().begin(own_input)
        assert self.transport is not None
        assert self.channel is not None
        link = self._client.link(self.transport, self.channel, own_input.received)
        if link is None:
            self._opened()
            return
        self.dataReceived = link.received  # type: ignore[method-assign]
        link.begin(self._opened)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """Fail the attempt if the connection was lost before the handshake was done."""
        super().connectionLost(reason)
        if not self._is_open:
            self._peer.lost_in_handshake()

    def _opened(self) -> None:
        assert self.channel is not None
        self._is_open = True
        self._peer.opened(self.channel)


def _sentence(reason: Failure) -> str:
    """Return why an attempt failed, in the system's words if it has some: "Connection refused"."""
    error = reason.value
    if isinstance(error, ConnectError) and isinstance(error.osError, int):
        return strerror(error.osError)
    return reason.getErrorMessage().rstrip(".")
