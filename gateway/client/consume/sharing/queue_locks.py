"""The broker's locks of queues that are consumed in order: only the holder of a lock may read its queue.

LOCK_BATCH_MQ (41) requests a lock. The client renews the lock every 20 s and trusts it for 30 s; the broker forgets the
lock after 60 s. UNLOCK_BATCH_MQ (42) gives the lock back. Upstream: ``RebalanceImpl.lockAll``.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

from gateway.client.errors import RocketMQError
from gateway.client.message_queue import MessageQueue
from wire.bodies.message_queue import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from wire.bodies.message_queue import MessageQueue as WireQueue
from wire.codes import RequestCode
from wire.errors import WireError

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.process_queue import ProcessQueue

_log = logging.getLogger(__name__)

RENEW_S: Final = 20.0
"""Seconds between renewals (upstream ``REBALANCE_LOCK_INTERVAL``)."""
_LOCK_TIMEOUT: Final = 1.0


class ConsumerLocks:
    """The locks of one consumer."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Request the locks of queues; return the queues whose lock this client has now. Failures are logged."""
        return {queue for queue, is_granted in (await self._ask_for(queues)).items() if is_granted}

    async def renew(self, process_queue: ProcessQueue) -> bool:
        """Request the lock of one queue and note the time; return False if another member has the lock."""
        is_ours = process_queue.queue in await self.lock((process_queue.queue,))
        process_queue.locked_at = asyncio.get_running_loop().time() if is_ours else None
        return is_ours

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Give the locks of queues back. Failures are only logged, because the broker forgets locks after a while."""
        for name, some in _by_broker(queues).items():
            body = UnlockBatchRequest(self._group, self._instance.client_id, _wire(some)).build()
            try:
                await self._instance.ask(name, RequestCode.UNLOCK_BATCH_MQ, None, body, timeout=_LOCK_TIMEOUT)
            except RocketMQError as error:
                _log.warning("group %s: locks of %s were not given back: %s", self._group, some, error)

    async def keep(self, states: Callable[[], Collection[ProcessQueue]]) -> None:
        """Renew the locks of all assigned queues every ``RENEW_S`` seconds; runs for ever."""
        while True:
            await asyncio.sleep(RENEW_S)
            await self.renew_all(states())

    async def renew_all(self, states: Collection[ProcessQueue]) -> None:
        """Renew locks. A queue that its broker refuses is lost at once.

        The lock of a broker that does not answer stays: it is trusted for 30 s after it was granted.
        """
        answers = await self._ask_for([state.queue for state in states])
        now = asyncio.get_running_loop().time()
        for state in states:
            is_granted = answers.get(state.queue)
            if is_granted:
                state.locked_at = now
            elif state.locked_at is not None and not state.dropped:
                _log.warning("group %s: the lock of %s was not renewed", self._group, state.queue)
                if is_granted is False:
                    state.locked_at = None

    async def _ask_for(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, bool]:
        """Return whether each queue was granted, without the queues of brokers that do not answer."""
        answers = await asyncio.gather(*(self._lock(name, some) for name, some in _by_broker(queues).items()))
        return dict(itertools.chain.from_iterable(answers))

    async def _lock(self, broker_name: str, queues: Collection[MessageQueue]) -> list[tuple[MessageQueue, bool]]:
        """Return whether a broker grants each queue; nothing when it does not answer."""
        body = LockBatchRequest(self._group, self._instance.client_id, _wire(queues)).build()
        try:
            answer = await self._instance.ask(broker_name, RequestCode.LOCK_BATCH_MQ, None, body, timeout=_LOCK_TIMEOUT)
            held = {
                MessageQueue(queue.topic, queue.broker_name, queue.queue_id)
                for queue in LockBatchResponse.parse(answer.body).queues
            }
        except (RocketMQError, WireError) as error:
            _log.warning("group %s: no locks from broker %s: %s", self._group, broker_name, error)
            return []
        return [(queue, queue in held) for queue in queues]


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    by_broker: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        by_broker[queue.broker_name].append(queue)
    return by_broker


def _wire(queues: Iterable[MessageQueue]) -> list[WireQueue]:
    return [WireQueue(*queue) for queue in queues]
