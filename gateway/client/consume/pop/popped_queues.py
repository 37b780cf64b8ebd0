"""The queues a push consumer pops: their loops, and the acknowledgements of what was consumed.

The counterpart of ``assigned_queues`` for brokers that hand out messages instead of queues.
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
    """See the module.

    :param threshold: messages of one queue that may wait to be consumed; with more it is not popped.
    :param blocked: another reason not to pop now.
    :param take: gets what was popped.
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
        """Pop a queue from now on."""
        state = PopQueue(queue, now=asyncio.get_running_loop().time())
        loop = self._loops[state] = PopLoop(
            self._pops, state, subscription, self._terms, blocked=self._reason, take=self._take
        )
        loop.start()
        return state

    async def end(self, states: Collection[PopQueue]) -> None:
        """Pop some queues no more; what was popped is consumed and acknowledged all the same."""
        loops = [self._loops.pop(state) for state in states if state in self._loops]
        await asyncio.gather(*(loop.stop() for loop in loops))

    async def drain(self, timeout: float) -> None:
        """Wait until what is consumed is acknowledged."""
        if self._acknowledging:
            await asyncio.wait(self._acknowledging, timeout=timeout)

    def settled(self, state: PopQueue) -> None:
        """Turns of a queue were finished: acknowledge, and pop on if that was waited for."""
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
        """Let every paused loop look again."""
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
