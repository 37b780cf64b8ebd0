"""Concurrent consumption: many turns at once, in threads or as tasks. Failed messages are sent back to the broker.

Threads take turns from one queue and append results to a list. The loop wakes once for all results that are there, so
a turn needs no future. Upstream: ``ConsumeMessageConcurrentlyService``.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from gateway.client.consume.push.listeners import ListenerCall
from gateway.client.retry_later import LAPSED, ListenerOutcome, RetryLater

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.pop.pop_queue import PopQueue
    from gateway.client.consume.process_queue import ProcessQueue, Turn
    from gateway.client.message import ReceivedMessage

_log = logging.getLogger(__name__)

RETRY_HERE_S: Final = 5.0
"""Seconds until the listener gets messages again that could not be sent back, as upstream."""
TIMED_OUT_LEVEL: Final = 3
"""The delay level of messages whose listener did not return in time, as upstream."""

Q = TypeVar("Q", bound="ProcessQueue | PopQueue")
SendBack: TypeAlias = "Callable[[ReceivedMessage, int], Awaitable[bool]]"
"""Lets a message come again after a delay of a level; returns False if that failed."""


@dataclass(frozen=True, slots=True)
class TurnTerms:
    """The limits and the name with which a consumer gives turns to its listener."""

    name: str
    """The name of the consumer, for logs."""
    workers: int
    timeout: float
    """Seconds after which a listener that has not returned counts as late."""


class ConcurrentTurns(Generic[Q]):
    """Gives turns to the listener, many at once.

    :param send_back: None: nothing is sent back; with BROADCASTING, failed messages are logged and dropped.
    :param settled: called after turns of a queue were finished, when there is room again and an offset to commit.
    """

    def __init__(
        self,
        instance: ClientInstance,
        call: ListenerCall,
        terms: TurnTerms,
        *,
        send_back: SendBack | None,
        settled: Callable[[Q], None],
    ) -> None:
        self._instance = instance
        self._call = call
        self._workers = terms.workers
        self._timeout = terms.timeout
        self._send_back = send_back
        self._settled = settled
        self._name = terms.name
        self._loop = asyncio.get_running_loop()
        self._returning = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: _Tasks[Q] | _Threads[Q] = _Tasks(self) if call.is_async else _Threads(self)

    def submit(self, process_queue: Q, turns: Sequence[Turn]) -> None:
        """Queue turns for the listener; they run in any order."""
        self._tasks.submit([(process_queue, turn) for turn in turns])

    async def watch(self) -> None:
        """Send messages back if their listener does not return in time; runs for ever."""
        pause = min(60.0, self._timeout / 4)
        while True:
            await asyncio.sleep(pause)
            now = self._loop.time()
            for process_queue, turn in self._tasks.started():
                if not turn.settled and turn.started_at is not None and now - turn.started_at > self._timeout:
                    _log.error(
                        "%s: the listener has not returned from %s for %g s; they are sent back",
                        self._name,
                        turn,
                        now - turn.started_at,
                    )
                    await self._fail(process_queue, turn, ListenerOutcome(turn.messages, TIMED_OUT_LEVEL), is_late=True)
                    self._tasks.abandon(turn)

    def stop(self) -> None:
        """Start no more turns."""
        self._tasks.stop()

    async def drain(self, timeout: float) -> bool:
        """Start no more turns, and wait until the running turns are finished; return False if ``timeout`` passes.

        :param timeout: seconds.
        """
        self.stop()
        try:
            async with asyncio.timeout(timeout):
                await self._wait_until_idle()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """End the threads, but do not wait for a thread whose listener never returns."""
        self._tasks.close()

    async def _wait_until_idle(self) -> None:
        while self._tasks.busy or self._returning:
            self._idle.clear()
            await self._idle.wait()

    # --- results, on the loop ---------------------------------------------------------------------------------

    def finished(self, process_queue: Q, turn: Turn, outcome: ListenerOutcome) -> None:
        """Note what a listener did with a turn; called on the loop's thread."""
        if outcome.error is not None:
            _tell(self._name, process_queue, outcome)
        if turn.settled or process_queue.dropped:
            return  # the queue is somebody else's or read anew, or the messages were sent back meanwhile
        if outcome.failed:
            self._returning += 1
            self._instance.spawn(self._return(process_queue, turn, outcome), name=f"sending back of {self._name}")
        else:
            process_queue.settle(turn)

    def noted(self, process_queues: Sequence[Q]) -> None:
        """Note the time of consumption of these queues, and report that results of their turns were noted."""
        loop_time = self._loop.time()
        for process_queue in process_queues:
            process_queue.consumed_at = loop_time
            self._settled(process_queue)
        if not self._idle.is_set():
            self._idle.set()

    async def _return(self, process_queue: Q, turn: Turn, outcome: ListenerOutcome) -> None:
        try:
            await self._fail(process_queue, turn, outcome)
        finally:
            self._returning -= 1
            self._idle.set()

    async def _fail(self, process_queue: Q, turn: Turn, outcome: ListenerOutcome, *, is_late: bool = False) -> None:
        if self._send_back is None:
            if not is_late:
                _log.warning("%s: %d messages failed and are dropped: BROADCASTING", self._name, len(outcome.failed))
            left: list[ReceivedMessage] = []
        else:
            send_back = self._send_back
            sent = await asyncio.gather(*(send_back(message, outcome.delay_level) for message in outcome.failed))
            left = [message for message, is_sent in zip(outcome.failed, sent, strict=True) if not is_sent]
        process_queue.keep(turn, left)
        self._settled(process_queue)
        if left and not process_queue.dropped:
            turn.started_at = None
            self._loop.call_later(RETRY_HERE_S, self._again, process_queue, turn)

    def _again(self, process_queue: Q, turn: Turn) -> None:
        if not process_queue.dropped and not turn.settled:
            self.submit(process_queue, [turn])


def _tell(name: str, process_queue: ProcessQueue | PopQueue, outcome: ListenerOutcome) -> None:
    count = len(outcome.failed)
    if isinstance(outcome.error, RetryLater):
        _log.info(
            "%s: the listener asks for %d messages of %s again: %s", name, count, process_queue.queue, outcome.error
        )
    else:
        _log.warning(
            "%s: the listener failed, %d messages of %s come again",
            name,
            count,
            process_queue.queue,
            exc_info=outcome.error,
        )


class _Threads(Generic[Q]):
    """Daemon threads that call the listener, each started when work waits and there may be more threads.

    A listener that never returns does not keep the process alive.
    """

    def __init__(self, turns: ConcurrentTurns[Q]) -> None:
        self._turns = turns
        self._work: queue.SimpleQueue[tuple[Q, Turn] | None] = queue.SimpleQueue()
        self._results: deque[tuple[Q, Turn, ListenerOutcome | None]] = deque()
        self._is_signalled = False
        self._started: dict[int, tuple[Q, Turn]] = {}
        self._threads = 0
        self._submitted = 0
        self._collected = 0
        self._is_stopped = False
        self._abandoned = 0

    @property
    def busy(self) -> bool:
        return bool(self._started) or bool(self._results)

    def submit(self, work: Sequence[tuple[Q, Turn]]) -> None:
        for item in work:
            self._work.put(item)
        self._submitted += len(work)
        waiting = self._submitted - self._collected
        while self._threads < min(self._turns._workers + self._abandoned, waiting) and not self._is_stopped:
            self._threads += 1
            name = f"{self._turns._name}-{self._threads}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def started(self) -> list[tuple[Q, Turn]]:
        return list(self._started.values())

    def abandon(self, turn: Turn) -> None:
        """Allow one more thread, because the thread of this turn may never come back from the listener."""
        for number, (_, running) in list(self._started.items()):
            if running is turn:
                del self._started[number]
                self._abandoned += 1

    def stop(self) -> None:
        self._is_stopped = True

    def close(self) -> None:
        self._is_stopped = True
        for _ in range(self._threads):
            self._work.put(None)

    def _run(self) -> None:
        number = threading.get_ident()
        call = self._turns._call.call
        loop = self._turns._loop
        take = self._work.get
        results = self._results
        clock = loop.time
        while (work := take()) is not None:
            process_queue, turn = work
            now = clock()
            if self._is_stopped or process_queue.dropped or turn.settled:
                outcome: ListenerOutcome | None = None
            elif now >= turn.lapses_at:
                outcome = LAPSED
            else:
                turn.started_at = now
                self._started[number] = work
                outcome = call(turn.messages)
            if outcome is not None and outcome.error is not None and loop.is_closed():
                _tell(self._turns._name, process_queue, outcome)  # nobody collects results any more
            results.append((process_queue, turn, outcome))
            self._started.pop(number, None)
            if not self._is_signalled:
                self._is_signalled = True
                try:
                    loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    return  # the loop is closed: nobody wants results any more
            del work, process_queue, turn, outcome

    def _collect(self) -> None:
        """Pass the results on; runs on the loop's thread."""
        self._is_signalled = False  # before looking: what comes from now on signals again
        results = self._results
        touched: dict[int, Q] = {}
        while results:
            process_queue, turn, outcome = results.popleft()
            self._collected += 1
            if outcome is None:
                continue
            self._turns.finished(process_queue, turn, outcome)
            touched[id(process_queue)] = process_queue
        self._turns.noted(list(touched.values()))


class _Tasks(Generic[Q]):
    """Tasks of the loop for a coroutine listener."""

    def __init__(self, turns: ConcurrentTurns[Q]) -> None:
        self._turns = turns
        self._work: deque[tuple[Q, Turn]] = deque()
        self._started: dict[asyncio.Task[None], tuple[Q, Turn]] = {}
        self._is_stopped = False

    @property
    def busy(self) -> bool:
        return bool(self._started)

    def submit(self, work: Sequence[tuple[Q, Turn]]) -> None:
        self._work += work
        while self._work and len(self._started) < self._turns._workers and not self._is_stopped:
            item = self._work.popleft()
            task = self._turns._instance.spawn(self._run(item), name=f"listener of {self._turns._name}")
            self._started[task] = item
            task.add_done_callback(self._ended)

    def started(self) -> list[tuple[Q, Turn]]:
        return list(self._started.values())

    def abandon(self, turn: Turn) -> None:
        """Cancel the task of a turn that hangs: a task, unlike a thread, can be cancelled."""
        for task, (_, running) in list(self._started.items()):
            if running is turn:
                task.cancel()

    def stop(self) -> None:
        self._is_stopped = True

    def close(self) -> None:
        self._is_stopped = True
        for task in list(self._started):
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._started.pop(task, None)
        self._turns.noted([])
        if self._work:
            self.submit(())

    async def _run(self, item: tuple[Q, Turn]) -> None:
        turns = self._turns
        task = asyncio.current_task()
        assert task is not None
        while True:
            process_queue, turn = item
            if not (process_queue.dropped or turn.settled):
                self._started[task] = item
                turn.started_at = turns._loop.time()
                outcome = LAPSED
                if turn.started_at < turn.lapses_at:
                    outcome = await turns._call.call_async(turn.messages)
                turns.finished(process_queue, turn, outcome)
                turns.noted([process_queue])
            if not self._work or self._is_stopped:
                return
            item = self._work.popleft()
