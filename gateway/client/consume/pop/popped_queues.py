"""The queues that a push consumer pops: their loops, and the acknowledgements of consumed messages.

This module is the counterpart of ``assigned_queues``, for brokers that hand out messages instead of queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from gateway.client.consume.pop.pop_loop import PopLoop, PopTerms
from gateway.client.consume.pop.pop_queue import PopQueue
from gateway.client.errors import RocketMQError

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.pop.popped import PoppedMessage
    from gateway.client.consume.pop.pops import GroupPops
    from gateway.client.consume.subscriptions import Subscription
    from gateway.client.message_queue import MessageQueue

_log = logging.getLogger(__name__)


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
