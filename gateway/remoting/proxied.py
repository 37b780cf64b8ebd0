"""Connections that a proxy passes on: a header in front of their bytes names the client (PROXY protocol).

Only listed addresses are believed (``gateway.proxyProtocolAddresses``), and each of their connections must begin with a
header: otherwise a client behind a proxy that adds none could write one itself. A header of anybody else ends its
connection. Upstream believes everybody: ``NettyRemotingServer.HandshakeHandler``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.errors import forget_frames
from gateway.reactor.interface import TimeSource
from gateway.remoting.channel import Channel
from gateway.remoting.input import IncompleteFrames
from gateway.settings import Address, RemotingSettings
from gateway.settings.addresses import parse_networks
from gateway.telemetry.logs import EventLog
from wire.errors import RemoteError
from wire.proxy_header import may_begin_header, parse_proxy_header

log = EventLog("remoting")

HEADER_SECONDS: Final = 5
"""Seconds from the first byte of a header to its last one; a proxy sends it in one piece."""
SETTING = "gateway.proxyProtocolAddresses"

Received = Callable[[bytes], None]


class Proxies:
    """The proxies of one server."""

    def __init__(self, settings: RemotingSettings, reactor: TimeSource, incomplete_frames: IncompleteFrames) -> None:
        self._networks = parse_networks(settings.proxy_addresses)
        self._reactor = reactor
        self._incomplete_frames = incomplete_frames

    def receiver(self, data: bytes, channel: Channel, go_on: Received) -> Received | None:
        """Return the function that takes this first read and the next ones until it calls ``go_on``; None: not needed.

        :param go_on: takes what follows the header, which may be nothing.
        """
        has_header = may_begin_header(data)
        if not self._networks and not has_header:
            return None
        is_listed = self.lists(channel.remote[0])
        if is_listed == has_header:
            if not is_listed:
                return None
            return _Header(channel, go_on, self._reactor, self._incomplete_frames).received
        if not channel.closed:
            fault = f"it is in {SETTING} and sent no header" if is_listed else f"it is not in {SETTING}"
            log.warning("PROXY header refused", remote=channel.remote_text, reason=fault)
            channel.close("PROXY header refused", is_logged=True)
        return _drop

    def lists(self, host: str) -> bool:
        """Return whether a host is a proxy, whose connections may be of many clients."""
        if not self._networks:
            return False
        from ipaddress import ip_address

        address = ip_address(host)
        return any(address in network for network in self._networks)


class _Header:
    """The begin of one connection, until its header is whole."""

    def __init__(
        self, channel: Channel, go_on: Received, reactor: TimeSource, incomplete_frames: IncompleteFrames
    ) -> None:
        self._channel = channel
        self._go_on = go_on
        self._incomplete_frames = incomplete_frames
        self._data = b""
        self._timer = reactor.callLater(HEADER_SECONDS, self.drop, f"no whole PROXY header within {HEADER_SECONDS} s")
        channel.on_close(self._end)

    def received(self, data: bytes) -> None:
        """Take bytes; after the last one of the header the channel has the client's address."""
        channel = self._channel
        if channel.closed:
            return
        self._data += data
        try:
            header = parse_proxy_header(self._data)
        except RemoteError as error:
            forget_frames(error)
            log.warning("PROXY header refused", remote=channel.remote_text, reason=str(error))
            channel.close("PROXY header refused", is_logged=True)
            return
        if header is None:
            self._incomplete_frames.holds(self, len(self._data))
            return
        rest, go_on = self._data[header.size :], self._go_on
        self._end(channel)
        if header.source is not None:
            log.debug("connection passed on", remote=Address(*header.source), proxy=channel.remote_text)
            channel.comes_from(header.source)
        go_on(rest)

    def drop(self, reason: str) -> None:
        """Close at once."""
        self._channel.drop(reason)

    def _end(self, _: Channel) -> None:
        if self._timer.active():
            self._timer.cancel()
        self._data = b""
        self._go_on = _drop  # the protocol, which refers to this object
        self._incomplete_frames.holds(self, 0)


def _drop(data: bytes) -> None:
    """Drop bytes of a connection that is closing."""
