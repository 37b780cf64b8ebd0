"""Sends of a thread that waits for the answer: over a connection of its own, without the loop and the loop's thread.

A single message cannot share a write with other messages, and waking the loop and being woken by it costs more than
the rest of a send. So the calling thread writes the frame and reads the answer itself, over one of a few connections
that are kept for such sends. This way is a short cut, not a second client. Routes, and the first connection to a
broker, come from the loop. Every result other than a plain "stored" (a refusal, a broken connection, no answer) goes
to the ``Sender`` on the loop, which tries again or fails as usual.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.client.blocking.waiting import Condition, ThreadFuture
from gateway.client.errors import ClientClosed, ConnectionLost, ProtocolError, RequestTimeout, RocketMQError
from gateway.client.message import Message
from gateway.client.results import SendResult
from wire.codes import ResponseCode, request_code_name
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError

if TYPE_CHECKING:
    from gateway.client.send.sender import Sender
    from gateway.client.send.sending import Sending, SendOptions

_log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 4
"""The most connections for each broker. Further threads send over the loop, which joins their messages."""
_READ_BYTES: Final = 65_536
_FRESH_S: Final = 0.1
"""The seconds after its last use for which a connection is used again without a check."""
_IDLE_S: Final = 30.0
"""The seconds without use after which a connection is not used again.

Servers close connections that are silent for two minutes.
"""
_TIMEOUT_SLACK_S: Final = 0.01
"""The difference in seconds below which a socket's timeout is not changed, since a change is a system call."""


class DirectConnection:
    """A socket that one thread at a time uses.

    :param address: the address in the route, for errors.
    :param where: the host and port to connect to.
    :param timeout: seconds for connecting.
    :raises OSError: the connection cannot be made.
    """

    __slots__ = ("_next_opaque", "_socket", "_timeout", "_wire", "address", "used_at")

    def __init__(self, address: str, where: tuple[str, int], timeout: float, max_frame_bytes: int) -> None:
        self.address = address
        self.used_at = time.monotonic()
        self._socket = socket.create_connection(where, timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout = timeout
        self._wire = Connection(max_frame_bytes)
        self._next_opaque = 0

    def take_opaque(self) -> int:
        """Return the number of the next request."""
        self._next_opaque = opaque = (self._next_opaque + 1) & 0x7FFF_FFFF
        return opaque

    def is_usable(self) -> bool:
        """Return whether the connection is still open, as far as this side can know."""
        idle_s = time.monotonic() - self.used_at
        if self._wire.failure is not None or idle_s > _IDLE_S:
            return False
        if idle_s < _FRESH_S:
            return True
        self._set_timeout(0.0)
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # closed, or it says something unasked: a new one is simpler

    def call(self, frame: bytes, opaque: int, ends_at: float) -> RemotingCommand:
        """Send a request and wait for its answer.

        :param ends_at: the end of the wait on the monotonic clock.
        :raises TimeoutError: no answer came before ``ends_at``.
        :raises OSError: the connection broke; ``RemoteError``: the received bytes cannot be read.
        """
        self._wait_until(ends_at)
        self._socket.sendall(frame)
        while True:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError("closed by the other side")
            for command in self._wire.receive_data(data):
                if command.opaque == opaque and command.is_response:
                    self.used_at = time.monotonic()
                    return command
            if self._wire.failure is not None:
                raise self._wire.failure
            self._wait_until(ends_at)

    def break_off(self) -> None:
        """Shut the connection down while another thread waits in ``call``, which then fails."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _wait_until(self, ends_at: float) -> None:
        left = ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if abs(left - self._timeout) > _TIMEOUT_SLACK_S:
            self._set_timeout(left)

    def _set_timeout(self, timeout: float) -> None:
        self._timeout = timeout
        self._socket.settimeout(timeout)


class _Turn:
    """A send in progress: its connection to a broker, and whether the connection can be used again."""

    __slots__ = ("address", "connection", "keeps_connection")

    def __init__(self, address: str) -> None:
        self.address = address
        self.connection: DirectConnection | None = None
        self.keeps_connection = False


class DirectSends:
    """Sends for the threads of one producer.

    :param call_soon: calls a function on the sender's loop; raises if the loop is gone.
    """

    def __init__(self, sender: Sender, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._sender = sender
        self._call_soon = call_soon
        self._free: dict[str, list[DirectConnection]] = {}
        self._all: set[DirectConnection] = set()
        self._busy: set[_Turn] = set()
        self._lock = Condition()  # reentrant: a signal's handler may close the producer while its thread sends
        self._is_closed = False

    def send(
        self, message: Message, options: SendOptions, packed: tuple[bytes, int] | None
    ) -> SendResult | concurrent.futures.Future[SendResult] | None:
        """Send a message.

        :param packed: the return value of ``compressed_body`` for this message, if the caller has called it.
        :returns: the result; a future, if the message is left to the sender; None, if a direct send is not possible,
            and nothing has happened.
        :raises RocketMQError: the message cannot be sent as it is.
        """
        sending = self._sender.prepare_aside(message, options, packed)
        if sending is None:
            return None
        assert sending.target is not None, "it was prepared with one"
        turn = _Turn(sending.target.address)
        try:
            try:
                answer = self._answer(turn, sending)
            finally:
                self._end(turn)
        except RocketMQError as error:
            failure = error
            return self._leave(sending, lambda: sending.failed(failure))
        finally:
            self._end(turn)  # a signal may have interrupted the first try
        if answer is None:
            return self._leave(sending, lambda: self._sender.begin_at_target(sending))
        result = sending.plain_result(answer)
        return self._leave(sending, lambda: sending.answered(answer)) if result is None else result

    def _answer(self, turn: _Turn, sending: Sending) -> RemotingCommand | None:
        """Return the answer to a message; None if no connection is available, and nothing has happened.

        :raises RocketMQError: no answer came, or the answer cannot be read.
        """
        connection = self._take(turn, sending)
        if connection is None:
            return None
        sending.tries = 1
        try:
            opaque = connection.take_opaque()
            answer = connection.call(self._sender.frame_at_target(sending, opaque), opaque, sending.ends_at)
        except TimeoutError as error:
            what = request_code_name(sending.code)
            raise RequestTimeout(what, connection.address, sending.timeout) from error
        except OSError as error:
            raise ConnectionLost(connection.address, error.strerror or str(error)) from error
        except RemoteError as error:
            _log.warning("%s sent what cannot be read, the connection is closed: %s", connection.address, error)
            raise ProtocolError(connection.address, str(error)) from error
        turn.keeps_connection = answer.code != ResponseCode.GO_AWAY
        return answer

    def close(self, timeout: float) -> None:
        """Wait for the expected answers, at most ``timeout`` seconds, then close all connections."""
        with self._lock:
            self._is_closed = True
            self._lock.wait_for(lambda: not self._busy, timeout)
            self._free.clear()
            left, self._all = self._all, set()
        for connection in left:
            connection.break_off()
            connection.close()

    def _leave(self, sending: Sending, then: Callable[[], None]) -> concurrent.futures.Future[SendResult]:
        """Let the sender decide the fate of a message, and return a future of its result."""
        future: ThreadFuture[SendResult] = ThreadFuture()
        future.set_running_or_notify_cancel()
        sending.future = future
        try:
            self._call_soon(lambda: self._sender.take_over(sending, then))
        except (RuntimeError, ClientClosed):
            error = ClientClosed("producer", "was closed before the message was stored")
            error.outcome_unknown = sending.tries > 0
            future.set_exception(error)
        return future

    def _take(self, turn: _Turn, sending: Sending) -> DirectConnection | None:
        """Return the connection of a turn, which is busy from now on; None if no connection is available."""
        address = turn.address
        with self._lock:
            free = self._free.setdefault(address, [])
            while free and not self._is_closed:
                connection = free.pop()
                if connection.is_usable():
                    turn.connection = connection
                    self._busy.add(turn)
                    return connection
                self._all.discard(connection)
                connection.close()
            if self._is_closed or sum(other.address == address for other in self._busy) >= MOST_CONNECTIONS:
                return None
            self._busy.add(turn)
        turn.connection = self._connected(address, sending.ends_at)
        if turn.connection is not None:
            with self._lock:
                self._all.add(turn.connection)
        return turn.connection

    def _connected(self, address: str, ends_at: float) -> DirectConnection | None:
        where = self._sender.where_aside(address)
        settings = self._sender.settings
        # Half of the time is left for the sender, which tries as well and tells what is wrong.
        timeout = min(settings.connect_timeout, (ends_at - time.monotonic()) / 2)
        if where is None or timeout <= 0:
            return None
        try:
            return DirectConnection(address, where, timeout, settings.max_frame_bytes)
        except OSError:
            return None

    def _end(self, turn: _Turn) -> None:
        """Free the connection of a turn for other turns, or close the connection.

        Does nothing if the turn has ended.
        """
        with self._lock:
            if turn not in self._busy:
                return
            connection, turn.connection = turn.connection, None
            if connection is not None:
                if turn.keeps_connection and not self._is_closed:
                    self._free[turn.address].append(connection)
                else:
                    self._all.discard(connection)
                    connection.close()
            self._busy.discard(turn)
            if self._is_closed:
                self._lock.notify_all()
