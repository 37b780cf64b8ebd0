"""Reads that wait for the disk: they use a limited number of the pool's threads and wait in a bounded queue.

The pool also flushes and saves tables, so consumers that catch up must not use all of its threads. Connections take
turns, and each gets a share of the places in the queue: a thousand reads for one connection delay another connection by
one read. Long searches (by key, for example) get half of the threads at most, and take turns with short reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.in_thread import InThread
from gateway.reactor.thread_result import settle
from gateway.shares import Shares
from wire.codes import ResponseCode

T = TypeVar("T")
Work = Callable[[], Any]
Done = Callable[[Any], None]
Holder = Hashable | None
"""The one that asks for a read: a connection, or None for the broker itself, which is never refused."""
TOOLS = "tools"
"""The holder of all reads that operators' tools ask for, whatever their connection."""


class _Lane:
    """Works of one kind; their holders take turns.

    :param threads: how many works may run at once.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.running = 0
        self._turns: dict[Holder, deque[tuple[Work, Done]]] = {}

    @property
    def is_ready(self) -> bool:
        """True if a work waits and may run."""
        return bool(self._turns) and self.running < self.threads

    @property
    def may_run(self) -> bool:
        """True if a new work may run at once.

        A holder that reads piece after piece does not pass waiting holders between two pieces.
        """
        return not self._turns and self.running < self.threads

    def put(self, holder: Holder, work: Work, done: Done) -> None:
        """Let a work wait for its turn."""
        self._turns.setdefault(holder, deque()).append((work, done))

    def take(self) -> tuple[Holder, Work, Done]:
        """Remove and return the oldest work of the holder whose turn has come."""
        holder = next(iter(self._turns))
        works = self._turns.pop(holder)
        work, done = works.popleft()
        if works:
            self._turns[holder] = works  # behind the others
        return holder, work, done


class ColdReads:
    """A runner of blocking reads. All methods belong to the reactor's thread.

    :param threads: how many reads run at once; :param limit: how many reads wait for a thread.
    """

    def __init__(self, in_thread: InThread, *, threads: int, limit: int) -> None:
        self._in_thread = in_thread
        self._threads = threads
        self._short = self._next = _Lane(threads)
        self._long = _Lane(max(1, threads // 2))
        self._waiting: Shares[Holder] = Shares(limit)

    @property
    def count(self) -> int:
        """The number of reads that run or wait."""
        return self._short.running + self._long.running + self._waiting.used

    def read(self, work: Work, done: Done, holder: Holder = None, *, is_long: bool = False) -> None:
        """Run ``work`` in a thread, then call ``done`` with its value, or with ``Failed``, on the reactor's thread.

        :param is_long: True for work that may look at very many places.
        :raises RequestRefused: SYSTEM_BUSY: too many reads wait already; stock clients try again a little later.
        """
        lane = self._long if is_long else self._short
        if self._has_thread and lane.may_run:
            self._start(lane, work, done)
            return
        if holder is not None and not self._waiting.has_room(holder):
            remark = self._waiting.refusal(holder, "reads of the disk that wait (gateway.coldReadsLimit)")
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{remark}; try again later")
        self._waiting.add(holder)
        lane.put(holder, work, done)

    def result(self, work: Callable[[], T], holder: Holder = None, *, is_long: bool = False) -> Awaitable[T]:
        """Run ``work`` as ``read`` does; the result fires with the value of ``work`` or fails with its exception.

        :raises RequestRefused: as ``read``.
        """
        waiting: Deferred[T] = Deferred()
        self.read(work, partial(settle, waiting), holder, is_long=is_long)
        return waiting

    def tool_result(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run a long ``work`` that an operator's tool asks for, as ``result`` does."""
        return self.result(work, TOOLS, is_long=True)

    @property
    def _has_thread(self) -> bool:
        return self._short.running + self._long.running < self._threads

    def _start(self, lane: _Lane, work: Work, done: Done) -> None:
        lane.running += 1
        self._next = self._short if lane is self._long else self._long

        def ended(value: Any) -> None:
            lane.running -= 1
            try:
                done(value)
            finally:
                self._start_next()

        self._in_thread(work, ended)

    def _start_next(self) -> None:
        other = self._short if self._next is self._long else self._long
        for lane in (self._next, other):
            if self._has_thread and lane.is_ready:
                holder, work, done = lane.take()
                self._waiting.give_back(holder)
                self._start(lane, work, done)
                return
