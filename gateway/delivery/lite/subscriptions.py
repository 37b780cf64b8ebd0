"""Who subscribes to which lite topics, and in which of them something waits for whom.

Kept in memory only, as upstream: clients tell all of it again every 30 seconds. A lite topic is named by its light
queue. What waits for a client is a part of what it subscribes to, so that it needs no limit of its own.
Upstream: ``LiteSubscriptionRegistryImpl`` and ``LiteEventDispatcher``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gateway.errors import RequestRefused
from gateway.shares import Shares
from wire.codes import ResponseCode

if TYPE_CHECKING:
    from gateway.remoting.channel import Channel

Key = tuple[str, str]
"""Group and client id."""
SUBSCRIPTIONS_LIMIT = 100_000
"""The default of maxLiteSubscriptionCount."""
MAX_LITE_CLIENTS = 100_000
"""Clients that subscribe to lite topics, also those that subscribe to none at the moment; a connection gets a share."""


class LiteClient:
    """What a client of a group subscribes to.

    :ivar queues: light queues, in the order of their subscription.
    :ivar ready: those of its queues that may have messages for it, in the order in which they came; also of all lite
        topics of the parent, where the group has them all.
    :ivar attempt: id and queues of its last pop, which may ask once more.
    :ivar told_ms: when it told its subscriptions last; ``popped_ms`` when it popped last (−1: never), ``given_ms``
        when it last had messages (0: never).
    """

    __slots__ = (
        "attempt",
        "channel",
        "client_id",
        "given_ms",
        "group",
        "has_all",
        "parent",
        "popped_ms",
        "queues",
        "ready",
        "told_ms",
    )

    def __init__(self, group: str, client_id: str, parent: str, channel: Channel, now_ms: int) -> None:
        self.group = group
        self.client_id = client_id
        self.parent = parent
        self.channel = channel
        self.told_ms = now_ms
        self.popped_ms = -1
        self.given_ms = 0
        self.has_all = False
        self.queues: dict[str, None] = {}
        self.ready: OrderedDict[str, None] = OrderedDict()  # taken from its front, where a dict is slow
        self.attempt: tuple[str, tuple[str, ...]] | None = None


class LiteSubscriptions:
    """All of a broker."""

    def __init__(self, limit: int = SUBSCRIPTIONS_LIMIT, max_clients: int = MAX_LITE_CLIENTS) -> None:
        self._shares: Shares[Channel] = Shares(limit, limit)
        self._places: Shares[Channel] = Shares(max_clients)
        self._clients: dict[Key, LiteClient] = {}
        self._by_queue: dict[str, dict[LiteClient, None]] = {}
        self._by_parent: dict[str, dict[LiteClient, None]] = {}

    @property
    def count(self) -> int:
        """Subscribed lite topics, each counted for every client; clients that have all of a parent count once."""
        return self._shares.used

    def resize(self, limit: int) -> None:
        """Another limit of subscriptions from now on. One connection may have nearly all: proxies speak for many."""
        self._shares.resize(limit, limit)

    def has_room(self, client: LiteClient) -> bool:
        """Whether a client may subscribe to one lite topic more."""
        return self._shares.has_room(client.channel)

    def __iter__(self) -> Iterator[LiteClient]:
        return iter(list(self._clients.values()))

    def __len__(self) -> int:
        return len(self._clients)

    def find(self, group: str, client_id: str) -> LiteClient | None:
        """A client, when it subscribes to anything."""
        return self._clients.get((group, client_id))

    def told(self, group: str, client_id: str, parent: str, channel: Channel, now_ms: int) -> LiteClient:
        """A client tells something, over this connection; what it subscribed to below another parent goes.

        :raises RequestRefused: LITE_SUBSCRIPTION_QUOTA_EXCEEDED: the connection speaks for too many clients.
        """
        client = self._clients.get((group, client_id))
        if client is not None and client.parent != parent:
            self.drop(client)
            client = None
        if client is None:
            if not self._places.take(channel):
                raise RequestRefused(
                    ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
                    self._places.refusal(channel, "clients with lite topics of this connection"),
                )
            client = self._clients[group, client_id] = LiteClient(group, client_id, parent, channel, now_ms)
        elif client.channel is not channel:
            self._move(client, channel)
        client.told_ms = now_ms
        return client

    def add(self, client: LiteClient, queue: str) -> bool:
        """A client subscribes to a lite topic; False when it did already."""
        if queue in client.queues:
            return False
        client.queues[queue] = None
        self._by_queue.setdefault(queue, {})[client] = None
        self._shares.add(client.channel)
        return True

    def add_all(self, client: LiteClient) -> bool:
        """A client gets all lite topics of its parent; False when it did already."""
        if client.has_all:
            return False
        client.has_all = True
        self._by_parent.setdefault(client.parent, {})[client] = None
        self._shares.add(client.channel)
        return True

    def remove(self, client: LiteClient, queue: str) -> bool:
        """A client unsubscribes from a lite topic; False when it did not subscribe to it."""
        if queue not in client.queues:
            return False
        del client.queues[queue]
        client.ready.pop(queue, None)
        _discard(self._by_queue, queue, client)
        self._shares.give_back(client.channel)
        return True

    def drop(self, client: LiteClient) -> None:
        """A client is gone."""
        for queue in list(client.queues):
            self.remove(client, queue)
        if client.has_all:
            _discard(self._by_parent, client.parent, client)
            self._shares.give_back(client.channel)
        client.ready.clear()
        if self._clients.pop((client.group, client.client_id), None) is not None:
            self._places.give_back(client.channel)

    def subscribers(self, queue: str, parent: str) -> list[LiteClient]:
        """Who gets the messages of a lite topic."""
        return [*self._by_queue.get(queue, ()), *self._by_parent.get(parent, ())]

    def of_group(self, group: str) -> list[LiteClient]:
        """The clients of a group."""
        return [client for client in self._clients.values() if client.group == group]

    def silent_since(self, moment_ms: int) -> list[LiteClient]:
        """The clients that told nothing since a moment."""
        return [client for client in self._clients.values() if client.told_ms < moment_ms]

    def _move(self, client: LiteClient, channel: Channel) -> None:
        """The client speaks over another connection."""
        held = len(client.queues) + client.has_all
        if held:
            self._shares.give_back(client.channel, held)
            self._shares.add(channel, held)
        self._places.give_back(client.channel)
        self._places.add(channel)
        client.channel = channel


def excluded(subscribers: Iterable[LiteClient], client: LiteClient) -> list[LiteClient]:
    """Who loses a lite topic when a client of an exclusive group subscribes to it: the others of its group."""
    return [other for other in subscribers if other is not client and other.group == client.group]


def _discard(table: dict[str, dict[LiteClient, None]], key: str, client: LiteClient) -> None:
    clients = table[key]
    del clients[client]
    if not clients:
        del table[key]
