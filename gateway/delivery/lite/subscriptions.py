"""The subscriptions of clients to lite topics, and the lite topics with messages for each client.

Subscriptions are kept in memory only, as in upstream: clients report all of them again every 30 seconds. A lite topic
is named by its light queue. The ready queues of a client are a part of its subscriptions, so they need no limit of
their own. In a group that has all lite topics, the clients share their ready queues: many clients times many lite
topics would be too much. Upstream: ``LiteSubscriptionRegistryImpl`` and ``LiteEventDispatcher``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import TypeAlias

from gateway.errors import RequestRefused
from gateway.remoting.channel import Channel
from gateway.remoting.turns import ENTRIES_PER_TURN, Work, finish
from gateway.shares import Shares
from wire.codes import ResponseCode

Key = tuple[str, str]
"""A client: group and client id."""
SUBSCRIPTIONS_LIMIT = 100_000
"""The default of maxLiteSubscriptionCount."""
MAX_LITE_CLIENTS = 100_000
"""The number of clients of lite topics, including those that subscribe to none now; a connection gets a share."""


class LiteClient:
    """The subscriptions of one client of a group.

    :ivar queues: light queues, in the order of their subscription.
    :ivar ready: queues that may have messages for the client, in the order in which the messages came. In a group that
        has all lite topics, these are queues of all lite topics of the parent, and all clients of the group share them.
    :ivar attempt: id and queues of the client's last pop, which may be repeated.
    :ivar told_ms: when the client last reported its subscriptions.
    :ivar popped_ms: when the client last popped (−1: never).
    :ivar given_ms: when the client last got messages (0: never).
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
        # Ordered: a plain dictionary looks for its first entry past all that were taken out.
        self.ready: OrderedDict[str, None] = OrderedDict()
        self.attempt: tuple[str, tuple[str, ...]] | None = None


Subscribers: TypeAlias = dict[str, dict[LiteClient, None]]
"""The clients by their group."""


class LiteSubscriptions:
    """All subscriptions of a broker."""

    def __init__(self, limit: int = SUBSCRIPTIONS_LIMIT, max_clients: int = MAX_LITE_CLIENTS) -> None:
        self._shares: Shares[Channel] = Shares(limit, limit)
        self._places: Shares[Channel] = Shares(max_clients)
        self._clients: dict[Key, LiteClient] = {}
        self._by_group: dict[str, dict[LiteClient, None]] = {}
        self._by_queue: dict[str, Subscribers] = {}
        self._by_parent: dict[str, Subscribers] = {}

    @property
    def count(self) -> int:
        """The number of subscriptions: one for each client and lite topic, one for each client with all of a parent."""
        return self._shares.used

    def resize(self, limit: int) -> None:
        """Set another limit of subscriptions.

        One connection may have nearly all of them, since a proxy speaks for many clients.
        """
        self._shares.resize(limit, limit)

    @property
    def limit(self) -> int:
        """The number of subscriptions allowed."""
        return self._shares.total

    def has_room(self, client: LiteClient) -> bool:
        """Return whether a client may subscribe to one more lite topic."""
        return self._shares.has_room(client.channel)

    def __iter__(self) -> Iterator[LiteClient]:
        return iter(list(self._clients.values()))

    def __len__(self) -> int:
        return len(self._clients)

    def find(self, group: str, client_id: str) -> LiteClient | None:
        """Return a client, or None if the client is not known here."""
        return self._clients.get((group, client_id))

    def told(self, group: str, client_id: str, parent: str, channel: Channel, now_ms: int) -> LiteClient:
        """Note that a client reported over this connection; drop its subscriptions below another parent.

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
            self._by_group.setdefault(group, {})[client] = None
        elif client.channel is not channel:
            self._move(client, channel)
        client.told_ms = now_ms
        return client

    def add(self, client: LiteClient, queue: str) -> bool:
        """Subscribe a client to a lite topic; return False if it is subscribed already."""
        if queue in client.queues:
            return False
        client.queues[queue] = None
        self._by_queue.setdefault(queue, {}).setdefault(client.group, {})[client] = None
        self._shares.add(client.channel)
        return True

    def add_all(self, client: LiteClient) -> bool:
        """Give a client all lite topics of its parent; return False if it has them already."""
        if client.has_all:
            return False
        client.has_all = True
        others = self._by_parent.setdefault(client.parent, {}).setdefault(client.group, {})
        if others:
            client.ready = next(iter(others)).ready
        others[client] = None
        self._shares.add(client.channel)
        return True

    def remove(self, client: LiteClient, queue: str) -> bool:
        """Unsubscribe a client from a lite topic; return False if it was not subscribed."""
        if queue not in client.queues:
            return False
        del client.queues[queue]
        if not client.has_all:
            client.ready.pop(queue, None)
        _discard(self._by_queue, queue, client)
        self._shares.give_back(client.channel)
        return True

    def drop(self, client: LiteClient) -> None:
        """Forget a client that is gone."""
        finish(self.dropping(client))

    def dropping(self, client: LiteClient) -> Work[None]:
        """Forget a client at once, and its subscriptions in pieces."""
        if self._clients.get((client.group, client.client_id)) is not client:
            return
        del self._clients[client.group, client.client_id]
        members = self._by_group[client.group]
        del members[client]
        if not members:
            del self._by_group[client.group]
        self._places.give_back(client.channel)
        if client.has_all:
            _discard(self._by_parent, client.parent, client)
            self._shares.give_back(client.channel)
        client.ready = OrderedDict()
        for number, queue in enumerate(list(client.queues), 1):
            self.remove(client, queue)
            if number % ENTRIES_PER_TURN == 0:
                yield

    def subscribers(self, queue: str, parent: str) -> list[LiteClient]:
        """Return the clients that get the messages of a lite topic."""
        by_group = (*self._by_queue.get(queue, {}).values(), *self._by_parent.get(parent, {}).values())
        return [client for clients in by_group for client in clients]

    def groups(self, queue: str, parent: str) -> list[str]:
        """Return the groups that get the messages of a lite topic."""
        return list(dict.fromkeys((*self._by_queue.get(queue, ()), *self._by_parent.get(parent, ()))))

    def subscribers_of(
        self, queue: str, parent: str, group: str
    ) -> tuple[Collection[LiteClient], Collection[LiteClient]]:
        """Return the clients of a group that subscribe to a lite topic, and those that have all of its parent."""
        of_queue, of_parent = self._by_queue.get(queue, {}), self._by_parent.get(parent, {})
        return list(of_queue.get(group, ())), of_parent.get(group, ())

    def of_group(self, group: str) -> list[LiteClient]:
        """Return the clients of a group."""
        return list(self._by_group.get(group, ()))

    def silent_since(self, moment_ms: int) -> list[LiteClient]:
        """Return the clients that reported nothing since a moment."""
        return [client for client in self._clients.values() if client.told_ms < moment_ms]

    def _move(self, client: LiteClient, channel: Channel) -> None:
        """Move a client to another connection, over which it speaks now."""
        held = len(client.queues) + client.has_all
        if held:
            self._shares.give_back(client.channel, held)
            self._shares.add(channel, held)
        self._places.give_back(client.channel)
        self._places.add(channel)
        client.channel = channel


def _discard(table: dict[str, Subscribers], key: str, client: LiteClient) -> None:
    by_group = table[key]
    clients = by_group[client.group]
    del clients[client]
    if not clients:
        del by_group[client.group]
        if not by_group:
            del table[key]
