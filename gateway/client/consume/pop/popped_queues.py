"""The queues that a push consumer pops: their loops, and the acknowledgements of consumed messages.

This module is the counterpart of ``assigned_queues``, for brokers that hand out messages instead of queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.client.consume.pop.pop_queue import PopQueue
from gateway.client.errors import BrokerNotFound, RocketMQError
from wire.errors import WireError

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.pop.pop_handles import PoppedMessage
    from gateway.client.consume.pop.pops import GroupPops
    from gateway.client.consume.subscriptions import Subscription
    from gateway.client.message_queue import MessageQueue

_log = logging.getLogger(__name__)

RECHECK_S = 1.0
"""Seconds until a paused loop checks again whether it may continue, if no call wakes the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopTerms:
    """The batch size and times with which a consumer pops; durations in seconds."""

    batch_size: int
    hidden: float
    hold: float
    pause_after_failure: float


class PopLoop:
    """The pops of one queue, until the queue is given up.

    :param blocked: returns the reason why nothing may be popped now, or None.
    :param take: gets the messages of an answer; never called without messages.
    """

    def __init__(
        self,
        pops: GroupPops,
        state: PopQueue,
        subscription: Subscription,
        terms: PopTerms,
        *,
        blocked: Callable[[PopQueue], str | None],
        take: Callable[[PopQueue, list[PoppedMessage]], None],
    ) -> None:
        self.subscription = subscription
        """The subscription, which may be changed; the next pop uses the new subscription."""
        self._instance = pops.instance
        self._pops = pops
        self._state = state
        self._terms = terms
        self._blocked = blocked
        self._take = take
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop's task."""
        self._task = self._instance.spawn(self._run(), name=f"popping {self._state.queue}")

    async def stop(self) -> None:
        """End the loop at once; messages of an answer that is still on its way come again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """Check again whether popping may continue."""
        self._room.set()

    async def _run(self) -> None:
        state, terms = self._state, self._terms
        loop = asyncio.get_running_loop()
        while not state.is_given_up:
            await self._wait_for_room()
            state.popped_at = loop.time()
            try:
                messages = await self._pops.pop(
                    state.queue, self.subscription, terms.batch_size, hidden=terms.hidden, hold=terms.hold
                )
            except (RocketMQError, WireError) as error:
                await self._recover(error)
                continue
            if messages:
                self._take(state, messages)

    async def _wait_for_room(self) -> None:
        while self._blocked(self._state) is not None:
            self._room.clear()
            try:
                async with asyncio.timeout(RECHECK_S):
                    await self._room.wait()
            except TimeoutError:
                self._state.popped_at = asyncio.get_running_loop().time()

    async def _recover(self, error: RocketMQError | WireError) -> None:
        queue, pause = self._state.queue, self._terms.pause_after_failure
        _log.warning("popping %s failed, again in %g s: %s", queue, pause, error)
        await asyncio.sleep(pause)
        if isinstance(error, BrokerNotFound):
            try:
                await self._instance.route(queue.topic, refresh=True)
            except RocketMQError as route_error:
                self._instance.route_failed(queue.topic, route_error)


class PoppedQueues:
    """The popped queues of one consumer, each with its loop.

    :param threshold: messages of one queue that may wait to be consumed; with more, the queue is not popped.
    :param blocked: returns another reason not to pop now, or None.
    :param take: gets the popped messages.
    """

    def __init__(
        self,
        instance: ClientInstance,
        pops: GroupPops,
        terms: PopTerms,
        *,
        threshold: int,
        blocked: Callable[[], str | None],
        take: Callable[[PopQueue, list[PoppedMessage]], None],
    ) -> None:
        self._instance = instance
        self._pops = pops
        self._terms = terms
        self._threshold = threshold
        self._blocked = blocked
        self._take = take
        self._loops: dict[PopQueue, PopLoop] = {}
        self._acknowledging: set[asyncio.Task[None]] = set()

    @property
    def states(self) -> Collection[PopQueue]:
        """The queues that are popped now."""
        return self._loops.keys()

    def begin(self, queue: MessageQueue, subscription: Subscription) -> PopQueue:
        """Start popping a queue."""
        state = PopQueue(queue, now=asyncio.get_running_loop().time())
        loop = self._loops[state] = PopLoop(
            self._pops, state, subscription, self._terms, blocked=self._reason, take=self._take
        )
        loop.start()
        return state

    async def end(self, states: Collection[PopQueue]) -> None:
        """Stop popping some queues; messages that were popped are still consumed and acknowledged."""
        loops = [self._loops.pop(state) for state in states if state in self._loops]
        await asyncio.gather(*(loop.stop() for loop in loops))

    async def drain(self, timeout: float) -> None:
        """Wait until consumed messages are acknowledged, at most ``timeout`` seconds."""
        if self._acknowledging:
            await asyncio.wait(self._acknowledging, timeout=timeout)

    def settled(self, state: PopQueue) -> None:
        """Acknowledge the messages of finished turns of a queue, and wake its loop, which may wait for room."""
        done, late = state.take_done(asyncio.get_running_loop().time())
        if late:
            _log.warning(
                "%d messages of %s were consumed after %g s (pop_invisible_time): they come again",
                len(late),
                state.queue,
                self._terms.hidden,
            )
        if done:
            task = self._instance.spawn(self._acknowledge(done), name="acknowledging")
            self._acknowledging.add(task)
            task.add_done_callback(self._acknowledging.discard)
        loop = self._loops.get(state)
        if loop is not None:
            loop.wake()

    def wake_all(self) -> None:
        """Let every paused loop check again whether it may pop."""
        for loop in self._loops.values():
            loop.wake()

    def change_subscription(self, subscription: Subscription) -> None:
        """Use another expression for a topic from now on."""
        for state, loop in self._loops.items():
            if state.queue.topic == subscription.topic:
                loop.subscription = subscription

    def _reason(self, state: PopQueue) -> str | None:
        if state.waiting > self._threshold:
            return f"{state.waiting} messages wait to be consumed, the limit is {self._threshold}"
        return self._blocked()

    async def _acknowledge(self, messages: list[PoppedMessage]) -> None:
        try:
            await self._pops.ack(messages)
        except RocketMQError as error:
            _log.warning("%d consumed messages were not acknowledged, they come again: %s", len(messages), error)
