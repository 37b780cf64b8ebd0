"""The parts of a running push consumer: its queues, its membership, and its way of consuming.

``PushedQueues`` puts together ``assigned_queues``, ``rebalancing``, and ``concurrent_turns`` or ``orderly_turns``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.worker_threads import WorkerThreads
from gateway.client.consume.broker_calls import BrokerCalls, Introspection, Listening
from gateway.client.consume.pop.pop_queue import PopQueue
from gateway.client.consume.process_queue import ProcessQueue
from gateway.client.consume.pull_loop import PullTerms
from gateway.client.consume.push.concurrent_turns import ConcurrentTurns, TurnTerms
from gateway.client.consume.push.listeners import ListenerCall
from gateway.client.consume.push.orderly_turns import OrderlyTerms, OrderlyTurns
from gateway.client.consume.push.send_back import DEFAULT_MAX_RECONSUME_TIMES, GroupSendBack
from gateway.client.consume.settings.consumer_settings import MessageModel, PushSettings
from gateway.client.consume.sharing.assigned_queues import AssignedQueues, QueueTerms
from gateway.client.consume.sharing.queue_locks import ConsumerLocks
from gateway.client.consume.sharing.rebalancing import QueueOwner, QueueState, Rebalancing
from gateway.client.consume.subscriptions import Subscription
from gateway.client.message import ReceivedMessage
from gateway.client.message_queue import MessageQueue
from gateway.client.retry_later import ListenerOutcome
from wire.codes import RequestCode
from wire.message.flags import PullFlag

if TYPE_CHECKING:
    from gateway.client.consume.push.pop_work import PopWork
    from gateway.client.consume.sharing.assignments import BrokerAssignments
    from gateway.client.send.tracing import ConsumerTracing

_log = logging.getLogger(__name__)

LEAVE_TIMEOUT: Final = 30.0
"""Seconds that an orderly consumer waits for the listener before it gives up a queue."""
_SUSPENDED: Final = "the consumer is suspended"
_UNLIMITED_RECONSUMPTION: Final = 2**31 - 1


class PushedQueues:
    """The parts of one running push consumer, made when the consumer starts."""

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
        self._tracing: ConsumerTracing | None = None
        if settings.enable_trace:
            from gateway.client.send.tracing import ConsumerTracing  # few need it, and all would load it

            self._tracing = ConsumerTracing(instance, settings, consumer.group, timeout=settings.consume_timeout)
            call.trace = self._tracing
        self._turn_messages = settings.consume_message_batch_max_size if self._call.takes_batches else 1
        self._direct = WorkerThreads(1, f"direct-{consumer.group}")
        self._tasks: list[asyncio.Task[None]] = []
        self.locks = ConsumerLocks(instance, consumer.group) if self._orderly and self._is_shared else None
        self.queues = self._make_queues(consumer.group)
        assignments = self._make_assignments()
        self.rebalancing = Rebalancing(
            instance,
            consumer.group,
            settings,
            QueueOwner(consumer.topics, self._begin_queue, self._end_queues, self._begin_popped),
            assignments,
        )
        self.calls = BrokerCalls(
            instance,
            self.queues,
            consumer,
            wake=self.rebalancing.wake,
            listening=Listening(self._consume_now, self._orderly),
            popped=lambda: () if self._popping is None else self._popping.queues.states,
        )
        send_back = GroupSendBack(instance, consumer.group, self._most_attempts)
        self._popping = self._make_popping(send_back) if assignments is not None else None
        self._turns = self._make_turns(send_back)

    def _make_assignments(self) -> BrokerAssignments | None:
        settings = self._settings
        if not self._is_shared or self._orderly or settings.client_rebalance:
            return None
        from gateway.client.consume.sharing.assignments import BrokerAssignments  # few need it, and all would load it

        return BrokerAssignments(self.instance, self.consumer.group, settings.allocation.name)

    def _make_queues(self, group: str) -> AssignedQueues:
        settings = self._settings
        terms = PullTerms(
            code=RequestCode.PULL_MESSAGE,
            flags=PullFlag.SUSPEND,
            batch_size=settings.pull_batch_size,
            hold=settings.broker_suspend_max_time,
            timeout=settings.consumer_timeout_when_suspend,
            pause_after_failure=settings.pull_time_delay_when_exception,
            interval=settings.pull_interval,
        )
        return AssignedQueues(
            self.instance,
            group,
            settings,
            QueueTerms(
                terms, span=None if self._orderly else settings.consume_concurrently_max_span, commits_with_pulls=True
            ),
            blocked=self._blocked,
            take=self._take,
        )

    def _make_turns(self, send_back: GroupSendBack) -> ConcurrentTurns[ProcessQueue] | OrderlyTurns:
        settings = self._settings
        name = f"consumer {self.consumer.group}"
        if self._orderly:
            most = settings.max_reconsume_times
            return OrderlyTurns(
                self.instance,
                self._call,
                OrderlyTerms(
                    name,
                    settings.consume_workers,
                    settings.consume_timeout,
                    most_attempts=None if most == -1 else most,
                    suspend=settings.suspend_current_queue_time,
                ),
                locks=self.locks,
                send_back=send_back,
                settled=self.queues.settled,
            )
        return ConcurrentTurns(
            self.instance,
            self._call,
            TurnTerms(name, settings.consume_workers, settings.consume_timeout),
            send_back=send_back.send_back if self._is_shared else None,
            settled=self.queues.settled,
        )

    def _make_popping(self, bury: GroupSendBack) -> PopWork:
        from gateway.client.consume.push.pop_work import PopWork  # as above

        return PopWork(
            self.instance,
            self.consumer.group,
            self._settings,
            self._call,
            bury=bury,
            blocked=lambda: _SUSPENDED if self.is_suspended else None,
        )

    @property
    def _most_attempts(self) -> int:
        setting = self._settings.max_reconsume_times
        if setting != -1:
            return setting
        return _UNLIMITED_RECONSUMPTION if self._orderly else DEFAULT_MAX_RECONSUME_TIMES

    async def begin(self) -> None:
        """Take queues for the first time, and start the tasks that run until ``end``."""
        await self.rebalancing.rebalance()
        spawn = self.instance.spawn
        self._tasks.append(spawn(self.rebalancing.run(), name="rebalancing"))
        self._tasks.append(spawn(self.queues.keep_persisting(), name="committing"))
        self._tasks.append(spawn(self._turns.watch(), name="watching listeners"))
        if self._popping is not None:
            self._tasks.append(spawn(self._popping.turns.watch(), name="watching listeners of popped messages"))
        if self.locks is not None:
            self._tasks.append(spawn(self.locks.keep(self._pulled), name="renewing locks"))

    async def end(self, timeout: float) -> None:
        """Do the work of ``PushConsumer.close``."""
        self._turns.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop_taking()
        if not all(await asyncio.gather(*(turns.drain(timeout) for turns in (self._turns, self._popping) if turns))):
            _log.warning(
                "group %s: closed while listeners run for more than %g s: their messages are delivered again",
                self.consumer.group,
                timeout,
            )
        await self.rebalancing.drop_all()
        await self._end_queues(list(self.queues.states.values()))  # begun by a rebalance that was cut short
        if self._tracing is not None:
            await self._tracing.flush(timeout)
        await self.abandon()

    async def abandon(self) -> None:
        """Close threads and connections, and do nothing else."""
        self._turns.close()
        if self._popping is not None:
            self._popping.turns.close()
        self._direct.close()
        await self.instance.close()

    def wake(self) -> None:
        """Rebalance soon: members, routes or subscriptions have changed."""
        self.rebalancing.wake()

    def resume(self) -> None:
        """Pull and pop again after ``is_suspended`` was set."""
        self.is_suspended = False
        self.queues.wake_all()
        if self._popping is not None:
            self._popping.queues.wake_all()

    def change_subscription(self, subscription: Subscription) -> None:
        """Use another expression for a topic from now on."""
        self.queues.change_subscription(subscription)
        if self._popping is not None:
            self._popping.queues.change_subscription(subscription)

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

    def _begin_popped(self, queue: MessageQueue) -> PopQueue | None:
        subscription = self.consumer.subscriptions().get(queue.topic)
        if subscription is None or self._popping is None:
            return None
        return self._popping.queues.begin(queue, subscription)

    def _pulled(self) -> list[ProcessQueue]:
        return [state for state in self.rebalancing.assigned.values() if isinstance(state, ProcessQueue)]

    async def _stop_taking(self) -> None:
        """Stop pulling and popping; cached messages stay."""
        for state in self._pulled():
            self.queues.stop_pulling(state)
        if self._popping is not None:
            popped = [state for state in self.rebalancing.assigned.values() if isinstance(state, PopQueue)]
            await self._popping.queues.end(popped)

    async def _end_queues(self, given_up: Collection[QueueState]) -> None:
        states = [state for state in given_up if isinstance(state, ProcessQueue)]
        if self._popping is not None:
            await self._popping.queues.end([state for state in given_up if isinstance(state, PopQueue)])
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
            return _SUSPENDED
        if self.locks is not None and not state.is_locked(asyncio.get_running_loop().time()):
            return "the lock of the queue is not ours"
        return None

    def _take(self, state: ProcessQueue, messages: list[ReceivedMessage], sizes: list[int]) -> None:
        self._turns.submit(state, state.add(messages, sizes, self._turn_messages))

    async def _consume_now(self, message: ReceivedMessage) -> ListenerOutcome:
        if self._call.is_async:
            return await self._call.call_async([message])
        return await asyncio.wrap_future(self._direct.submit(lambda: self._call.call([message])))
