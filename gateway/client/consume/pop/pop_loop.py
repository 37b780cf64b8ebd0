"""Pops one queue, or all queues of a broker, again and again; pauses while too many messages wait to be consumed.

Each loop has one task, and one request at a time, as upstream's ``popMessage`` of ``DefaultMQPushConsumerImpl``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.client.errors import BrokerNotFound, RocketMQError
from wire.errors import WireError

if TYPE_CHECKING:
    from gateway.client.consume.pop.pop_queue import PopQueue
    from gateway.client.consume.pop.popped import PoppedMessage
    from gateway.client.consume.pop.pops import GroupPops
    from gateway.client.consume.subscriptions import Subscription

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
