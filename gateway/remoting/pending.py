"""Our calls that wait for their answer: a map of opaque → Deferred, with a timeout for each.

One table belongs to one channel, since each side numbers its own requests. An answer that comes after its timeout finds
no entry and is ignored, as in ``NettyRemotingAbstract.processResponseCommand``.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from gateway.errors import GatewayError, forget_frames
from gateway.reactor.interface import TimeSource
from wire.command import RemotingCommand

MAX_OPAQUE = 0x7FFFFFFF


class CallFailed(GatewayError):  # noqa: N818 (the three below read as sentences)
    """A call to the peer got no answer."""


class CallTimeout(CallFailed):
    """No answer came within the timeout; the peer may or may not have acted."""


class ChannelClosed(CallFailed):
    """The connection was closed, or closed while the call waited."""


class TooManyCalls(CallFailed):
    """The limit of unanswered calls to the peer is reached; nothing was sent."""


class PendingCalls:
    """The unanswered calls of one channel.

    :param limit: how many calls may wait at a time.
    """

    def __init__(self, reactor: TimeSource, limit: int) -> None:
        self._reactor = reactor
        self._limit = limit
        self._last_opaque = 0
        self._calls: dict[int, tuple[Deferred[RemotingCommand], IDelayedCall]] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def next_opaque(self) -> int:
        """Return a number that no waiting call has; numbers count up and start again at 1."""
        opaque = self._last_opaque % MAX_OPAQUE + 1
        while opaque in self._calls:
            opaque = opaque % MAX_OPAQUE + 1
        self._last_opaque = opaque
        return opaque

    def expect(self, opaque: int, timeout_s: float) -> Deferred[RemotingCommand]:
        """Return a Deferred for the answer to ``opaque``; it fails with CallTimeout or ChannelClosed.

        :raises TooManyCalls: the limit is reached.
        """
        if len(self._calls) >= self._limit:
            raise TooManyCalls(f"{self._limit} calls already wait for an answer of this peer")
        answer: Deferred[RemotingCommand] = Deferred(lambda _: self._forget(opaque))
        timer = self._reactor.callLater(timeout_s, self._timed_out, opaque, timeout_s)
        self._calls[opaque] = (answer, timer)
        return answer

    def answered(self, response: RemotingCommand) -> bool:
        """Hand a response to the call that waits for it; return False if no such call waits, or waits no longer."""
        call = self._calls.pop(response.opaque, None)
        if call is None:
            return False
        answer, timer = call
        timer.cancel()
        answer.callback(response)
        return True

    def fail_all(self, reason: str) -> None:
        """Fail every waiting call, because the connection is gone."""
        while self._calls:
            _, (answer, timer) = self._calls.popitem()
            timer.cancel()
            _fail(answer, ChannelClosed(reason))

    def _timed_out(self, opaque: int, timeout_s: float) -> None:
        answer, _ = self._calls.pop(opaque)
        _fail(answer, CallTimeout(f"no answer within {timeout_s:g} s"))

    def _forget(self, opaque: int) -> None:
        call = self._calls.pop(opaque, None)
        if call is not None:
            call[1].cancel()


def _fail(answer: Deferred[RemotingCommand], error: CallFailed) -> None:
    """Fail a waiting call, and drop the traceback of the error.

    Twisted's frames in the traceback refer to the error. Such a circle would keep the lost transport in memory.
    """
    answer.errback(error)
    forget_frames(error)
