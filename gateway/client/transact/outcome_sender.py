"""The sender of transactions' outcomes, which tries again while a broker cannot be reached.

END_TRANSACTION is a one-way request, as in the Java client, so no broker confirms it. The request is repeated only if
it certainly was not sent: after a second commit a broker may deliver the message twice (Apache RocketMQ does). Two
kinds of outcomes are left to the broker's check: outcomes on a connection that broke after the write, and outcomes
that could not be sent within ``timeout``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Final

from gateway.client.errors import RocketMQError
from gateway.client.formats.transaction_outcome import Outcome
from gateway.client.transaction_state import TransactionState

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 3.0


class OutcomeSender:
    """Sends outcomes to brokers.

    :param send: writes an outcome to its broker; raises a ``RocketMQError`` if the outcome was not written.
    :param spawn: runs a coroutine in the background.
    :param timeout: seconds for which one outcome is tried.
    :param limit: the most outcomes that may wait for another try.
    :param random: for the jitter of the pauses.
    """

    def __init__(
        self,
        send: Callable[[Outcome], Awaitable[None]],
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        timeout: float,
        limit: int,
        random: Random,
    ) -> None:
        self._send = send
        self._spawn = spawn
        self._timeout = timeout
        self._limit = limit
        self._random = random
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """The number of outcomes that wait for their broker."""
        return self._waiting

    async def tell(self, outcome: Outcome) -> bool:
        """Send an outcome, and return whether the outcome was written at once.

        An outcome that was not written is tried again in the background, or left to the broker's check.
        """
        problem = await self._try(outcome)
        if problem is None:
            return True
        if outcome.state is TransactionState.UNKNOWN or problem.outcome_unknown or not problem.retriable:
            log.warning("the outcome %s of transaction %s is left to the check: %s", *_named(outcome), problem)
        elif self._waiting >= self._limit or self._timeout <= 0:
            log.warning(
                "the outcome %s of transaction %s is left to the check, %d are waiting already (max_waiting_outcomes "
                "is %d, outcome_timeout %g s): %s",
                *_named(outcome),
                self._waiting,
                self._limit,
                self._timeout,
                problem,
            )
        else:
            self._waiting += 1
            self._idle.clear()
            self._spawn(self._keep_trying(outcome, problem))
        return False

    async def drain(self, timeout: float) -> None:
        """Wait until no outcome waits, for ``timeout`` seconds at most."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            log.warning("closed while %d outcomes of transactions wait: they are left to the check", self._waiting)

    async def _try(self, outcome: Outcome) -> RocketMQError | None:
        """Send an outcome once; return the error if the outcome was not sent, otherwise None."""
        try:
            await self._send(outcome)
        except RocketMQError as problem:
            return problem
        return None

    async def _keep_trying(self, outcome: Outcome, problem: RocketMQError) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout
        pause = FIRST_PAUSE_S
        last: RocketMQError | None = problem
        try:
            while last is not None and last.retriable and not last.outcome_unknown and loop.time() < end:
                await asyncio.sleep(min(pause * self._random.uniform(0.5, 1.0), max(0.0, end - loop.time())))
                pause = min(pause * 2, LONGEST_PAUSE_S)
                last = await self._try(outcome)
            if last is not None:
                log.warning("the outcome %s of transaction %s is left to the check: %s", *_named(outcome), last)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()


def _named(outcome: Outcome) -> tuple[str, str]:
    return outcome.state.name, outcome.transaction
