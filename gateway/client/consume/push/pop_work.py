"""The POP side of a push consumer: pops, consumes and acknowledges when brokers hand out messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from gateway.client.consume.pop.pop_loop import PopTerms
from gateway.client.consume.pop.pop_queue import PopQueue
from gateway.client.consume.pop.popped_queues import PoppedQueues
from gateway.client.consume.pop.pops import GroupPops
from gateway.client.consume.push.concurrent_turns import ConcurrentTurns, TurnTerms
from gateway.client.consume.push.pop_back import PopBack

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.pop.popped import PoppedMessage
    from gateway.client.consume.push.listeners import ListenerCall
    from gateway.client.consume.push.send_back import GroupSendBack
    from gateway.client.consume.settings.push_settings import PushSettings
    from gateway.client.consume.subscriptions import Subscription
    from gateway.client.message_queue import MessageQueue


class PopWork:
    """The pops, turns and acknowledgements of one push consumer.

    :param group: with its namespace.
    :param bury: makes dead letters of messages that failed too often.
    :param blocked: returns the reason why nothing may be popped now, or None.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: PushSettings,
        call: ListenerCall,
        *,
        bury: GroupSendBack,
        blocked: Callable[[], str | None],
    ) -> None:
        self._turn_messages = settings.consume_message_batch_max_size if call.takes_batches else 1
        pops = GroupPops(instance, group, settings.consume_from_where)
        terms = PopTerms(
            batch_size=settings.pop_batch_nums,
            hidden=settings.pop_invisible_time,
            hold=settings.broker_suspend_max_time,
            pause_after_failure=settings.pull_time_delay_when_exception,
        )
        self.queues = PoppedQueues(
            instance, pops, terms, threshold=settings.pop_threshold_for_queue, blocked=blocked, take=self._take
        )
        self._turns: ConcurrentTurns[PopQueue] = ConcurrentTurns(
            instance,
            call,
            TurnTerms(f"popping consumer {group}", settings.consume_workers, settings.consume_timeout),
            send_back=PopBack(pops, bury),
            settled=self.queues.settled,
        )

    def begin(self, queue: MessageQueue, subscription: Subscription) -> PopQueue:
        """Start popping a queue."""
        return self.queues.begin(queue, subscription)

    async def end(self, states: Collection[PopQueue]) -> None:
        """Stop popping some queues."""
        await self.queues.end(states)

    async def watch(self) -> None:
        """Let messages come again if their listener does not return in time; runs for ever."""
        await self._turns.watch()

    async def drain(self, timeout: float) -> bool:
        """Wait for the running turns and their acknowledgements; return False if turns still run after ``timeout``.

        :param timeout: seconds, for both.
        """
        end = asyncio.get_running_loop().time() + timeout
        is_done = await self._turns.drain(timeout)
        await self.queues.drain(max(0.0, end - asyncio.get_running_loop().time()))
        return is_done

    def close(self) -> None:
        """End the threads."""
        self._turns.close()

    def _take(self, state: PopQueue, messages: list[PoppedMessage]) -> None:
        self._turns.submit(state, state.add(messages, self._turn_messages))
