"""The messages that a sender has on their way: counted, limited, waited for."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.client.send.sending import Sending


class InFlight:
    """The messages and batches without an answer. A plain class for speed, since every message is counted.

    :param most_messages: the number of messages from which on there is no room; ``most_bytes``: the same for the bytes
        of their bodies.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most_messages: int, most_bytes: int) -> None:
        self.sendings: set[Sending] = set()
        self.bytes = 0
        self._loop = loop
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._turns: deque[asyncio.Future[None]] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self.sendings)

    @property
    def has_room(self) -> bool:
        """True if one more message may start at once: nobody waits, and the limits are not reached."""
        return len(self.sendings) < self._most_messages and self.bytes < self._most_bytes and not self._turns

    async def room(self) -> None:
        """Wait until there is room for one more message; first come, first served."""
        while not self._is_closed and (len(self.sendings) >= self._most_messages or self.bytes >= self._most_bytes):
            turn: asyncio.Future[None] = self._loop.create_future()
            self._turns.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake_one()  # the turn was given to us, and another one can use it
                raise

    def add(self, sending: Sending) -> None:
        """Count a message or batch as in flight."""
        self.sendings.add(sending)
        self.bytes += len(sending.body)

    def remove(self, sending: Sending) -> None:
        """Count a message or batch as settled.

        Idempotent, since a closed sender settles everything that is still in flight.
        """
        if sending not in self.sendings:
            return
        self.sendings.discard(sending)
        self.bytes -= len(sending.body)
        if self._turns:
            self._wake_one()
        if self._idle is not None and not self.sendings and not self._idle.done():
            self._idle.set_result(None)

    async def drain(self, timeout: float) -> None:
        """Wake everyone who waits for room, and wait at most ``timeout`` seconds until nothing is in flight."""
        self._is_closed = True
        while self._turns:
            self._wake_one()
        if self.sendings:
            self._idle = self._loop.create_future()
            await asyncio.wait([self._idle], timeout=timeout)

    def _wake_one(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
