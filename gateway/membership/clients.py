"""The connected clients: one entry for each connection that ever sent a heartbeat.

Upstream keeps a ``ClientChannelInfo`` in every group. Here there is one entry for each connection, so that a closed
connection leaves its groups without a search. The groups are in ``producers`` and ``consumers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.remoting.channel import Channel
from gateway.remoting.declared import Need
from gateway.remoting.dispatch import Caller, Request
from wire.codes import RequestCode
from wire.command import RemotingCommand


class ConnectedClient:
    """One client on one connection. A plain class for speed: every heartbeat changes it.

    :param language: the ``LanguageCode`` in the client's commands.
    :param version: the client's version number, as its commands say.
    """

    __slots__ = (
        "caller",
        "channel",
        "client_id",
        "consumer_groups",
        "language",
        "last_heartbeat_ms",
        "producer_groups",
        "version",
    )

    def __init__(self, channel: Channel, client_id: str, language: int, version: int, now_ms: int) -> None:
        self.caller: Caller | None = None
        """The account that signed the latest heartbeat; None without access control."""
        self.channel = channel
        self.client_id = client_id
        self.language = language
        self.version = version
        self.last_heartbeat_ms = now_ms
        self.producer_groups: dict[str, int] = {}
        """The time of the last heartbeat that named a group, by group, in epoch milliseconds."""
        self.consumer_groups: dict[str, int] = {}

    @property
    def address(self) -> str:
        """The client's ``ip:port``, as tools show it."""
        host, port = self.channel.remote[:2]
        return f"{host}:{port}"

    def may(self, needs: Iterable[Need]) -> bool:
        """Return whether the client has all these rights now; True without access control."""
        return self.caller is None or all(map(self.caller.may, needs))

    def may_get(self, code: RequestCode, *needs: Need) -> bool:
        """Return whether the client may get a request of the broker now; a refusal is logged.

        Without rights that it needs, the client must still have an account that is enabled and has the same key.
        """
        return self.caller is None or self.caller.may_get(Request(self.channel, RemotingCommand(code)), needs)


class Clients:
    """All clients, by connection."""

    def __init__(self) -> None:
        self._by_channel: dict[Channel, ConnectedClient] = {}
        self._by_id: dict[str, dict[Channel, ConnectedClient]] = {}

    def __len__(self) -> int:
        return len(self._by_channel)

    def __iter__(self) -> Iterator[ConnectedClient]:
        return iter(list(self._by_channel.values()))

    def get(self, channel: Channel) -> ConnectedClient | None:
        """Return the client on this connection; None if no heartbeat ever came over the connection."""
        return self._by_channel.get(channel)

    def id_of(self, channel: Channel) -> str:
        """Return the client id in the last heartbeat of a connection; "" if none ever came over the connection."""
        client = self._by_channel.get(channel)
        return "" if client is None else client.client_id

    def seen(
        self, channel: Channel, client_id: str, language: int, version: int, now_ms: int
    ) -> tuple[ConnectedClient, bool]:
        """Note a heartbeat; return its client, and whether the client is new."""
        client = self._by_channel.get(channel)
        if client is None:
            client = self._by_channel[channel] = ConnectedClient(channel, client_id, language, version, now_ms)
            self._by_id.setdefault(client_id, {})[channel] = client
            return client, True
        if client.client_id != client_id:
            self._forget_id(client)
            client.client_id = client_id
            self._by_id.setdefault(client_id, {})[channel] = client
        client.language = language
        client.version = version
        client.last_heartbeat_ms = now_ms
        return client, False

    def remove(self, channel: Channel) -> ConnectedClient | None:
        """Forget a connection; the caller removes the client from its groups."""
        client = self._by_channel.pop(channel, None)
        if client is not None:
            self._forget_id(client)
        return client

    def producer_of(self, client_id: str) -> ConnectedClient | None:
        """Return a connected producer by its client id, for a reply to a request-reply call; None for none.

        Of hundreds of thousands of members only those with this id are looked at: anybody may ask for any id.
        """
        for channel, client in self._by_id.get(client_id, {}).items():
            if client.producer_groups and not channel.closed:
                return client
        return None

    def _forget_id(self, client: ConnectedClient) -> None:
        named = self._by_id[client.client_id]
        del named[client.channel]
        if not named:
            del self._by_id[client.client_id]
