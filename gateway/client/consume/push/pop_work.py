"""The POP side of a push consumer, used when brokers choose who gets a message: pop, consume, acknowledge.

A popped message that could not be consumed stays hidden for a while and then comes again; the delays grow with each
delivery (upstream ``popDelayLevel``). A message that failed too often becomes a dead letter, as a pulled message
does. Upstream's ``ConsumeMessagePopConcurrentlyService`` acknowledges such a message after some hours, and so loses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.client.consume.pop.pop_handles import PoppedMessage
from gateway.client.consume.pop.pop_queue import PopQueue
from gateway.client.consume.pop.popped_queues import PoppedQueues, PopTerms
from gateway.client.consume.pop.pops import GroupPops
from gateway.client.consume.push.concurrent_turns import ConcurrentTurns, TurnTerms
from gateway.client.errors import RocketMQError

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.push.listeners import ListenerCall
    from gateway.client.consume.push.send_back import GroupSendBack
    from gateway.client.consume.settings.consumer_settings import PushSettings
    from gateway.client.message import ReceivedMessage

_log = logging.getLogger(__name__)

_DEAD_LETTER = -1

POP_DELAYS: Final = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""The delays of ``pop_delay`` in seconds, by level from 0."""


def pop_delay(delay_level: int, reconsume_times: int) -> int:
    """Return the seconds until the message comes again.

    :param delay_level: the level of ``RetryLater``; with 0, ``reconsume_times`` is the level.
    """
    level = delay_level or reconsume_times
    return POP_DELAYS[min(level, len(POP_DELAYS) - 1)]


class PopBack:
    """Makes failed messages of one group come again.

    :param bury: turns messages into dead letters.
    """

    def __init__(self, pops: GroupPops, bury: GroupSendBack) -> None:
        self._pops = pops
        self._bury = bury

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Let a message come again. Always return True, because a popped message comes again even after a failure here.

        :param delay_level: −1: the message becomes a dead letter; 0: the delay grows with each delivery; 1 …: a level
            of ``POP_DELAYS``.
        """
        assert isinstance(message, PoppedMessage), "it was popped"
        if message.hidden_until <= asyncio.get_running_loop().time():
            message.given_back = True  # it has come again already
            return True
        if delay_level < 0 or message.reconsume_times >= self._bury.max_reconsume_times:
            if await self._bury.send_back(message, _DEAD_LETTER):
                return True  # and is acknowledged
            delay_level = 0
        message.given_back = True
        try:
            await self._pops.change_invisible_time(message, pop_delay(delay_level, message.reconsume_times))
        except RocketMQError as error:
            _log.warning("%r comes again after pop_invisible_time: %s", message, error)
        return True


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
        self.turns: ConcurrentTurns[PopQueue] = ConcurrentTurns(
            instance,
            call,
            TurnTerms(f"popping consumer {group}", settings.consume_workers, settings.consume_timeout),
            send_back=PopBack(pops, bury).send_back,
            settled=self.queues.settled,
        )

    async def drain(self, timeout: float) -> bool:
        """Wait for the running turns and their acknowledgements; return False if turns still run after ``timeout``.

        :param timeout: seconds, for both.
        """
        end = asyncio.get_running_loop().time() + timeout
        is_done = await self.turns.drain(timeout)
        await self.queues.drain(max(0.0, end - asyncio.get_running_loop().time()))
        return is_done

    def _take(self, state: PopQueue, messages: list[PoppedMessage]) -> None:
        self.turns.submit(state, state.add(messages, self._turn_messages))
