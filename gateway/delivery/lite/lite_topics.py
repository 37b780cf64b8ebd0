"""Lite topics as one part of a broker: subscribers, lite topics with messages for them, and deletion.

A client is notified of a lite topic (the topic is *ready*) in three cases: when a message arrives there, when the
client subscribes, and when its group may have the next messages because the last ones are acknowledged or visible
again. All clients of a group that subscribe to the lite topic are notified. The client that pops first gets the
messages, and the other clients find none. A pop closes the lite topic to the group until its messages are acknowledged
or visible again, as ordered pops do. Upstream: ``LiteEventDispatcher`` and ``LiteLifecycleManager``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Final, TypeAlias

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gateway.delivery.lite.subscriptions import LiteClient, LiteSubscriptions
from gateway.delivery.pop.held_pops import HeldPops
from gateway.delivery.pop.pops import Pops
from gateway.delivery.surroundings import BrokerTables, DeliverySurroundings
from gateway.in_thread import Failed
from gateway.metadata.lite_attributes import bound_topic, is_exclusive, minutes_to_live, resets_on_takeover
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from gateway.settings import Settings
from gateway.store.durability.light_queues import LightArrival
from gateway.store.message_store import MessageStore
from gateway.telemetry.logs import EventLog
from wire.codes import RequestCode
from wire.headers.lite import NotifyUnsubscribeLiteRequest
from wire.message.light_queues import LIGHT_QUEUE_ID, LITE_PREFIX, lite_names, lite_queue

DELETED_AT_ONCE: Final = 1_000
"""The most lite topics that one check deletes; the next check continues."""
QUEUES_PER_TURN: Final = 10_000
"""The number of queue names compared in one turn: a millisecond or two."""
CLIENTS_PER_TURN: Final = 50
"""The number of clients that are offered their lite topics, or dropped with a line in the log, in one turn."""
RESETS_PER_TURN: Final = 50
"""The number of offsets set in one turn: each may be written to the log."""

Offer: TypeAlias = tuple[str, str, str]
"""A light queue, its parent topic, and a group for which the queue has messages."""

log = EventLog("lite")


class LiteTopics:
    """The part of a broker that requests of lite topics share.

    :ivar held: pops that wait, by client id in place of a topic.
    """

    def __init__(
        self,
        store: MessageStore,
        tables: BrokerTables,
        pops: Pops,
        settings: Settings,
        surroundings: DeliverySurroundings,
    ) -> None:
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._pops = pops
        self._settings = settings
        self._clock_ms = clock_ms = surroundings.clock_ms
        self._in_thread = surroundings.in_thread
        self._in_turns = surroundings.in_turns
        self.subscriptions = LiteSubscriptions(settings.max_lite_subscription_count)
        self.held = HeldPops(
            clock_ms,
            surroundings.turns,
            surroundings.held_bytes,
            settings.max_pop_polling_size,
            settings.pop_polling_size,
        )

    # -- what is ready --------------------------------------------------------------------------------------

    def arrived(self, messages: Iterable[LightArrival]) -> None:
        """Offer new messages of light queues to their subscribers."""
        self.shown(message.topic for message in messages)

    def shown(self, topics: Iterable[str]) -> None:
        """Offer the messages of light queues to their subscribers; queues of other topics are left out."""
        if not len(self.subscriptions):
            return
        offers: list[Offer] = []
        for queue in dict.fromkeys(topics):
            names = lite_names(queue)
            if names is not None:
                offers += [(queue, names[0], group) for group in self.subscriptions.groups(queue, names[0])]
        self._offer(offers)

    def opened(self, queue: str, group: str, _queue_id: int = LIGHT_QUEUE_ID) -> None:
        """Offer the next messages of a queue to a group, if the queue is a lite topic."""
        names = lite_names(queue)
        if names is not None and self.has_messages(queue, group):
            self._offer([(queue, names[0], group)])

    def has_messages(self, queue: str, group: str) -> bool:
        """Return whether a queue has messages that a group may have now."""
        key = (queue, group, LIGHT_QUEUE_ID)
        if self._store.max_offset(queue, LIGHT_QUEUE_ID) <= max(self._pops.positions.committed(key), 0):
            return False
        return not self._pops.orders.is_closed(key, None, self._clock_ms())

    def offering(self, client: LiteClient, queues: Iterable[str]) -> Work[None]:
        """Notify a client of these lite topics, if it subscribes to the topic and the topic has messages for it."""
        found = False
        for number, queue in enumerate(queues, 1):
            if (client.has_all or queue in client.queues) and self.has_messages(queue, client.group):
                client.ready[queue] = None
                found = True
            if number % ENTRIES_PER_TURN == 0:
                yield
        if found:
            self.held.wake(client.client_id, client.group)

    def offering_all(self, clients: Iterable[LiteClient]) -> Work[None]:
        """Notify clients of all their lite topics that have messages for them."""
        for number, client in enumerate(clients, 1):
            queues = (yield from self.queues_of(client.parent)) if client.has_all else list(client.queues)
            yield from self.offering(client, queues)
            if number % CLIENTS_PER_TURN == 0:
                yield

    def take_ready(self, client: LiteClient, attempt_id: str | None) -> Iterator[str]:
        """Yield the queues that are ready for a client, the longest ready first; a yielded queue is no longer ready.

        A client that asks again with the same attempt id may not have received the answer: it gets the same queues
        again.
        """
        ready, attempt = client.ready, client.attempt
        if attempt is not None and attempt[0] == attempt_id:
            for queue in reversed(attempt[1]):
                ready[queue] = None
                ready.move_to_end(queue, last=False)
        while ready:
            yield ready.popitem(last=False)[0]

    def pass_on(self, group: str, client_id: str) -> None:
        """Offer a client's ready queues to the group, because the client was notified and cannot have the messages."""
        client = self.subscriptions.find(group, client_id)
        if client is not None:
            self._in_turns(self._passing_on(client))

    def _passing_on(self, client: LiteClient) -> Work[None]:
        for number, queue in enumerate(list(client.ready), 1):
            self.opened(queue, client.group)
            if number % ENTRIES_PER_TURN == 0:
                yield

    def _offer(self, offers: list[Offer]) -> None:
        """Notify groups of lite topics with messages for them, and wake one waiting client for each lite topic.

        A woken client finds all of them: no client learns of the next lite topic only after it looked and waits again.
        """
        told = [self._tell(*offer) for offer in offers]
        if not len(self.held):
            return
        others: dict[tuple[str, str], Iterator[LiteClient]] = {}
        for (_, parent, group), (clients, having_all) in zip(offers, told, strict=True):
            if any(self.held.woke(client.client_id, group) for client in clients):
                continue
            if (parent, group) not in others:
                others[parent, group] = iter(list(having_all))
            any(self.held.woke(client.client_id, group) for client in others[parent, group])

    def _tell(self, queue: str, parent: str, group: str) -> tuple[Collection[LiteClient], Collection[LiteClient]]:
        """Mark a lite topic as ready for the clients of a group; return them as ``subscribers_of`` does."""
        clients, having_all = self.subscriptions.subscribers_of(queue, parent, group)
        for client in clients:
            client.ready[queue] = None
        for client in having_all:  # what is ready for one is ready for all of them
            client.ready[queue] = None
            break
        return clients, having_all

    # -- who subscribes -------------------------------------------------------------------------------------

    def add(self, client: LiteClient, queue: str, attributes: Mapping[str, str]) -> None:
        """Subscribe a client to a lite topic; in an exclusive group all other clients lose the topic.

        :param attributes: the attributes of the group.
        """
        if not self.subscriptions.add(client, queue) or not is_exclusive(attributes):
            return
        clients, _ = self.subscriptions.subscribers_of(queue, client.parent, client.group)
        for other in clients:
            if other is not client and self.subscriptions.remove(other, queue):
                self._notify(other, queue)
                if resets_on_takeover(attributes):
                    self.reset(queue, client.group, self.min_offset(queue))

    def drop(self, client: LiteClient) -> Awaitable[None]:
        """Forget a client at once, and its subscriptions in turns, regardless of who asked."""
        return self._in_turns(self.subscriptions.dropping(client))

    def forget_silent(self) -> Deferred[None]:
        """Drop the subscriptions of clients that reported nothing for too long."""
        return self._in_turns(self._forgetting_silent())

    def _forgetting_silent(self) -> Work[None]:
        moment_ms = self._clock_ms() - self._settings.lite_subscription_check_timeout_ms
        for number, client in enumerate(self.subscriptions.silent_since(moment_ms), 1):
            if client.told_ms < moment_ms:  # it may have told something meanwhile
                log.info(
                    "lite subscriptions dropped", client=client.client_id, group=client.group, parent=client.parent
                )
                yield from self.subscriptions.dropping(client)
            if number % CLIENTS_PER_TURN == 0:
                yield

    def _notify(self, client: LiteClient, queue: str) -> None:
        names = lite_names(queue)
        header = NotifyUnsubscribeLiteRequest(
            lite_topic=names[1] if names is not None else queue,
            consumer_group=client.group,
            client_id=client.client_id,
        )
        client.channel.notify(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, header)

    # -- where groups are -----------------------------------------------------------------------------------

    def min_offset(self, queue: str) -> int:
        """Return the offset of the first message in a lite topic."""
        return max(self._store.min_offset(queue, LIGHT_QUEUE_ID), 0)

    def reset(self, queue: str, group: str, offset: int) -> None:
        """Set a group to this offset of a lite topic, limited to the topic's messages."""
        offset = max(self.min_offset(queue), min(offset, self._store.max_offset(queue, LIGHT_QUEUE_ID)))
        self._offsets.commit(group, queue, LIGHT_QUEUE_ID, offset)
        self._pops.reset(group, queue, [(LIGHT_QUEUE_ID, offset)])

    # -- what there is --------------------------------------------------------------------------------------

    def parents(self) -> Work[dict[str, int]]:
        """Return the parent topics, with the minutes that their lite topics stay."""
        found: dict[str, int] = {}
        for number, (name, config) in enumerate(list(self._topics.table().items()), 1):
            if self._topics.is_lite_parent(name):
                found[name] = minutes_to_live(config.attributes)
            if number % ENTRIES_PER_TURN == 0:
                yield
        return found

    def groups_of(self, parent: str) -> list[str]:
        """Return the groups that are bound to a parent topic."""
        return [name for name, config in self._groups.table().items() if bound_topic(config.attributes) == parent]

    def queues_of(self, parent: str) -> Work[list[str]]:
        """Return the light queues of a parent's lite topics."""
        return (yield from self.queues_with(lite_queue(parent, "")))

    def queues_with(self, prefix: str) -> Work[list[str]]:
        """Return the topics of queues that start with this prefix."""
        found: list[str] = []
        for number, (topic, _) in enumerate(self._store.queues(), 1):
            if topic.startswith(prefix):
                found.append(topic)
            if number % QUEUES_PER_TURN == 0:
                yield
        yield  # a thousand clients that have all lite topics look once each
        return found

    # -- deleting -------------------------------------------------------------------------------------------

    def forget_parent(self, parent: str) -> Awaitable[list[str]]:
        """Drop all subscriptions to lite topics of a deleted parent topic; return the queues to delete."""
        return self._in_turns(self._forgetting_parent(parent))

    def _forgetting_parent(self, parent: str) -> Work[list[str]]:
        for number, client in enumerate(self.subscriptions, 1):
            if client.parent == parent:
                yield from self.subscriptions.dropping(client)
            if number % ENTRIES_PER_TURN == 0:
                yield
        queues = yield from self.queues_of(parent)
        groups = self.groups_of(parent) if queues else []
        for number, queue in enumerate(queues, 1):
            self._forget(queue, groups)
            if number % RESETS_PER_TURN == 0:
                yield
        return queues

    def expire(self, done: Callable[[], None]) -> None:
        """Delete the lite topics that stayed long enough; call ``done`` when the deletion is on disk."""

        def failed(failure: Failure) -> None:
            log.error("lite topics not looked at", error=repr(failure.value))
            done()

        self._in_turns(self._expirable()).addCallbacks(lambda found: self._look_at(found[0], found[1], done), failed)

    def _expirable(self) -> Work[tuple[dict[str, int], list[str]]]:
        """Return the parents whose lite topics expire, and the queues of all lite topics."""
        parents = {parent: minutes for parent, minutes in (yield from self.parents()).items() if minutes > 0}
        return parents, (yield from self.queues_with(LITE_PREFIX)) if parents else []

    def _look_at(self, parents: dict[str, int], queues: list[str], done: Callable[[], None]) -> None:
        if not queues:
            done()
            return
        store = self._store

        def look() -> list[tuple[str, int, int]]:
            found = []
            for queue in queues:
                end = store.max_offset(queue, LIGHT_QUEUE_ID)
                found.append((queue, end, store.stored_at_ms(queue, LIGHT_QUEUE_ID, end - 1) if end else 0))
            return found

        def looked(found: list[tuple[str, int, int]] | Failed) -> None:
            if isinstance(found, Failed):
                log.error("lite topics not looked at", error=repr(found.error))
                done()
            else:
                self._in_turns(self._those_over(found, parents)).addCallback(self._delete, done)

        self._in_thread(look, looked)

    def _those_over(self, found: list[tuple[str, int, int]], parents: dict[str, int]) -> Work[list[tuple[str, int]]]:
        over: list[tuple[str, int]] = []
        for number, (queue, end, at_ms) in enumerate(found, 1):
            if self._is_over(queue, at_ms, parents):
                over.append((queue, end))
            if number % ENTRIES_PER_TURN == 0:
                yield
        return over

    def _is_over(self, queue: str, last_stored_ms: int, parents: dict[str, int]) -> bool:
        names = lite_names(queue)
        minutes = parents.get(names[0], -1) if names is not None else -1
        return is_expired(self._clock_ms(), last_stored_ms, minutes, self._settings.min_lite_ttl_ms)

    def _delete(self, queues: list[tuple[str, int]], done: Callable[[], None]) -> None:
        """Delete queues one after the other, so that other work in threads has its turn."""
        left = iter(queues[:DELETED_AT_ONCE])
        groups_of = cache(self.groups_of)

        def next_one(failure: BaseException | None = None) -> None:
            if failure is not None:
                log.error("lite topic not deleted", error=repr(failure))
            for queue, end in left:
                if self._store.next_offset(queue, LIGHT_QUEUE_ID) == end:  # else a message came meanwhile
                    names = lite_names(queue)
                    self._forget(queue, groups_of(names[0]) if names is not None else [])
                    log.info("lite topic deleted", queue=queue, messages=end)
                    self._store.delete_topic(queue, self._in_thread, next_one)
                    return
            done()

        next_one()

    def _forget(self, queue: str, groups: Iterable[str]) -> None:
        for group in groups:
            self._pops.reset(group, queue, [(LIGHT_QUEUE_ID, 0)])  # in the log, too: the queue may be made again
            self._offsets.remove(group, queue)
        self._pops.forget_topic(queue)


MINUTE_MS: Final = 60_000


def is_expired(now_ms: int, last_stored_ms: int, minutes: int, least_ms: int) -> bool:
    """Return whether a lite topic has stayed long enough.

    :param last_stored_ms: when its last message was stored; negative if the message is gone: then nothing is left.
    :param minutes: ``lite.topic.expiration`` of the parent; with 0 or less the lite topic stays for ever.
    :param least_ms: the milliseconds that a lite topic stays at least (``minLiteTTl``).
    """
    if minutes <= 0:
        return False
    return last_stored_ms < 0 or now_ms - last_stored_ms > max(minutes * MINUTE_MS, least_ms)
