"""Orderly consumption: the turns of a queue run one after the other, while this client holds the broker's lock.

After a failure the queue rests for a moment and repeats the message. A message that failed too often goes to the retry
topic, where the broker makes it a dead letter. Upstream: ``ConsumeMessageOrderlyService``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.client.connect.worker_threads import WorkerThreads
from gateway.client.consume.pulled import PulledMessage
from gateway.client.consume.push.concurrent_turns import TurnTerms
from gateway.client.consume.push.listeners import ListenerCall
from gateway.client.retry_later import ListenerOutcome, RetryLater

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.process_queue import ProcessQueue, Turn
    from gateway.client.consume.push.send_back import GroupSendBack
    from gateway.client.consume.sharing.queue_locks import ConsumerLocks
    from gateway.client.message import ReceivedMessage

_log = logging.getLogger(__name__)

LOCK_RETRY_S: Final = 3.0
"""Seconds until a lost lock is requested again, as upstream."""


@dataclass(frozen=True, slots=True)
class OrderlyTerms(TurnTerms):
    """The settings for the turns of an orderly consumer."""

    most_attempts: int | None
    """The number of redeliveries before a message is given up; None: a message is never given up."""
    suspend: float
    """Seconds that a queue rests after a failure."""


class OrderlyTurns:
    """Consumes many queues at once, and the messages of each queue one after the other.

    If a listener does not return in time, its queue waits and an error is logged: no later message may overtake.

    :param locks: None with BROADCASTING: no other member competes for these queues.
    :param settled: called after a turn was finished.
    """

    def __init__(
        self,
        instance: ClientInstance,
        call: ListenerCall,
        terms: OrderlyTerms,
        *,
        locks: ConsumerLocks | None,
        send_back: GroupSendBack,
        settled: Callable[[ProcessQueue], None],
    ) -> None:
        self._instance = instance
        self._call = call
        self._locks = locks
        self._send_back = send_back
        self._timeout = terms.timeout
        self._most_attempts = terms.most_attempts
        self._suspend = terms.suspend
        self._settled = settled
        self._name = terms.name
        self._slots = asyncio.Semaphore(terms.workers)
        self._threads = WorkerThreads(terms.workers, terms.name)
        self._lanes: dict[ProcessQueue, _Lane] = {}

    def open(self, process_queue: ProcessQueue) -> None:
        """Start consuming a queue."""
        lane = self._lanes[process_queue] = _Lane()
        lane.task = self._instance.spawn(self._run(process_queue, lane), name=f"in order {process_queue.queue}")

    def submit(self, process_queue: ProcessQueue, turns: Sequence[Turn]) -> None:
        """Wake the task of a queue: the queue has new turns."""
        lane = self._lanes.get(process_queue)
        if lane is not None and turns:
            lane.news.set()

    async def watch(self) -> None:
        """Log listeners that do not return in time, once for each call; runs for ever."""
        while True:
            await asyncio.sleep(min(60.0, self._timeout / 4))
            now = asyncio.get_running_loop().time()
            for process_queue, lane in self._lanes.items():
                turn = lane.late_turn(now - self._timeout)
                if turn is not None:
                    _log.error(
                        "%s: the listener has not returned from %s for %g s; %s waits until it does",
                        self._name,
                        turn,
                        self._timeout,
                        process_queue.queue,
                    )

    async def leave(self, process_queue: ProcessQueue, timeout: float) -> bool:
        """Start no more turns of a queue, and wait for the running turn. Return False after ``timeout`` seconds."""
        lane = self._lanes.pop(process_queue, None)
        if lane is None or lane.task is None:
            return True
        lane.is_ending = True
        lane.ended.set()
        lane.news.set()
        if not lane.is_calling:
            lane.task.cancel()
        await asyncio.wait([lane.task], timeout=timeout)
        is_done = lane.task.done()
        lane.task.cancel()
        return is_done

    def stop(self) -> None:
        """Start no more turns."""
        for lane in self._lanes.values():
            lane.is_ending = True

    async def drain(self, timeout: float) -> bool:
        """Leave all queues, as ``leave`` does. Return False after ``timeout`` seconds."""
        return all(await asyncio.gather(*(self.leave(state, timeout) for state in list(self._lanes))))

    def close(self) -> None:
        """End the threads."""
        self._threads.close()

    async def _run(self, process_queue: ProcessQueue, lane: _Lane) -> None:
        while not (process_queue.dropped or lane.is_ending):
            turn = process_queue.first_turn()
            if turn is None:
                lane.news.clear()
                await lane.news.wait()
            elif await self._may_consume(process_queue):
                outcome = await self._consume(process_queue, turn, lane)
                if outcome is not None and outcome.failed:
                    self._tell(process_queue, outcome)
                if outcome is not None and not turn.settled:
                    await self._finish(process_queue, turn, outcome, lane)
                lane.is_calling = False

    async def _may_consume(self, process_queue: ProcessQueue) -> bool:
        if self._locks is None or process_queue.is_locked(asyncio.get_running_loop().time()):
            return True
        if await self._locks.renew(process_queue):
            return True
        await asyncio.sleep(LOCK_RETRY_S)
        return False

    async def _consume(self, process_queue: ProcessQueue, turn: Turn, lane: _Lane) -> ListenerOutcome | None:
        async with self._slots:
            if process_queue.dropped or lane.is_ending:
                return None
            lane.is_calling = True
            lane.turn = turn
            turn.started_at = asyncio.get_running_loop().time()
            messages = turn.messages
            if self._call.is_async:
                return await self._call.call_async(messages)
            return await asyncio.wrap_future(self._threads.submit(lambda: self._call.call(messages)))

    async def _finish(self, process_queue: ProcessQueue, turn: Turn, outcome: ListenerOutcome, lane: _Lane) -> None:
        if not outcome.failed:
            process_queue.settle(turn)
        else:
            left = await self._left(turn, outcome)
            if not turn.settled:
                process_queue.keep(turn, left)
        lane.is_calling = False
        process_queue.consumed_at = asyncio.get_running_loop().time()
        self._settled(process_queue)
        if outcome.failed and not lane.is_ending:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._suspend):
                    await lane.ended.wait()

    async def _left(self, turn: Turn, outcome: ListenerOutcome) -> list[ReceivedMessage]:
        """Return the messages to repeat: from the first failure on, without messages that failed for the last time."""
        failed = {id(message) for message in outcome.failed}
        messages = list(turn.messages)
        first = next(at for at, message in enumerate(messages) if id(message) in failed)
        left: list[ReceivedMessage] = []
        for message in messages[first:]:
            if id(message) in failed:
                if self._is_last(message) and await self._send_back.send_again(message):
                    continue
                if isinstance(message, PulledMessage):
                    message.attempts += 1
            left.append(message)
        return left

    def _is_last(self, message: ReceivedMessage) -> bool:
        return self._most_attempts is not None and message.reconsume_times >= self._most_attempts

    def _tell(self, process_queue: ProcessQueue, outcome: ListenerOutcome) -> None:
        if isinstance(outcome.error, RetryLater):
            _log.info("%s: %s rests for %g s: %s", self._name, process_queue.queue, self._suspend, outcome.error)
        else:
            _log.warning(
                "%s: the listener failed, %s rests for %g s",
                self._name,
                process_queue.queue,
                self._suspend,
                exc_info=outcome.error,
            )


class _Lane:
    """The state of one queue's consumption."""

    __slots__ = ("ended", "is_calling", "is_ending", "news", "task", "told_of", "turn")

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.ended = asyncio.Event()
        self.is_calling = False
        self.is_ending = False
        self.task: asyncio.Task[None] | None = None
        self.turn: Turn | None = None
        """The latest turn of the queue."""
        self.told_of: Turn | None = None

    def late_turn(self, begun_before: float) -> Turn | None:
        """Return the turn that began before ``begun_before`` and still runs; return each turn only once."""
        turn = self.turn
        if turn is None or not self.is_calling or turn is self.told_of:
            return None
        if turn.started_at is None or turn.started_at > begun_before:
            return None
        self.told_of = turn
        return turn
