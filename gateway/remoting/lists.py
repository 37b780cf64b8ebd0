"""Answers that list something are made one at a time for a connection, and few at a time in all.

Such an answer grows with the tables of the server, and what it is made of takes more memory than its bytes. A request
for a list waits while another one of its connection is under way, while its peer does not read, and while the server
makes many lists. When a connection closes, its list is dropped at once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from gateway.errors import RequestRefused
from gateway.shares import Shares
from wire.codes import ResponseCode

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from gateway.remoting.channel import Channel
    from wire.command import RemotingCommand

MAX_LISTS: Final = 4
"""Lists under way in one server, each for another connection."""
MAX_WAITING_BYTES: Final = 67_108_864
"""Bytes of the requests for lists that wait, each counted with ``REQUEST_BYTES`` besides its fields and its body."""
MAX_WAITING_BYTES_PER_CHANNEL: Final = 8_388_608
"""Those of one connection: 2,000 requests."""
REQUEST_BYTES: Final = 4_096
LISTS_AT_ONCE: Final = 8
"""Lists of one connection after which its next one waits for another turn of the reactor: most are short."""


class ListRequest(Protocol):
    """A request for a list; ``Request`` of the dispatch is one."""

    channel: Channel
    command: RemotingCommand
    answered: bool


R = TypeVar("R", bound=ListRequest)


class _Line(Generic[R]):
    """The requests of one connection; ``is_busy`` while one is under way or the line waits for room or a next turn."""

    __slots__ = ("channel", "drops", "is_busy", "made", "waiting")

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.waiting: deque[R] = deque()
        self.is_busy = False
        self.made = 0
        self.drops: Deferred[Any] | None = None


class Lists(Generic[R]):
    """The lists of one server. Only the reactor's thread uses this class.

    :param answer: carries a request out and never raises; returns what fires when it has been answered, or None when
        it has been answered already.
    :param refuse: answers a request with an error.
    :param is_change: whether a request changes what it lists (``Size.CHANGING_LIST``).
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
        self._ready: OrderedDict[_Line[R], None] = OrderedDict()
        self._waiting_bytes: Shares[Channel] = Shares(MAX_WAITING_BYTES, MAX_WAITING_BYTES_PER_CHANNEL)
        self._under_way = 0
        self._is_starting = False

    def ask(self, request: R) -> None:
        """Make this list now or later.

        :raises RequestRefused: SYSTEM_BUSY: too many requests for lists wait already.
        """
        channel = request.channel
        if channel.closed or (request.answered and not self._is_change(request)):
            return  # nobody is there, or wants an answer
        if not self._waiting_bytes.take(channel, _size(request)):
            remark = self._waiting_bytes.refusal(channel, "bytes of requests for lists that wait")
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{remark}; try again later")
        line = self._lines.get(channel)
        if line is None:
            line = self._lines[channel] = _Line(channel)
            channel.on_close(self._closed)
        line.waiting.append(request)
        if not line.is_busy:
            if channel.must_wait:
                self._wait_for_room(line)
            else:
                self._ready[line] = None
                self._start()

    def _wait_for_room(self, line: _Line[R]) -> None:
        """Go on with a line in a later turn, when its peer has read and the server has room for answers."""
        self._ready.pop(line, None)  # not before there is room
        line.is_busy = line.channel.when_room(partial(self._has_room, line))
        if not line.is_busy:
            busy = "too many requests wait until clients have read their answers (gateway.unsentBytesTotal)"
            while line.waiting:
                self._refuse(self._taken(line), RequestRefused(ResponseCode.SYSTEM_BUSY, f"{busy}; try again later"))

    def _has_room(self, line: _Line[R]) -> None:
        if line.waiting and line.channel.must_wait:
            self._wait_for_room(line)
            return
        line.is_busy = False
        line.made = 0
        if line.waiting:
            self._ready[line] = None
            self._start()

    def _start(self) -> None:
        """Begin lists for as long as there may be more."""
        if self._is_starting:  # one ended at once
            return
        self._is_starting = True
        try:
            while self._ready and self._under_way < MAX_LISTS:
                line, _ = self._ready.popitem(last=False)
                self._begin(line)
        finally:
            self._is_starting = False

    def _begin(self, line: _Line[R]) -> None:
        """Make the first list of a line."""
        request = self._taken(line)
        line.is_busy = True
        self._under_way += 1
        answering = self._answer(request)
        if answering is None:
            self._ended(None, line)
            return
        if not self._is_change(request):
            line.drops = answering
        answering.addBoth(self._ended, line)

    def _taken(self, line: _Line[R]) -> R:
        request = line.waiting.popleft()
        self._waiting_bytes.give_back(line.channel, _size(request))
        return request

    def _ended(self, _: object, line: _Line[R]) -> None:
        self._under_way -= 1
        line.drops = None
        line.is_busy = False
        line.made += 1
        if line.waiting or line.made >= LISTS_AT_ONCE:
            self._wait_for_room(line)
        self._start()

    def _closed(self, channel: Channel) -> None:
        line = self._lines.pop(channel)
        self._ready.pop(line, None)
        while line.waiting:
            self._taken(line)
        if line.drops is not None:
            line.drops.cancel()


def _size(request: ListRequest) -> int:
    command = request.command
    fields = sum(len(name) + len(value) for name, value in command.ext_fields.items())
    return REQUEST_BYTES + fields + len(command.body)
