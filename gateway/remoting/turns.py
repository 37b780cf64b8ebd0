"""Long work in pieces, so that other requests are answered between two pieces.

A work is a generator that yields after a bounded number of entries. All works of one server share its turns: each turn
of the reactor does one piece of one work, however many works there are. Each connection has a line of its own, and the
lines take turns. So a peer that asks for hundreds of long answers delays only itself.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gateway.errors import RequestRefused, forget_frames
from gateway.reactor.interface import TimeSource
from gateway.shares import Shares
from wire.codes import ResponseCode

ENTRIES_PER_TURN = 1_000
"""The number of table entries that one piece of work visits: about a millisecond, at most ten."""

MAX_WORKS = 8
"""The number of works, each of another connection, that take turns.

Further works wait until one of these ends, since each may hold an answer of 16 MiB.
"""
MAX_BEGUN = 400
"""The number of works whose first piece is done: each holds at most 256 KiB of text until it takes turns."""
MAX_BEGUN_PER_CHANNEL = 4
"""The number of begun works of one connection; further requests of the connection wait."""
FIRST_PIECES_PER_TURN = 50
"""The number of works that begin in one turn of the reactor.

Most works have one piece, for example the lists of group members and locks.
"""
MAX_WAITING = 10_000
"""The number of unfinished works: 10,000 clients may ask for the members of their group at the same moment."""
MAX_WAITING_PER_CHANNEL = 2_000
"""The number of unfinished works of one connection.

A process may have consumers of 2,000 groups that share out queues at the same moment.
"""
FIRST_PIECES_S = 0.02
"""The seconds after the first of them in which works begin in one turn: a first piece may copy a large table."""
DROPS_PER_TURN = 100
"""The number of works of closed connections that one turn drops: a few milliseconds."""

T = TypeVar("T")
Work: TypeAlias = Generator[None, None, T]
"""A work in pieces; the generator's return value is the work's value."""


class Peer(Protocol):
    """The part of a connection that ``Turns`` uses."""

    @property
    def closed(self) -> bool:
        """True if nobody can be answered any more."""

    def on_close(self, callback: Callable[[Any], None], /) -> None:
        """Call back once, with this connection, when the connection closes."""


class _Job:
    """A work, the Deferred that fires when it ends, and whether a begun work continues without its peer."""

    def __init__(self, work: Work[Any], *, goes_on: bool) -> None:
        self.work = work
        self.done: Deferred[Any] = Deferred(None if goes_on else self._drop)
        self.goes_on = goes_on

    def _drop(self, _: Deferred[Any]) -> None:
        """Drop a work that nobody waits for: release its memory now, so that its next piece is its last."""
        self.work = _nothing()


class _Line:
    """The works of one connection, or a work of the server itself: begun works and works that have not begun."""

    def __init__(self, holder: object) -> None:
        self.holder = holder
        self.begun: deque[_Job] = deque()
        self.fresh: deque[_Job] = deque()
        self.gone = False


class Turns:
    """The works of one server. Only the reactor's thread uses this class.

    The first piece of a work is done at once, so that short answers do not wait for long ones. However, only a few
    works of one connection begin at a time, and only a few in one turn.
    """

    def __init__(self, reactor: TimeSource) -> None:
        self._reactor = reactor
        self._shares: Shares[object] = Shares(MAX_WAITING, MAX_WAITING_PER_CHANNEL)
        self._lines: dict[Peer, _Line] = {}
        self._fresh: OrderedDict[_Line, None] = OrderedDict()  # lines that may begin their next work
        self._long: OrderedDict[_Line, None] = OrderedDict()  # lines with begun work that wait to become active
        self._active: OrderedDict[_Line, None] = OrderedDict()  # lines whose first begun work takes turns
        self._dropped: deque[tuple[object, _Job]] = deque()
        self._begun = 0
        self._first_pieces = 0
        self._first_began_s = 0.0
        self._scheduled = False

    @property
    def count(self) -> int:
        """The number of unfinished works."""
        return self._shares.used

    def run(self, work: Work[T], channel: Peer, *, goes_on: bool = False) -> Deferred[T]:
        """Do the first piece now and the other pieces in later turns; fires with the work's value or its exception.

        A work of a single piece is mostly done when this method returns. When the channel closes, its works are
        dropped: they fail soon with RequestRefused.

        :param channel: the connection whose request it is.
        :param goes_on: True if a begun work continues to its end without its peer, because it changes something.
        :raises RequestRefused: SYSTEM_BUSY: too many works wait; SYSTEM_ERROR: the channel is closed.
        """
        if channel.closed:
            raise _closed_meanwhile()
        if not self._shares.has_room(channel):
            remark = self._shares.refusal(channel, "long answers in the making")
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{remark}; try again later")
        job = _Job(work, goes_on=goes_on)
        self._shares.add(channel)
        if self._may_begin(channel):
            self._do_first(channel, job)
        else:
            line = self._line(channel)
            line.fresh.append(job)
            self._place(line)
            self._schedule()
        return job.done

    def begin(self, work: Work[T]) -> Deferred[T]:
        """Run a work of the server itself, like ``run``: it is never refused, and its first piece is done now.

        Use ``begin`` for only a few works at a time.
        """
        job = _Job(work, goes_on=True)
        if not _is_over(job):
            self._go_on(job)
        return job.done

    def _may_begin(self, channel: Peer) -> bool:
        if self._has_begun_enough or self._begun >= MAX_BEGUN:
            return False
        line = self._lines.get(channel)
        return line is None or (not line.fresh and len(line.begun) < MAX_BEGUN_PER_CHANNEL)

    @property
    def _has_begun_enough(self) -> bool:
        """True if no more works may begin in this turn."""
        if not self._first_pieces:
            return False
        took_s = self._reactor.seconds() - self._first_began_s
        return self._first_pieces >= FIRST_PIECES_PER_TURN or took_s >= FIRST_PIECES_S

    def _do_first(self, channel: Peer, job: _Job) -> None:
        if not self._first_pieces:
            self._first_began_s = self._reactor.seconds()
        self._first_pieces += 1
        self._schedule()  # in the next turn the count starts again
        if _is_over(job):
            self._shares.give_back(channel)
        elif channel.closed:
            self._leave(channel, job)
        else:
            line = self._line(channel)
            line.begun.append(job)
            self._begun += 1
            self._place(line)

    def _line(self, channel: Peer) -> _Line:
        """Return the channel's line, which is kept until the channel closes."""
        line = self._lines.get(channel)
        if line is None:
            line = self._lines[channel] = _Line(channel)
            channel.on_close(self._closed)
        return line

    def _place(self, line: _Line) -> None:
        """Let a line take part in the turns if it has works."""
        if line.begun and line not in self._active:
            self._long.setdefault(line)
        if line.fresh and len(line.begun) < MAX_BEGUN_PER_CHANNEL:
            self._fresh.setdefault(line)
        self._fill()

    def _fill(self) -> None:
        while self._long and len(self._active) < MAX_WORKS:
            line, _ = self._long.popitem(last=False)
            self._active[line] = None

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._first_pieces = 0
        for _ in range(min(DROPS_PER_TURN, len(self._dropped))):
            holder, job = self._dropped.popleft()
            self._shares.give_back(holder)
            if not job.done.called:
                job.done.errback(_closed_meanwhile())
        for _ in range(min(MAX_WORKS, len(self._fresh))):
            if self._fresh and self._begun < MAX_BEGUN and not self._has_begun_enough:
                self._begin_next()
        if self._active:
            self._go_on_with_next()
        if self._active or self._fresh or self._dropped:
            self._schedule()

    def _begin_next(self) -> None:
        line, _ = self._fresh.popitem(last=False)
        channel: Any = line.holder  # a channel, because the server's own works are never fresh
        self._do_first(channel, line.fresh.popleft())
        if not line.gone:
            self._place(line)

    def _go_on_with_next(self) -> None:
        line, _ = self._active.popitem(last=False)
        job = line.begun.popleft()
        self._begun -= 1
        if _is_over(job):
            self._shares.give_back(line.holder)
        elif line.gone:
            self._leave(line.holder, job)
        else:
            line.begun.appendleft(job)
            self._begun += 1
            self._long.pop(line, None)
            self._active[line] = None
        if not line.gone:
            self._place(line)

    def _closed(self, channel: Peer) -> None:
        line = self._lines.pop(channel)
        line.gone = True
        for lines in (self._fresh, self._long, self._active):
            lines.pop(line, None)
        self._begun -= len(line.begun)
        for job in line.begun:
            self._leave(channel, job)
        self._dropped.extend((channel, job) for job in line.fresh)
        line.begun.clear()
        line.fresh.clear()
        self._fill()
        self._schedule()

    def _leave(self, holder: object, job: _Job) -> None:
        """Drop a begun work whose peer is gone, or continue it if it ``goes_on``."""
        if job.goes_on:
            self._shares.give_back(holder)
            self._go_on(job)
        else:
            self._dropped.append((holder, job))
            self._schedule()

    def _go_on(self, job: _Job) -> None:
        """Let a begun work take turns in a line of its own."""
        line = _Line(job)
        line.begun.append(job)
        self._begun += 1
        self._shares.add(job)
        self._active[line] = None
        self._schedule()


def _is_over(job: _Job) -> bool:
    """Do the next piece; return True if it was the last and the waiting caller has been notified."""
    try:
        next(job.work)
    except StopIteration as end:
        if not job.done.called:  # the work was not dropped
            job.done.callback(end.value)
    except Exception as error:  # noqa: BLE001 - whoever waits for the work gets its exception
        fail(job.done, error)
    else:
        return False
    return True


def _nothing() -> Work[None]:
    yield from ()


def fail(waiting: Deferred[Any], error: Exception) -> None:
    """Fail the waiting caller with an exception, and keep no traceback of it."""
    failure = Failure(error)  # type: ignore[no-untyped-call]
    waiting.errback(failure)
    failure.cleanFailure()  # type: ignore[no-untyped-call]
    forget_frames(error)


def _closed_meanwhile() -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, "the connection was closed meanwhile")


def finish(work: Work[T]) -> T:
    """Do all pieces at once and return the work's value; for programs without a reactor."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
