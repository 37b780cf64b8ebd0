"""The queues that a consumer has now: the start of each queue, its pulls, its progress in memory and in the store.

All consumers that read queues share this code. ``rebalancing`` or the application decides which queues a consumer has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.client.consume.offset_store import BrokerOffsets, LocalOffsets, OffsetTable, offsets_path
from gateway.client.consume.process_queue import CacheLimits, ProcessQueue
from gateway.client.consume.pull_loop import LoopOwner, PullLoop, PullTerms
from gateway.client.consume.queue_offsets import QueueOffsets
from gateway.client.consume.settings.consumer_settings import (
    ConsumeFrom,
    ConsumerSettings,
    MessageModel,
    start_of,
    timestamp_ms_of,
)
from gateway.client.errors import NotCommitted, RocketMQError

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.subscriptions import Subscription
    from gateway.client.message import ReceivedMessage
    from gateway.client.message_queue import MessageQueue

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueTerms:
    """The terms on which a kind of consumer reads its queues."""

    pull: PullTerms
    span: int | None
    """The largest distance between cached offsets of one queue; None: any distance."""
    commits_with_pulls: bool
    """True if each pull carries the progress to the broker."""
    tracks: bool = True
    """True if finished messages count as consumed automatically. False: only offsets written to ``table`` count."""


class AssignedQueues:
    """The queues of one consumer, each with its pull loop.

    :param blocked: returns another reason not to pull a queue now; asked after the limits of the cache.
    :param take: gets the pulled messages; never called without messages.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        terms: QueueTerms,
        *,
        blocked: Callable[[ProcessQueue], str | None],
        take: Callable[[ProcessQueue, list[ReceivedMessage], list[int]], None],
    ) -> None:
        self.group = group
        self.table = OffsetTable()
        self.offsets = QueueOffsets(instance)
        self.states: dict[MessageQueue, ProcessQueue] = {}
        self._instance = instance
        self._settings = settings
        self._terms = terms.pull
        self._span = terms.span
        self._blocked = blocked
        self._take = take
        self._tracks = terms.tracks
        self._is_shared = settings.message_model is MessageModel.CLUSTERING
        self._commits = terms.commits_with_pulls and self._is_shared
        self.store = BrokerOffsets(instance, group) if self._is_shared else self._local_offsets()
        self._loops: dict[MessageQueue, PullLoop] = {}
        self._limits: dict[str, CacheLimits] = {}
        self._timestamp_ms = timestamp_ms_of(settings.consume_timestamp, instance.clock())

    def _local_offsets(self) -> LocalOffsets:
        """Return the store in a file named after address and instance, as in Java, so that a restart finds the file."""
        name = f"{self._instance.client_ip}@{self._settings.instance_name or 'DEFAULT'}"
        return LocalOffsets(offsets_path(self._settings.local_offset_dir, name, self.group))

    async def begin(self, queue: MessageQueue, subscription: Subscription) -> ProcessQueue | None:
        """Read a queue from the group's position. Return None if the position is not available now, which is logged."""
        try:
            offset = await self.position(queue)
        except RocketMQError as error:
            _log.warning("group %s: %s is left for later, its offset is not known: %s", self.group, queue, error)
            return None
        return self.begin_at(queue, subscription, offset)

    def begin_at(self, queue: MessageQueue, subscription: Subscription, offset: int) -> ProcessQueue:
        """Read a queue from an offset."""
        state = ProcessQueue(queue, offset, now=asyncio.get_running_loop().time())
        self.states[queue] = state
        self._limits.clear()
        loop = self._loops[queue] = PullLoop(
            self._instance,
            self.group,
            state,
            subscription,
            self._terms,
            LoopOwner(self._reason, self._committed, self._taken, self._moved),
        )
        loop.start()
        return state

    async def position(self, queue: MessageQueue) -> int:
        """Return the group's stored offset; without a stored offset, the offset at which the group starts."""
        stored = await self.store.fetch(queue)
        if stored is not None:
            self.table.learn(queue, stored)
            return stored
        settings = self._settings
        start = start_of(queue.topic, settings.consume_from_where)
        offset = await self.offsets.start(queue, start, self._timestamp_ms)
        if self._tracks and start is not ConsumeFrom.FIRST_OFFSET:
            self.table.move(queue, offset)  # stored like progress: by the next member's first look the end has moved on
        _log.info("group %s: begins with %s at %d (%s)", self.group, queue, offset, settings.consume_from_where)
        return offset

    async def end(self, states: Collection[ProcessQueue]) -> None:
        """Stop reading some queues, store the offsets that are known to be consumed, and forget the queues."""
        queues = [state.queue for state in states]
        for state in states:
            self.stop_pulling(state)
        await self.persist(queues, confirm=True)
        for state in states:
            state.clear()
            if self.states.get(state.queue) is state:
                del self.states[state.queue]
            self.table.forget(state.queue)
        self._limits.clear()

    def stop_pulling(self, state: ProcessQueue) -> None:
        """Stop the pulls of a queue; cached messages stay."""
        loop = self._loops.pop(state.queue, None)
        if loop is not None:
            loop.stop()

    def settled(self, state: ProcessQueue) -> None:
        """Note the progress of a queue after turns were finished, and wake its loop, which may wait for room."""
        if state.dropped:
            return
        if self._tracks:
            self.table.advance(state.queue, state.committable)
        loop = self._loops.get(state.queue)
        if loop is not None:
            loop.wake()

    def wake_all(self) -> None:
        """Let every paused loop check again whether it may pull."""
        for loop in self._loops.values():
            loop.wake()

    def restart_at(self, state: ProcessQueue, offset: int) -> None:
        """Drop the cached messages of a queue, and read on from another offset."""
        state.clear()
        state.next_offset = offset
        loop = self._loops.get(state.queue)
        if loop is not None:
            loop.restart()

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the group's progress, forwards or backwards, in those of the queues that this consumer has."""
        here = {queue: offset for queue, offset in offsets.items() if queue in self.states}
        for queue, offset in here.items():
            _log.warning("group %s: %s is reset to offset %d", self.group, queue, offset)
            self.table.move(queue, offset)
            self.restart_at(self.states[queue], offset)
        await self.persist(here, confirm=True)

    def change_subscription(self, subscription: Subscription) -> None:
        """Use another expression for a topic from now on."""
        for queue, loop in self._loops.items():
            if queue.topic == subscription.topic:
                loop.subscription = subscription

    async def persist(
        self, queues: Collection[MessageQueue] | None = None, *, confirm: bool = False
    ) -> list[MessageQueue]:
        """Store changed offsets, of all or some queues; return the queues whose offset could not be stored."""
        failed = await self.store.store(self.table.take_changed(queues), confirm=confirm)
        for queue in failed:
            self.table.put_back(queue)
        return failed

    async def commit(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Store changed offsets, of all or some queues, and wait until they are stored.

        :raises NotCommitted: some offsets could not be stored.
        """
        failed = await self.persist(queues, confirm=True)
        if failed:
            raise NotCommitted([f"{queue.topic}/{queue.broker_name}/{queue.queue_id}" for queue in failed])

    async def keep_persisting(self) -> None:
        """Store offsets every ``persist_consumer_offset_interval``; runs for ever."""
        while True:
            await asyncio.sleep(self._settings.persist_consumer_offset_interval)
            await self.persist()

    # --- called by the loops ----------------------------------------------------------------------------------

    def _reason(self, state: ProcessQueue) -> str | None:
        topic = state.queue.topic
        limits = self._limits.get(topic)
        if limits is None:
            count = sum(queue.topic == topic for queue in self.states)
            limits = self._limits[topic] = self._settings.cache_limits(count, span=self._span)
        return state.excess(limits) or self._blocked(state)

    def _committed(self, state: ProcessQueue) -> int | None:
        return self.table.get(state.queue) if self._commits else None

    def _taken(self, state: ProcessQueue, messages: list[ReceivedMessage], sizes: list[int]) -> None:
        if messages:
            self._take(state, messages, sizes)
        elif self._tracks and not state.cached_messages:
            self.table.advance(state.queue, state.next_offset)  # nothing of what was passed over is wanted

    def _moved(self, state: ProcessQueue, offset: int) -> None:
        """Continue at another offset: the broker no longer has the old offset, or an operator moved the group."""
        skipped = offset - state.next_offset
        why = f"{skipped} messages are gone" if skipped > 0 else "the group was reset, or the topic was made again"
        _log.warning(
            "group %s: %s goes on at %d instead of %d: %s", self.group, state.queue, offset, state.next_offset, why
        )
        state.clear()
        state.next_offset = offset
        self.table.move(state.queue, offset)
        self._instance.spawn(self.persist([state.queue]), name="offset after a move")
