"""Answers that list something: one at a time for each connection, and few at a time for the server.

Such an answer grows with the tables of the server, and its parts take more memory than its bytes. A request for a list
waits while another list of its connection is under way, while its peer does not read, and while the server makes many
lists. When a connection closes, its list is dropped at once.

Nobody knows in advance how long a list takes, so a list is tried first. A list that is not finished after ``SHORT_S``
is a long list. It continues if one more long list may be made; otherwise it is dropped and made again later. So short
lists never wait until long lists end. A request whose list was long is not tried when the same request comes again.
Hosts and connections take turns in both lines (``FairLine``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from gateway.errors import RequestRefused
from gateway.fair_line import FairLine
from gateway.shares import Shares
from wire.codes import ResponseCode

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IDelayedCall

    from gateway.remoting.channel import Channel
    from wire.command import RemotingCommand

MAX_LISTS: Final = 4
"""The number of long lists under way in one server, each for another connection."""
MAX_TRIED: Final = 4
"""The number of lists on trial, in addition: nobody knows yet how long they take."""
SHORT_S: Final = 0.25
"""The seconds after which a list is long.

Most lists have one piece and are made at once; lists that read in threads wait for pieces of other works.
"""
MAX_WAITING_BYTES: Final = 67_108_864
"""The bytes of waiting requests for lists.

Each request counts with ``REQUEST_BYTES`` in addition to its fields and its body.
"""
MAX_WAITING_BYTES_PER_CHANNEL: Final = 8_388_608
"""The bytes of waiting requests for lists of one connection: 2,000 requests."""
REQUEST_BYTES: Final = 4_096
LISTS_AT_ONCE: Final = 8
"""The number of lists of one connection after which its next list waits for another reactor turn; most are short."""
MAX_KNOWN: Final = 1_000
"""The number of requests that are remembered because their answers are long."""
LIST_BYTES: Final = 16_777_216
"""The bytes that count for a long list under way (``gateway.heldBytesTotal``): its text may be as long as a frame."""
LONG_COST: Final = 10.0
"""The cost of a long list in its line; a change that was not tried before costs 1."""


class ListRequest(Protocol):
    """A request for a list; ``Request`` of the dispatch is one."""

    channel: Channel
    command: RemotingCommand
    answered: bool


R = TypeVar("R", bound=ListRequest)


class _Line(Generic[R]):
    """The requests of one connection.

    ``is_ready`` is true while the line waits for its turn. ``is_busy`` is true while a list is under way, or while the
    line waits for room or for the next turn of the reactor.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.waiting: deque[R] = deque()
        self.is_ready = False
        self.is_busy = False
        self.made = 0
        self.was_tried = False
        """True if the list of the first request in ``waiting`` was started before and is long."""
        self.request: R | None = None
        self.places: _Places[R] | None = None
        self.counted_bytes = 0
        """The bytes that count for the list under way."""
        self.drops: Deferred[Any] | None = None
        self.overdue: IDelayedCall | None = None
        self.is_dropped = False
        """True if the list under way was dropped and will be made again."""


class _Places(Generic[R]):
    """The places for lists that are under way, and the connections that wait for a place."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.line: FairLine[_Line[R]] = FairLine()

    @property
    def has_turn(self) -> bool:
        """True if a list may begin now."""
        return self.free > 0 and len(self.line) > 0


class Lists(Generic[R]):
    """The requests of one server whose answers are lists. Only the reactor's thread uses this class.

    :param answer: carries a request out and never raises; returns a Deferred that fires when the request is answered,
        or None if it is answered already.
    :param refuse: answers a request with an error.
    :param is_change: returns whether a request changes what it lists (``Size.CHANGING_LIST``). Such a request is never
        dropped after its work has begun, so it takes one of the places for long lists.
    """

    def __init__(
        self,
        answer: Callable[[R], Deferred[Any] | None],
        refuse: Callable[[R, Exception], None],
        is_change: Callable[[R], bool],
    ) -> None:
        self._answer = answer
        self._refuse = refuse
        self._is_change = is_change
        self._lines: dict[Channel, _Line[R]] = {}
        self._tried: _Places[R] = _Places(MAX_TRIED)
        self._long: _Places[R] = _Places(MAX_LISTS)
        self._waiting_bytes: Shares[Channel] = Shares(MAX_WAITING_BYTES, MAX_WAITING_BYTES_PER_CHANNEL)
        self._known: dict[int, None] = {}
        """The hashes of the last requests whose lists were long; if two requests share a hash, one waits needlessly."""
        self._is_starting = False

    def ask(self, request: R) -> None:
        """Make the list that this request asks for, now or later.

        :raises RequestRefused: SYSTEM_BUSY: too many requests for lists wait already.
        """
        channel = request.channel
        if channel.closed or (request.answered and not self._is_change(request)):
            return  # no peer is there, or none wants an answer
        if not self._waiting_bytes.take(channel, _size(request)):
            remark = self._waiting_bytes.refusal(channel, "bytes of requests for lists that wait")
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{remark}; try again later")
        line = self._lines.get(channel)
        if line is None:
            line = self._lines[channel] = _Line(channel)
            channel.on_close(self._closed)
        line.waiting.append(request)
        if not line.is_busy:
            self._go_on(line)
            self._start()

    def is_dropped(self, request: R) -> bool:
        """Return whether the list of a request was dropped and will be made again: the request is not answered yet."""
        line = self._lines.get(request.channel)
        return line is not None and line.request is request and line.is_dropped

    def _go_on(self, line: _Line[R]) -> None:
        """Let a line wait for its turn, or first for its peer to read."""
        if line.channel.must_wait:
            self._wait_for_room(line)
        elif not line.is_ready:
            line.is_ready = True
            first = line.waiting[0]
            is_long = line.was_tried or _hash(first) in self._known
            places = self._long if is_long or self._is_change(first) else self._tried
            places.line.put(line.channel.remote[0], line.channel, line, LONG_COST if is_long else 1.0)

    def _wait_for_room(self, line: _Line[R]) -> None:
        """Continue with a line in a later turn, after its peer has read and the server has room for answers."""
        self._is_ready_no_more(line)  # the line must wait for room first
        line.is_busy = line.channel.when_room(partial(self._has_room, line))
        if not line.is_busy:
            busy = "too many requests wait until clients have read their answers (gateway.unsentBytesTotal)"
            while line.waiting:
                self._refuse(self._taken(line), RequestRefused(ResponseCode.SYSTEM_BUSY, f"{busy}; try again later"))

    def _is_ready_no_more(self, line: _Line[R]) -> None:
        if line.is_ready:
            line.is_ready = False
            for places in (self._tried, self._long):
                places.line.drop(line.channel.remote[0], line.channel)

    def _has_room(self, line: _Line[R]) -> None:
        line.is_busy = False
        line.made = 0
        if line.waiting:
            self._go_on(line)
            self._start()

    def _start(self) -> None:
        """Begin lists for as long as more of them are allowed."""
        if self._is_starting:  # a list ended at once, inside this loop
            return
        self._is_starting = True
        try:
            while self._tried.has_turn:
                self._begin(self._tried)
            while self._long.has_turn:
                self._begin(self._long)
        finally:
            self._is_starting = False

    def _begin(self, places: _Places[R]) -> None:
        """Make the first list of the line that has its turn."""
        line = places.line.take()
        line.is_ready = False
        if places is self._tried and _hash(line.waiting[0]) in self._known:  # found to be long meanwhile
            self._go_on(line)
            return
        line.is_busy = True
        line.request = request = self._taken(line)
        line.places = places
        places.free -= 1
        if places is self._long:
            self._count(line, LIST_BYTES)
        answering = self._answer(request)
        if answering is None:
            self._ended(None, line)
            return
        if not self._is_change(request):
            line.drops = answering
        answering.addBoth(self._ended, line)
        if line.drops is answering:
            line.overdue = line.channel.call_later(SHORT_S, partial(self._found_long, line))

    def _found_long(self, line: _Line[R]) -> None:
        """Treat the list under way as long: continue it where long lists are made, or drop it for now."""
        line.overdue = None
        if line.request is not None:
            self._known[_hash(line.request)] = None
            if len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
        if line.places is self._long:
            return
        if self._long.free > 0 and not self._long.line:
            self._tried.free += 1
            self._long.free -= 1
            line.places = self._long
            self._count(line, LIST_BYTES)
            self._start()
        elif line.drops is not None:
            line.is_dropped = True
            line.drops.cancel()

    def _count(self, line: _Line[R], counted_bytes: int) -> None:
        line.channel.makes(counted_bytes - line.counted_bytes)
        line.counted_bytes = counted_bytes

    def _taken(self, line: _Line[R]) -> R:
        request = line.waiting.popleft()
        self._waiting_bytes.give_back(line.channel, _size(request))
        line.was_tried = False
        return request

    def _ended(self, _: object, line: _Line[R]) -> None:
        places, request = line.places, line.request
        assert places is not None, "a list that ends was begun"
        assert request is not None, "a list that ends was begun"
        places.free += 1
        if line.counted_bytes:
            self._count(line, 0)
        line.places = line.request = line.drops = None
        line.is_busy = False
        if line.overdue is not None:
            line.overdue.cancel()
            line.overdue = None
            self._known.pop(_hash(request), None)
        if line.is_dropped and not (request.answered or line.channel.closed):
            self._waiting_bytes.add(line.channel, _size(request))  # no limit: the request was let in before
            line.waiting.appendleft(request)
            line.was_tried = True
            self._go_on(line)
        else:
            line.made += 1
            if line.waiting or line.made >= LISTS_AT_ONCE:
                self._wait_for_room(line)
        line.is_dropped = False
        self._start()

    def _closed(self, channel: Channel) -> None:
        line = self._lines.pop(channel)
        self._is_ready_no_more(line)
        while line.waiting:
            self._taken(line)
        if line.drops is not None:
            line.drops.cancel()


def _hash(request: ListRequest) -> int:
    """Return a number that tells most requests apart."""
    command = request.command
    return hash((command.code, *sorted(command.ext_fields.items()), command.body))


def _size(request: ListRequest) -> int:
    command = request.command
    fields = sum(len(name) + len(value) for name, value in command.ext_fields.items())
    return REQUEST_BYTES + fields + len(command.body)
