"""Gives back popped messages that could not be consumed: they stay hidden for a while and then come again.

Upstream: ``ConsumeMessagePopConcurrentlyService``. Upstream acknowledges a message that failed too often after hours,
which loses the message. Here the message becomes a dead letter, as a pulled message does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from gateway.client.consume.pop.pop_delays import pop_delay
from gateway.client.consume.pop.popped import PoppedMessage
from gateway.client.errors import RocketMQError

if TYPE_CHECKING:
    from gateway.client.consume.pop.pops import GroupPops
    from gateway.client.consume.push.send_back import GroupSendBack
    from gateway.client.message import ReceivedMessage

_log = logging.getLogger(__name__)

_DEAD_LETTER = -1


class PopBack:
    """Gives back the messages of one group.

    :param bury: makes dead letters.
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
