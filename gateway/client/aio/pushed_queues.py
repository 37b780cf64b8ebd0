"""The parts of a push consumer that runs: its queues, its membership, and its way of consuming.

Assembled from ``assigned_queues``, ``rebalancing``, and ``concurrent_turns`` or ``orderly_turns``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from gateway.client.aio.assigned_queues import AssignedQueues
from gateway.client.aio.broker_calls import BrokerCalls, Introspection
from gateway.client.aio.concurrent_turns import ConcurrentTurns
from gateway.client.aio.instance import ClientInstance
from gateway.client.aio.orderly_turns import OrderlyTurns
from gateway.client.aio.pull_loop import PullTerms
from gateway.client.aio.queue_locks import QueueLocks
from gateway.client.aio.rebalancing import Rebalancing
from gateway.client.aio.send_back import DEFAULT_MAX_RECONSUME_TIMES, SendBack
from gateway.client.consumer_settings import MessageModel, PushSettings
from gateway.client.listeners import ListenerCall, ListenerOutcome
from gateway.client.message import MessageQueue, ReceivedMessage
from gateway.client.process_queue import ProcessQueue
from gateway.client.worker_threads import WorkerThreads
from wire.codes import RequestCode
from wire.message.flags import PullFlag

_log = logging.getLogger(__name__)

LEAVE_TIMEOUT: Final = 30.0
"""Seconds a queue that is given up waits for the listener, with an orderly consumer."""
_UNLIMITED_RECONSUMPTION: Final = 2**31 - 1


class PushedQueues:
    """See the module."""

    def __init__(
        self,
        instance: ClientInstance,
        settings: PushSettings,
        consumer: Introspection,
        call: ListenerCall,
        *,
        is_orderly: bool,
    ) -> None:
        self.consumer = consumer
        self.instance = instance
        self.is_suspended = False
        self.started_at_ms = instance.clock()
        self._settings = settings
        self._orderly = is_orderly
        self._call = call
        self._is_shared = settings.message_model is MessageModel.CLUSTERING
        self._turn_messages = settings.consume_message_batch_max_size if self._call.takes_batches else 1
        self._direct = WorkerThreads(1, f"direct-{consumer.group}")
        self._tasks: list[asyncio.Task[None]] = []
        self.locks = QueueLocks(instance, consumer.group) if self._orderly and self._is_shared else None
        terms = PullTerms(
            code=RequestCode.PULL_MESSAGE,
            flags=PullFlag.SUSPEND,
            batch_size=settings.pull_batch_size,
            hold=settings.broker_suspend_max_time,
            timeout=settings.consumer_timeout_when_suspend,
            pause_after_failure=settings.pull_time_delay_when_exception,
            interval=settings.pull_interval,
        )
        self.queues = AssignedQueues(
            instance,
            consumer.group,
            settings,
            terms,
            span=None if self._orderly else settings.consume_concurrently_max_span,
            blocked=self._blocked,
            take=self._take,
            commits_with_pulls=True,
        )
        self.rebalancing = Rebalancing(
            instance,
            consumer.group,
            settings,
            topics=consumer.topics,
            take=self._begin_queue,
            give_up=self._end_queues,
        )
        self.calls = BrokerCalls(
            instance,
            self.queues,
            consumer,
            wake=self.rebalancing.wake,
            consume_now=self._consume_now,
            is_orderly=self._orderly,
        )
        most = settings.max_reconsume_times
        send_back = SendBack(instance, consumer.group, self._max_reconsume_times(most))
        self._turns: ConcurrentTurns | OrderlyTurns
        if self._orderly:
            self._turns = OrderlyTurns(
                instance,
                self._call,
                workers=settings.consume_workers,
                locks=self.locks,
                send_back=send_back,
                most_attempts=None if most == -1 else most,
                suspend=settings.suspend_current_queue_time,
                settled=self.queues.settled,
                name=f"consumer {consumer.group}",
            )
        else:
            self._turns = ConcurrentTurns(
                instance,
                self._call,
                workers=settings.consume_workers,
                timeout=settings.consume_timeout,
                send_back=send_back if self._is_shared else None,
                settled=self.queues.settled,
                name=f"consumer {consumer.group}",
            )

    def _max_reconsume_times(self, setting: int) -> int:
        if setting != -1:
            return setting
        return _UNLIMITED_RECONSUMPTION if self._orderly else DEFAULT_MAX_RECONSUME_TIMES

    async def begin(self) -> None:
        """Take queues for the first time, and keep everything going."""
        await self.rebalancing.rebalance()
        spawn = self.instance.spawn
        self._tasks.append(spawn(self.rebalancing.run(), name="rebalancing"))
        self._tasks.append(spawn(self.queues.keep_persisting(), name="committing"))
        if isinstance(self._turns, ConcurrentTurns):
            self._tasks.append(spawn(self._turns.watch(), name="watching listeners"))
        if self.locks is not None:
            keep = self.locks.keep(lambda: list(self.rebalancing.assigned.values()))
            self._tasks.append(spawn(keep, name="renewing locks"))

    async def end(self, timeout: float) -> None:
        """See ``PushConsumer.close``."""
        self._turns.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        states = list(self.rebalancing.assigned.values())
        for state in states:
            self.queues.stop_pulling(state)
        if not await self._turns.drain(timeout):
            _log.warning(
                "group %s: closed while listeners run for more than %g s: their messages are delivered again",
                self.consumer.group,
                timeout,
            )
        await self.rebalancing.drop_all()
        await self._end_queues(list(self.queues.states.values()))  # begun by a rebalance that was cut short
        await self.abandon()

    async def abandon(self) -> None:
        """Close what there is."""
        self._turns.close()
        self._direct.close()
        await self.instance.close()

    def wake(self) -> None:
        """Members, routes or subscriptions have changed."""
        self.rebalancing.wake()

    # --- queues ---------------------------------------------------------------------------------------------

    async def _begin_queue(self, queue: MessageQueue) -> ProcessQueue | None:
        subscription = self.consumer.subscriptions().get(queue.topic)
        if subscription is None:
            return None
        if self.locks is not None and queue not in await self.locks.lock((queue,)):
            _log.info("group %s: %s is still locked by another member", self.consumer.group, queue)
            return None
        state = await self.queues.begin(queue, subscription)
        if state is None:
            return None
        if isinstance(self._turns, OrderlyTurns):
            state.locked_at = asyncio.get_running_loop().time()
            self._turns.open(state)
        return state

    async def _end_queues(self, states: Collection[ProcessQueue]) -> None:
        if isinstance(self._turns, OrderlyTurns):
            # Without waiting, another member would get messages while ours are still being consumed.
            for state in states:
                self.queues.stop_pulling(state)
            await asyncio.gather(*(self._turns.leave(state, LEAVE_TIMEOUT) for state in states))
            for state in states:
                self.queues.table.advance(state.queue, state.committable)
        await self.queues.end(states)
        if self.locks is not None:
            await self.locks.unlock([state.queue for state in states])

    def _blocked(self, state: ProcessQueue) -> str | None:
        if self.is_suspended:
            return "the consumer is suspended"
        if self.locks is not None and not state.is_locked(asyncio.get_running_loop().time()):
            return "the lock of the queue is not ours"
        return None

    def _take(self, state: ProcessQueue, messages: list[ReceivedMessage], sizes: list[int]) -> None:
        self._turns.submit(state, state.add(messages, sizes, self._turn_messages))

    async def _consume_now(self, message: ReceivedMessage) -> ListenerOutcome:
        if self._call.is_async:
            return await self._call.call_async([message])
        return await asyncio.wrap_future(self._direct.submit(lambda: self._call.call([message])))
