"""Lite topics as one part of a broker: who subscribes, which have something for whom, and which are deleted.

A client is told of a lite topic (it is *ready*) when a message arrives there, when it subscribes, and when its group
may have the next messages because the last ones are acknowledged or visible again. All clients of a group that
subscribe to it are told; who pops first has the messages, and the others find none. Pops close it to the group until
then, as ordered pops do. Upstream: ``LiteEventDispatcher`` and ``LiteLifecycleManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.delivery.lite.expiry import is_expired
from gateway.delivery.lite.subscriptions import LiteClient, LiteSubscriptions, excluded
from gateway.delivery.pop.held_pops import HeldPops
from gateway.metadata.lite_attributes import bound_topic, is_exclusive, minutes_to_live, resets_on_takeover
from gateway.telemetry.logs import EventLog
from wire.codes import RequestCode
from wire.headers.lite import NotifyUnsubscribeLiteRequest
from wire.message.light_queues import LIGHT_QUEUE_ID
from wire.message.lite_topics import LITE_PREFIX, lite_names, lite_queue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.clock import Milliseconds
    from gateway.delivery.filters.turns import FilterTurns
    from gateway.delivery.pop.pops import Pops
    from gateway.in_thread import InThread
    from gateway.metadata.groups import Groups
    from gateway.metadata.offsets import ConsumerOffsets
    from gateway.metadata.topics import Topics
    from gateway.settings import Settings
    from gateway.store.light_queues import LightArrival
    from gateway.store.message_store import MessageStore

DELETED_AT_ONCE: Final = 1_000
"""Lite topics that one look deletes at most; the next look goes on."""

log = EventLog("lite")


class LiteTopics:
    """Everything that requests of lite topics share.

    :ivar held: pops that wait, by client id in place of a topic.
    :param in_thread: runs what reads or writes the disk.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: ConsumerOffsets,
        pops: Pops,
        settings: Settings,
        clock_ms: Milliseconds,
        in_thread: InThread,
        turns: FilterTurns,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._pops = pops
        self._settings = settings
        self._clock_ms = clock_ms
        self._in_thread = in_thread
        self.subscriptions = LiteSubscriptions(settings.max_lite_subscription_count)
        self.held = HeldPops(clock_ms, turns, settings.max_pop_polling_size, settings.pop_polling_size)

    def use(self, settings: Settings) -> None:
        """Go on with changed settings."""
        self._settings = settings
        self.subscriptions.resize(settings.max_lite_subscription_count)

    # -- what is ready --------------------------------------------------------------------------------------

    def arrived(self, messages: Iterable[LightArrival]) -> None:
        """New messages can be read in light queues."""
        if not len(self.subscriptions):
            return
        for queue in dict.fromkeys(message.topic for message in messages):
            names = lite_names(queue)
            if names is not None:
                self._offer(queue, self.subscriptions.subscribers(queue, names[0]))

    def opened(self, queue: str, group: str, _queue_id: int = LIGHT_QUEUE_ID) -> None:
        """A group may have the next messages of a queue, which may be a lite topic."""
        names = lite_names(queue)
        if names is not None and self.has_messages(queue, group):
            clients = self.subscriptions.subscribers(queue, names[0])
            self._offer(queue, [client for client in clients if client.group == group])

    def has_messages(self, queue: str, group: str) -> bool:
        """Whether there is something that a group may have now."""
        key = (queue, group, LIGHT_QUEUE_ID)
        if self._store.max_offset(queue, LIGHT_QUEUE_ID) <= max(self._pops.positions.committed(key), 0):
            return False
        return not self._pops.orders.is_closed(key, None, self._clock_ms())

    def offer_all(self, client: LiteClient) -> None:
        """Tell a client of all its lite topics that have something for it."""
        queues = self.queues_of(client.parent) if client.has_all else list(client.queues)
        ready = [queue for queue in queues if self.has_messages(queue, client.group)]
        for queue in ready:
            client.ready[queue] = None
        if ready:
            self.held.wake(client.client_id, client.group)

    def take_ready(self, client: LiteClient, attempt_id: str | None) -> Iterator[str]:
        """The queues that are ready for a client, the longest first; each is ready no more when it is given out.

        A client that asks once more with the same attempt id may not have had the answer: it gets the same again.
        """
        attempt = client.attempt
        if attempt is not None and attempt[0] == attempt_id:
            for queue in reversed(attempt[1]):
                client.ready[queue] = None
                client.ready.move_to_end(queue, last=False)
        while client.ready:
            queue, _ = client.ready.popitem(last=False)
            yield queue

    def pass_on(self, group: str, client_id: str) -> None:
        """A pop of this client was told of messages and cannot have them: others of the group are told."""
        client = self.subscriptions.find(group, client_id)
        for queue in [] if client is None else list(client.ready):
            self.opened(queue, group)

    def _offer(self, queue: str, clients: list[LiteClient]) -> None:
        for client in clients:
            client.ready[queue] = None
        served: set[str] = set()
        for client in clients:
            if client.group not in served and self.held.woke(client.client_id, client.group):
                served.add(client.group)

    # -- who subscribes -------------------------------------------------------------------------------------

    def add(self, client: LiteClient, queue: str, attributes: Mapping[str, str]) -> None:
        """A client subscribes to a lite topic; in an exclusive group all others lose it.

        :param attributes: of the group.
        """
        if not self.subscriptions.add(client, queue) or not is_exclusive(attributes):
            return
        for other in excluded(self.subscriptions.subscribers(queue, client.parent), client):
            if self.subscriptions.remove(other, queue):
                self._notify(other, queue)
                if resets_on_takeover(attributes):
                    self.reset(queue, client.group, self.min_offset(queue))

    def forget_silent(self) -> None:
        """Drop the subscriptions of clients that told nothing for too long."""
        moment_ms = self._clock_ms() - self._settings.lite_subscription_check_timeout_ms
        for client in self.subscriptions.silent_since(moment_ms):
            log.info("lite subscriptions dropped", client=client.client_id, group=client.group, parent=client.parent)
            self.subscriptions.drop(client)

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
        """The first message a lite topic has."""
        return max(self._store.min_offset(queue, LIGHT_QUEUE_ID), 0)

    def reset(self, queue: str, group: str, offset: int) -> None:
        """Let a group go on at this offset of a lite topic, no further than its end."""
        offset = max(self.min_offset(queue), min(offset, self._store.max_offset(queue, LIGHT_QUEUE_ID)))
        self._offsets.commit(group, queue, LIGHT_QUEUE_ID, offset)
        self._pops.reset(group, queue, [(LIGHT_QUEUE_ID, offset)])

    # -- what there is --------------------------------------------------------------------------------------

    def parents(self) -> dict[str, int]:
        """Parent topics and the minutes for which their lite topics stay."""
        return {
            name: minutes_to_live(config.attributes)
            for name, config in self._topics.table().items()
            if self._topics.is_lite_parent(name)
        }

    def groups_of(self, parent: str) -> list[str]:
        """The groups that are bound to a parent topic."""
        return [name for name, config in self._groups.table().items() if bound_topic(config.attributes) == parent]

    def queues_of(self, parent: str) -> list[str]:
        """The light queues of a parent's lite topics."""
        prefix = lite_queue(parent, "")
        return [topic for topic, _ in self._store.queues() if topic.startswith(prefix)]

    # -- deleting -------------------------------------------------------------------------------------------

    def forget_parent(self, parent: str) -> list[str]:
        """A parent topic was deleted: nobody subscribes to its lite topics any more. The queues that have to go."""
        for client in self.subscriptions:
            if client.parent == parent:
                self.subscriptions.drop(client)
        queues = self.queues_of(parent)
        for queue in queues:
            self._forget(queue, parent)
        return queues

    def expire(self, done: Callable[[], None]) -> None:
        """Delete the lite topics that stayed long enough; ``done`` when that is on disk."""
        parents = {parent: minutes for parent, minutes in self.parents().items() if minutes > 0}
        queues = [topic for topic, _ in self._store.queues() if topic.startswith(LITE_PREFIX)] if parents else []
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

        def looked(found: object) -> None:
            if isinstance(found, list):
                self._delete(
                    [(queue, end) for queue, end, at_ms in found if self._is_over(queue, at_ms, parents)], done
                )
            else:
                log.error("lite topics not looked at", error=repr(found))
                done()

        self._in_thread(look, looked)

    def _is_over(self, queue: str, last_stored_ms: int, parents: dict[str, int]) -> bool:
        names = lite_names(queue)
        minutes = parents.get(names[0], -1) if names is not None else -1
        return is_expired(self._clock_ms(), last_stored_ms, minutes, self._settings.min_lite_ttl_ms)

    def _delete(self, queues: list[tuple[str, int]], done: Callable[[], None]) -> None:
        """One after the other, so that other work in threads has its turn."""
        left = iter(queues[:DELETED_AT_ONCE])

        def next_one(failure: BaseException | None = None) -> None:
            if failure is not None:
                log.error("lite topic not deleted", error=repr(failure))
            for queue, end in left:
                if self._store.next_offset(queue, LIGHT_QUEUE_ID) == end:  # else a message came meanwhile
                    names = lite_names(queue)
                    self._forget(queue, names[0] if names is not None else "")
                    log.info("lite topic deleted", queue=queue, messages=end)
                    self._store.delete_topic(queue, self._in_thread, next_one)
                    return
            done()

        next_one()

    def _forget(self, queue: str, parent: str) -> None:
        for group in self.groups_of(parent):
            self._pops.reset(group, queue, [(LIGHT_QUEUE_ID, 0)])  # in the log, too: the queue may be made anew
            self._offsets.remove(group, queue)
        self._pops.forget_topic(queue)
