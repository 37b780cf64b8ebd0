"""One connection to a broker or a name server: an asyncio protocol on ``wire.Connection``.

A connection pairs answers with their callers, and gives up answers that come too late. Frames that are written in one
turn of the loop become one write. Requests of the other side are passed on. ``remoting`` connects and retries.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ClassVar, Final, Protocol, TypeAlias

import msgspec

from gateway.client.errors import ConnectionLost, ProtocolError, RequestTimeout, RocketMQError, TooManyRequests
from wire.codes import request_code_name
from wire.command import RESPONSE_FLAG, RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError
from wire.headers.send import SendMessageResponse
from wire.json_header import NO_OPAQUE

_log = logging.getLogger(__name__)

MAX_OPAQUE: Final = 0x7FFF_FFFF
_NEVER: Final = float("inf")
_LEAST_SCAN_GAP: Final = 0.01
"""Seconds at least between two checks for late answers, so that one check serves many close deadlines."""
_WRITE_BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Unsent bytes above which writers must wait."""


class _StoredAnswer(msgspec.Struct, gc=False):
    """The header of an answer to a send, with its fields."""

    code: int
    extFields: SendMessageResponse  # noqa: N815 - as it is called in JSON
    flag: int = 0
    opaque: int = NO_OPAQUE
    remark: str | None = None


_decode_stored: Final = msgspec.json.Decoder(_StoredAnswer, strict=False).decode


class Waiting(Protocol):
    """A caller that waits for an answer. Exactly one of its methods is called, once, on the loop's thread."""

    code: int
    """The request code, for the text of errors."""
    timeout: float
    """Seconds that the caller waits."""
    deadline: float
    """The loop time at which the caller stops waiting; written by the connection."""
    takes_stored: ClassVar[bool]
    """True if ``stored`` may be called instead of ``answered``."""

    def answered(self, command: RemotingCommand) -> None:
        """Take the answer, whatever its code; must not raise."""

    def stored(self, code: int, header: SendMessageResponse) -> None:
        """Take an answer that says only where a message is stored; must not raise."""

    def failed(self, error: RocketMQError) -> None:
        """Take the error: there will be no answer; must not raise."""


class FutureWaiting:
    """A caller that waits with a future, whose result is the answer."""

    __slots__ = ("code", "deadline", "future", "timeout")
    takes_stored: ClassVar[bool] = False

    def __init__(self, code: int, timeout: float, future: asyncio.Future[RemotingCommand]) -> None:
        self.code = code
        self.timeout = timeout
        self.deadline = 0.0
        self.future = future

    def answered(self, command: RemotingCommand) -> None:
        """Implement ``Waiting.answered``."""
        if not self.future.done():
            self.future.set_result(command)

    def stored(self, code: int, header: SendMessageResponse) -> None:
        """Implement ``Waiting.stored``; never called."""

    def failed(self, error: RocketMQError) -> None:
        """Implement ``Waiting.failed``."""
        if not self.future.done():
            self.future.set_exception(error)


Asked: TypeAlias = Callable[["BrokerConnection", RemotingCommand], None]
Lost: TypeAlias = Callable[["BrokerConnection"], None]


class BrokerConnection(asyncio.Protocol):
    """A connection; ``is_open`` says whether requests are still taken.

    :param address: ``host:port`` as the caller knows the server, for errors.
    :param asked: called with each request of the other side.
    :param lost: called once after the connection ended.
    """

    def __init__(
        self,
        address: str,
        *,
        asked: Asked,
        lost: Lost,
        max_frame_bytes: int,
        max_in_flight: int,
        advertised_by: str | None = None,
    ) -> None:
        self.address = address
        self.is_open = False
        self._advertised_by = advertised_by
        self._loop = asyncio.get_running_loop()
        self._wire = Connection(max_frame_bytes)
        self._asked = asked
        self._lost = lost
        self._max_in_flight = max_in_flight
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, Waiting] = {}
        self._out: list[bytes] = []
        self._next_opaque = 0
        self.is_paused = False
        """True while so many bytes are unsent that writers should wait for ``drained``."""
        self._resumed: asyncio.Future[None] | None = None
        self._made_at = self._received_at = 0.0
        self._scan_timer: asyncio.TimerHandle | None = None
        self._scans_at = _NEVER
        self._retired = False
        self._failure: RocketMQError | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """A future that is done when the connection has ended."""

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for an answer."""
        return len(self._pending)

    @property
    def local_address(self) -> str:
        """The IP address of this end, such as ``127.0.0.1``; empty if not connected."""
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return str(name[0]) if name else ""

    def take_opaque(self) -> int:
        """Return the number for the next request."""
        opaque = self._next_opaque
        self._next_opaque = opaque + 1 if opaque < MAX_OPAQUE else 0
        return opaque

    def start_call(self, opaque: int, frame: bytes, waiting: Waiting, now: float | None = None) -> None:
        """Write a request and register who waits for the answer; ``frame`` carries ``opaque``. Never raises.

        If the connection is closed or full, ``waiting.failed`` is called at once.

        :param now: the loop's time, if the caller has just read it.
        """
        if not self.is_open:
            waiting.failed(self._failure or ConnectionLost(self.address, "it is closed"))
            return
        pending = self._pending
        if len(pending) >= self._max_in_flight:
            waiting.failed(TooManyRequests(self.address, self._max_in_flight))
            return
        deadline = waiting.deadline = (self._loop.time() if now is None else now) + waiting.timeout
        pending[opaque] = waiting
        if deadline < self._scans_at:
            self._scan_at(deadline)
        out = self._out
        if out:
            out.append(frame)
        elif len(pending) == 1 and self._transport is not None:
            # Nothing else is under way: whoever sends one by one need not wait for the end of the turn.
            self._transport.write(frame)
        else:
            self._loop.call_soon(self._flush)
            out.append(frame)

    def expect_stored(self) -> None:
        """Read answers to sends in one step from now on, because many of them will come."""
        self._wire.first_look = self._take_stored

    def write(self, frame: bytes) -> None:
        """Send a frame at the end of this turn of the loop, in one write with the turn's other frames."""
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(frame)

    async def drained(self) -> None:
        """Wait until the other side has taken enough of the written bytes.

        :raises ConnectionLost: the connection ended meanwhile.
        """
        if self._resumed is not None:
            await asyncio.shield(self._resumed)
        if not self.is_open:
            raise self._failure or ConnectionLost(self.address, "it was closed")

    def retire(self) -> None:
        """Take no more requests, and close after the last answer; for a server that asks its clients to leave."""
        self._retired = True
        self.is_open = False
        if not self._pending:
            self.close()

    def close(self, error: RocketMQError | None = None) -> None:
        """Send written frames and close; waiting callers get ``error``, or ``ConnectionLost``."""
        self._failure = self._failure or error
        self.is_open = False
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: RocketMQError) -> None:
        """Close at once; waiting callers get ``error``."""
        self._failure = self._failure or error
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # --- what asyncio calls ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement ``asyncio.Protocol.connection_made``."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self.is_open = True
        self._made_at = self._received_at = self._loop.time()

    def data_received(self, data: bytes) -> None:
        """Implement ``asyncio.Protocol.data_received``."""
        self._received_at = self._loop.time()
        wire = self._wire
        try:
            commands = wire.receive_data(data)
        except RemoteError as error:
            self._damaged(error)
            return
        pending = self._pending
        for command in commands:
            if command.flag & RESPONSE_FLAG:
                waiting = pending.pop(command.opaque, None)
                if waiting is not None:
                    waiting.answered(command)
                else:
                    _log.debug("%s sent an answer nobody waits for any more: %r", self.address, command)
            else:
                self._asked(self, command)
        if wire.failure is not None:
            self._damaged(wire.failure)
        elif self._retired and not pending:
            self.close()

    def pause_writing(self) -> None:
        """Implement ``asyncio.Protocol.pause_writing``."""
        self._resumed = self._loop.create_future()
        self.is_paused = True

    def resume_writing(self) -> None:
        """Implement ``asyncio.Protocol.resume_writing``."""
        resumed, self._resumed = self._resumed, None
        self.is_paused = False
        if resumed is not None and not resumed.done():
            resumed.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Implement ``asyncio.Protocol.connection_lost``."""
        self.is_open = False
        self._out.clear()
        self._wire.discard()
        if self._failure is None:
            self._failure = ConnectionLost(self.address, self._cause(exc), advertised_by=self._advertised_by)
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None
        pending, self._pending = self._pending, {}
        for waiting in pending.values():
            waiting.failed(self._failure)
        self.resume_writing()
        if not self.closed.done():
            self.closed.set_result(None)
        self._lost(self)

    # --- inside ---------------------------------------------------------------------------------------------

    def _cause(self, error: Exception | None) -> str:
        """Return why the connection ended; a server of TLS alone closes plain connections unread."""
        cause = "closed by the other side" if error is None else str(error) or type(error).__name__
        was_heard = self._received_at > self._made_at
        if was_heard or self._transport is None or self._transport.get_extra_info("ssl_object") is not None:
            return cause
        return f"{cause} before it sent anything (does the server speak TLS only? tls=True, or ROCKETMQ_TLS=true)"

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()

    def _take_stored(self, header: bytes) -> bool:
        try:
            answer = _decode_stored(header)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False  # something else, which is read more leniently or refused
        opaque = answer.opaque
        waiting = self._pending.get(opaque)
        if waiting is None or not waiting.takes_stored or answer.remark or not answer.flag & RESPONSE_FLAG:
            return False
        del self._pending[opaque]
        waiting.stored(answer.code, answer.extFields)
        return True

    def _damaged(self, error: RemoteError) -> None:
        _log.warning("%s sent what cannot be read, the connection is closed: %s", self.address, error)
        self.abort(ProtocolError(self.address, str(error)))

    def _scan_at(self, when: float) -> None:
        if self._scan_timer is not None:
            self._scan_timer.cancel()
        self._scan_timer = self._loop.call_at(when, self._scan)
        self._scans_at = when

    def _scan(self) -> None:
        """Fail callers whose deadline has passed, and schedule the check for the next deadline."""
        self._scan_timer = None
        self._scans_at = _NEVER
        now = self._loop.time()
        late = [opaque for opaque, waiting in self._pending.items() if waiting.deadline <= now]
        is_silent = False
        for opaque in late:
            waiting = self._pending.pop(opaque)
            is_silent = is_silent or self._is_silent_for(waiting)
            waiting.failed(RequestTimeout(request_code_name(waiting.code), self.address, waiting.timeout))
        if self._pending:
            self._scan_at(max(min(waiting.deadline for waiting in self._pending.values()), now + _LEAST_SCAN_GAP))
        if is_silent:
            # Not a byte since a request that should be answered by now: most likely the network is cut and nobody
            # told us. A new connection will show, as with the Java client's clientCloseSocketIfTimeout.
            self.abort(ConnectionLost(self.address, "silent beyond the timeout", advertised_by=self._advertised_by))

    def _is_silent_for(self, waiting: Waiting) -> bool:
        """Return whether nothing came while the caller waited.

        Also return True if a frame is incomplete and nothing came in the second half of the wait.
        """
        begun = waiting.deadline - waiting.timeout
        is_stuck = self._wire.buffered_bytes > 0 and self._received_at < begun + waiting.timeout / 2
        return is_stuck or self._received_at < begun
