"""Calls of a checker, a few at a time: the checker's answer, within a time limit, whatever the checker raises.

A plain function runs in a daemon thread, an ``async def`` on the loop. An error is logged and counts as UNKNOWN.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

from gateway.client.connect.worker_threads import WorkerThreads
from gateway.client.errors import RocketMQError
from gateway.client.transaction_state import TransactionState, Verdict, state_of

log = logging.getLogger(__name__)


class CheckTooSlow(RocketMQError):
    """A checker did not answer within ``check_timeout``."""

    retriable = True

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout)
        self.timeout = timeout

    def __str__(self) -> str:
        return (
            f"the check took longer than check_timeout ({self.timeout:g} s): give its database calls timeouts of their "
            f"own, or raise check_timeout and check_thread_pool_max_size"
        )


class CheckCalls:
    """Runs at most ``limit`` calls at once; further calls wait for their turn.

    :param timeout: seconds that one call may take. A thread cannot be stopped: it keeps its place until the call ends.
    """

    def __init__(self, limit: int, timeout: float, name: str) -> None:
        self._turns = asyncio.Semaphore(limit)
        self._timeout = timeout
        self._threads = WorkerThreads(limit, name)

    async def run(self, call: Callable[[], Verdict], source: str) -> tuple[TransactionState, BaseException | None]:
        """Return the state that a call returns, and the exception that it raised or None.

        :param call: a plain function, or one declared ``async def``.
        :param source: the name of the called method, for logs: ``"Orders.check"``.
        """
        await self._turns.acquire()
        is_async = inspect.iscoroutinefunction(call)
        work: asyncio.Future[Any] = (
            asyncio.ensure_future(_awaited(cast("Callable[[], Awaitable[TransactionState]]", call)))
            if is_async
            else asyncio.wrap_future(self._threads.submit(call))
        )
        work.add_done_callback(self._ended)
        try:
            await asyncio.wait((work,), timeout=self._timeout)
            if not work.done():
                raise CheckTooSlow(self._timeout)
            return state_of(work.result(), source), None
        except CheckTooSlow as slow:
            log.error("%s: %s", source, slow)
            return TransactionState.UNKNOWN, slow
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            log.exception("%s raised; the transaction stays unknown", source)
            return TransactionState.UNKNOWN, error
        finally:
            if is_async:
                work.cancel()  # does nothing when it is done

    def close(self) -> None:
        """Take no more calls; each thread ends after its present call."""
        self._threads.close()

    def _ended(self, work: asyncio.Future[Any]) -> None:
        self._turns.release()
        if not work.cancelled():
            work.exception()  # looked at when it comes too late, or asyncio would warn


async def _awaited(call: Callable[[], Awaitable[TransactionState]]) -> TransactionState:
    try:
        return await call()
    except SystemExit as error:  # asyncio would end the loop
        raise RuntimeError(f"sys.exit({error.code!r}) was called") from error


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
