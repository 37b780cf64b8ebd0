"""The address of a broker in its records: the advertised address, otherwise the address that a producer reached."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable

from gateway.remoting.channel import Channel
from gateway.settings import Settings
from wire.errors import WireError
from wire.message.message_id import pack_host

LOOPBACK = "127.0.0.1"


class StoreHosts:
    """Packed addresses, one for each address at which producers reached the broker.

    :param listen_port: returns the broker's main port, once the broker listens.
    """

    def __init__(self, settings: Settings, listen_port: Callable[[], int]) -> None:
        self._settings = settings
        self._listen_port = listen_port
        self._packed: dict[bytes, bytes] = {}

    @property
    def own(self) -> bytes:
        """The packed address for records that no producer sent."""
        return pack_host(_literal(self._settings.advertised.host or LOOPBACK, LOOPBACK), self._settings.listen_port)

    def of(self, channel: Channel) -> bytes:
        """Return the packed address for records that come through a connection."""
        packed = self._packed.get(channel.local_host)
        if packed is None:
            advertised = self._settings.advertised
            local = channel.local[0]
            host = local if advertised.host is None else _literal(advertised.host, local)
            packed = pack_host(host, advertised.port or self._listen_port())
            self._packed[channel.local_host] = packed
        return packed


def _literal(host: str, fallback: str) -> str:
    """Return an advertised host as an address for records; ``fallback`` for a name, because records hold no names."""
    try:
        pack_host(host, 0)
    except WireError:
        return fallback
    return host
