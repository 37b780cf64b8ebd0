"""The parts of a running lite pull consumer: its queues, and their messages: ready, returned, consumed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from gateway.client.connect.instance import ClientInstance
from gateway.client.consume.broker_calls import BrokerCalls, Introspection
from gateway.client.consume.process_queue import ProcessQueue, Turn
from gateway.client.consume.pull_loop import PullTerms
from gateway.client.consume.settings.consumer_settings import LitePullSettings
from gateway.client.consume.sharing.assigned_queues import AssignedQueues, QueueTerms
from gateway.client.consume.sharing.rebalancing import QueueOwner, QueueState, Rebalancing
from gateway.client.consume.subscriptions import Subscription, tags_of
from gateway.client.errors import ConfigurationError
from gateway.client.message import ReceivedMessage
from gateway.client.message_queue import MessageQueue
from gateway.client.retry_later import CONSUMED
from wire.codes import RequestCode
from wire.message.flags import PullFlag

if TYPE_CHECKING:
    from gateway.client.send.tracing import ConsumerTracing

_log = logging.getLogger(__name__)


class ReadQueues:
    """The parts of one running lite pull consumer, made when the consumer starts."""

    def __init__(self, instance: ClientInstance, settings: LitePullSettings, consumer: Introspection) -> None:
        self.consumer = consumer
        self.instance = instance
        self.started_at_ms = instance.clock()
        self.rebalancing: Rebalancing | None = None
        self._settings = settings
        self._ready: deque[tuple[ProcessQueue, Turn]] = deque()
        self._given: tuple[ProcessQueue, Turn] | None = None
        self._news = asyncio.Event()
        self._is_ended = False
        self._committed_at = asyncio.get_running_loop().time()
        self._tasks: list[asyncio.Task[None]] = []
        self._tracing: ConsumerTracing | None = None
        if settings.enable_trace:
            from gateway.client.send.tracing import ConsumerTracing  # few need it, and all would load it

            self._tracing = ConsumerTracing(instance, settings, consumer.group)
        terms = PullTerms(
            code=RequestCode.LITE_PULL_MESSAGE,
            flags=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL,
            batch_size=settings.pull_batch_size,
            hold=settings.broker_suspend_max_time,
            timeout=settings.consumer_timeout_when_suspend,
            pause_after_failure=settings.pull_time_delay_when_exception,
        )
        self.queues = AssignedQueues(
            instance,
            consumer.group,
            settings,
            QueueTerms(terms, span=settings.consume_max_span, commits_with_pulls=False, tracks=settings.auto_commit),
            blocked=self._blocked,
            take=self._take,
        )
        self.calls = BrokerCalls(instance, self.queues, consumer, wake=self.wake)

    async def begin_sharing(self) -> None:
        """Share queues with the group from now on."""
        self.rebalancing = Rebalancing(
            self.instance,
            self.consumer.group,
            self._settings,
            QueueOwner(lambda: self.consumer.subscriptions().keys(), self._begin_queue, self._end_queues),
        )
        await self.rebalancing.rebalance()
        self._tasks.append(self.instance.spawn(self.rebalancing.run(), name="rebalancing"))

    async def end(self, timeout: float, *, counts_last: bool) -> None:
        """Do the work of ``LitePullConsumer.close``."""
        self._is_ended = True
        self._news.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if counts_last:
            self._finish_given()
        try:
            async with asyncio.timeout(timeout):
                await self.queues.end(list(self.queues.states.values()))
        except TimeoutError:
            _log.warning("group %s: closed before all offsets were stored", self.consumer.group)
        if self._tracing is not None:
            await self._tracing.flush(timeout)
        await self.instance.close()

    def wake(self) -> None:
        """Rebalance soon: members, routes or subscriptions have changed."""
        if self.rebalancing is not None:
            self.rebalancing.wake()

    def change_subscription(self, subscription: Subscription) -> None:
        """Use another expression for a topic from now on."""
        self.queues.change_subscription(subscription)

    # --- reading --------------------------------------------------------------------------------------------

    async def poll(self, timeout: float) -> list[ReceivedMessage]:
        """Do the work of ``LitePullConsumer.poll``."""
        loop = asyncio.get_running_loop()
        self._finish_given()
        if self._settings.auto_commit and loop.time() - self._committed_at >= self._settings.auto_commit_interval:
            self._committed_at = loop.time()
            self.instance.spawn(self.queues.persist(), name="automatic commit")
        end = loop.time() + timeout
        while (given := self._next()) is None and not self._is_ended:
            self._news.clear()
            try:
                async with asyncio.timeout_at(end):
                    await self._news.wait()
            except TimeoutError:
                return []
        if given is None:
            return []
        self._given = given
        messages = list(given[1].messages)
        if self._tracing is not None:  # as upstream: what is given counts as consumed
            self._tracing.end(self._tracing.begin(messages), CONSUMED)
        return messages

    def _next(self) -> tuple[ProcessQueue, Turn] | None:
        """Return the first batch of a queue that is not paused; drop batches of queues given up or read again."""
        ready = self._ready
        passed_over: list[tuple[ProcessQueue, Turn]] = []
        found = None
        while ready and found is None:
            state, turn = entry = ready.popleft()
            if state.dropped or turn.settled:
                continue
            if state.paused:
                passed_over.append(entry)
            else:
                found = entry
        ready.extendleft(reversed(passed_over))
        return found

    def _finish_given(self) -> None:
        if self._given is not None:
            (state, turn), self._given = self._given, None
            state.settle(turn)
            self.queues.settled(state)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None) -> None:
        """Do the work of ``LitePullConsumer.commit``."""
        table = self.queues.table
        if offsets is None:
            self._finish_given()
            for state in self.queues.states.values():
                table.move(state.queue, state.committable)
        else:
            for queue, offset in offsets.items():
                table.move(queue, offset)
        self._committed_at = asyncio.get_running_loop().time()
        await self.queues.commit(offsets)

    # --- which queues, and from where -------------------------------------------------------------------------

    def state(self, queue: MessageQueue) -> ProcessQueue:
        """Return the state of an assigned queue.

        :raises ConfigurationError: the queue is not assigned.
        """
        state = self.queues.states.get(queue)
        if state is None:
            raise ConfigurationError("queue", queue, "one of the assigned queues (assignment)")
        return state

    async def assign(self, queues: set[MessageQueue]) -> None:
        """Do the work of ``LitePullConsumer.assign``."""
        for topic in {queue.topic for queue in queues}:
            await self.instance.route(topic)
        new = sorted(queues.difference(self.queues.states))
        offsets = [await self.queues.position(queue) for queue in new]
        self._finish_given()
        await self._end_queues([state for queue, state in self.queues.states.items() if queue not in queues])
        for queue, offset in zip(new, offsets, strict=True):
            self.queues.begin_at(queue, tags_of(queue.topic, version_ms=self.started_at_ms), offset)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Do the work of ``LitePullConsumer.seek``."""
        self.state(queue)
        first, end = await asyncio.gather(self.queues.offsets.first(queue), self.queues.offsets.end(queue))
        if not max(first, 0) <= offset <= end:
            raise ConfigurationError(
                "offset", offset, f"from {max(first, 0)} to {end}, where the queue begins and ends"
            )
        self.move(self.state(queue), offset)

    def move(self, state: ProcessQueue, offset: int) -> None:
        """Read on from another offset."""
        if self._settings.auto_commit:
            self.queues.table.move(state.queue, offset)
        self.queues.restart_at(state, offset)

    def resume(self, state: ProcessQueue) -> None:
        """Read a paused queue again."""
        state.paused = False
        self.queues.wake_all()
        self._news.set()

    async def _begin_queue(self, queue: MessageQueue) -> ProcessQueue | None:
        subscription = self.consumer.subscriptions().get(queue.topic)
        return await self.queues.begin(queue, subscription) if subscription is not None else None

    async def _end_queues(self, states: Collection[QueueState]) -> None:
        for state in states:
            state.drop()
        await self.queues.end([state for state in states if isinstance(state, ProcessQueue)])

    def _blocked(self, state: ProcessQueue) -> str | None:
        if state.paused:
            return "the queue is paused"
        cached = sum(each.cached_messages for each in self.queues.states.values())
        if cached > self._settings.pull_threshold_for_all:
            return f"{cached} messages are cached, the limit is {self._settings.pull_threshold_for_all}"
        return None

    def _take(self, state: ProcessQueue, messages: list[ReceivedMessage], sizes: list[int]) -> None:
        self._ready += [(state, turn) for turn in state.add(messages, sizes, self._settings.pull_batch_size)]
        if not self._news.is_set():
            self._news.set()
