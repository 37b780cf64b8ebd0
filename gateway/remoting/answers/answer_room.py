"""Room for answers: how many bytes the peers of one server have not taken yet, and which requests wait for room.

One connection may leave ``gateway.unsentBytesLimit`` unread; many such connections could still take all memory. When
little room is left, requests with large answers wait before anything is read for them. Connections that do not read are
closed, the largest first. Beyond the limit itself the largest connection is closed at once. Honest readers wait for a
moment at most. Requests with small answers (sends, heartbeats, outcomes) never wait.

In addition, only some megabytes of large answers begin in one turn of the reactor. A thousand requests for large
answers, which arrive at the same moment, share the turns with all other requests. Upstream has no such limits.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

from gateway.reactor.interface import TimeSource
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.answers.held_bytes import HeldBytes

TURN_BYTES: Final = 4 * 1024 * 1024
"""The bytes of large answers that begin in one turn of the reactor; reading and writing them takes some 10 ms."""
CROWDED_BYTES: Final = 4 * TURN_BYTES
"""The limit like ``TURN_BYTES`` for peers whose last answer was small: they do not wait for large answers."""
LARGE_ANSWER_BYTES: Final = 64 * 1024
"""The size up to which answers are not counted for a turn."""
LOOK_EVERY_S: Final = 0.1
"""The seconds between two searches for connections that could be closed, while requests wait."""
STALLED_S: Final = 0.25
"""The seconds in which a full connection (see ``Channel.is_full``) takes nothing before it may be closed for others."""
STALE_S: Final = 5.0
"""The seconds like ``STALLED_S`` for a connection that is not full."""
MAX_WAITING: Final = 100_000
"""The number of requests that wait for room; further ones are refused as busy.

There are five for each of ``gateway.maxConnections``.
"""
MAX_WAITING_REQUESTS: Final = 10_000
"""The number of requests of one peer that wait for room.

As many more may wait until the peer has read. One peer may have this many held pulls.
"""


class Holder(Protocol):
    """The part of a connection that concerns its unread answers; connections are compared by identity."""

    @property
    def is_full(self) -> bool:
        """True if the peer has to read before more answers are made for it."""

    @property
    def untaken_bytes(self) -> int:
        """The bytes that the peer has not taken, including the kernel's; the number changes if the peer takes some."""

    def drop(self, reason: str) -> None:
        """Close at once, hold nothing any more, and report so to ``AnswerRoom.holds``."""


class AnswerRoom:
    """The unread bytes of each connection that has some; other connections are not in here.

    ``is_short`` is true while requests with large answers have to wait, ``is_crowded`` while every peer has to wait. A
    plain class: each pull reads these two.

    :param limit_bytes: unread bytes of all connections; ``is_short`` is true above three quarters of this limit.
    :param of_all: what all requests of the process hold, with a limit of its own; by default nothing else counts.
    """

    def __init__(
        self, reactor: TimeSource, flush_group: FlushGroup, limit_bytes: int, of_all: HeldBytes | None = None
    ) -> None:
        self.total_bytes = 0
        self.is_short = False
        self.is_crowded = False
        self._reactor = reactor
        self._flush_group = flush_group
        self._limit_bytes = limit_bytes
        self._of_all = HeldBytes(limit_bytes) if of_all is None else of_all
        self._held: dict[Holder, tuple[int, int, float]] = {}
        self._begun_bytes = 0
        self._waiting: OrderedDict[object, deque[Callable[[], None]]] = OrderedDict()
        self._waiting_requests = 0
        self._is_next_turn_asked = False
        self._is_looking = False

    def begun(self, answer_bytes: int) -> None:
        """Count a large answer that was just made."""
        self._begun_bytes += answer_bytes
        if self._begun_bytes > TURN_BYTES:
            self.is_short = True
            self.is_crowded = self._begun_bytes > CROWDED_BYTES
            self._ask_next_turn()

    def makes(self, by_bytes: int) -> None:
        """Count the bytes of a long answer while it is made; a negative number when it is done."""
        self._of_all.change(by_bytes)
        self._judge()

    def holds(self, holder: Holder, held_bytes: int, has_taken: bool = False) -> None:
        """Note how many unread bytes a connection has now; 0 if it has taken all or is closed.

        :param has_taken: True if its peer has just taken bytes; added bytes do not count as taken.
        """
        held = self._held
        before = held.pop(holder, None)
        by_bytes = held_bytes
        if before is not None:
            by_bytes -= before[0]
        if held_bytes:
            if before is None or has_taken:
                held[holder] = (held_bytes, holder.untaken_bytes, self._reactor.seconds())
            else:
                held[holder] = (held_bytes, before[1], before[2])
        self.total_bytes += by_bytes
        self._of_all.change(by_bytes)
        while self.total_bytes > self._limit_bytes or self._of_all.must_shrink(self.total_bytes):
            self._drop(max(held, key=lambda one: held[one][0]))
        self._judge()

    def wait(self, waiter: object, begin: Callable[[], None]) -> bool:
        """Call ``begin`` when there is room; return False if too many requests wait already.

        The calls of one waiter, a connection, are made in order; waiters take turns.
        """
        begins = self._waiting.get(waiter)
        if self._waiting_requests >= MAX_WAITING or (begins is not None and len(begins) >= MAX_WAITING_REQUESTS):
            return False
        if begins is None:
            begins = self._waiting[waiter] = deque()
        begins.append(begin)
        self._waiting_requests += 1
        if self._is_short_of_bytes():
            self._look_later()
        else:
            self._ask_next_turn()
        return True

    def forget(self, waiter: object) -> None:
        """Remove all waiting requests of a closed connection."""
        begins = self._waiting.pop(waiter, None)
        if begins is not None:
            self._waiting_requests -= len(begins)

    def _is_short_of_bytes(self) -> bool:
        return self.total_bytes > self._limit_bytes // 4 * 3 or self._of_all.is_short

    def _judge(self) -> None:
        self.is_short = self._is_short_of_bytes() or self._begun_bytes > TURN_BYTES
        if self._waiting and not self.is_short:
            self._ask_next_turn()

    def _ask_next_turn(self) -> None:
        if not self._is_next_turn_asked:
            self._is_next_turn_asked = True
            self._reactor.callLater(0, self._next_turn)

    def _next_turn(self) -> None:
        self._is_next_turn_asked = False
        self._begun_bytes = 0
        self.is_crowded = False
        self._judge()
        self._flush_group.carry_out(self._let_in)

    def _let_in(self) -> None:
        """Begin waiting requests for as long as there is room; requests that wait again now are not tried twice."""
        for _ in range(self._waiting_requests):
            if self.is_short or not self._waiting:
                break
            waiter, begins = self._waiting.popitem(last=False)
            begin = begins.popleft()
            self._waiting_requests -= 1
            if begins:
                self._waiting[waiter] = begins
            begin()
        if self._waiting and self._is_short_of_bytes():
            self._look_later()

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._reactor.callLater(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        """Make room: close connections that take nothing, one after the other, the largest first."""
        self._is_looking = False
        if not self._waiting:
            return
        stalled = self._stalled()
        stalled.sort(key=_held_bytes)
        while stalled and self._is_short_of_bytes():
            _, holder = stalled.pop()
            if holder in self._held:
                self._drop(holder)
        if self._is_short_of_bytes():
            self._look_later()
        else:
            self._judge()  # other requests of the process may have made the room

    def _stalled(self) -> list[tuple[int, Holder]]:
        """Return the connections that have taken nothing for too long.

        Only a connection without a recent sign of reading is asked what it has taken, and none too often.
        """
        now_s = self._reactor.seconds()
        stalled: list[tuple[int, Holder]] = []
        for holder, (held_bytes, untaken_before, since_s) in self._held.items():
            if now_s - since_s >= (STALLED_S if holder.is_full else STALE_S):
                untaken_bytes = holder.untaken_bytes
                if untaken_bytes == untaken_before:
                    stalled.append((held_bytes, holder))
                else:
                    self._held[holder] = (held_bytes, untaken_bytes, now_s)
        return stalled

    def _drop(self, holder: Holder) -> None:
        held_bytes = self._held[holder][0]
        holder.drop(
            f"gateway.unsentBytesTotal: all connections together have not read {self.total_bytes} bytes of their "
            f"answers, {self._limit_bytes} at most, and this one has not read {held_bytes} bytes; {self._of_all}"
        )


def _held_bytes(one: tuple[int, Holder]) -> int:
    return one[0]
