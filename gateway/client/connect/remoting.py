"""Connections by address: made when they are needed, one attempt at a time, and made again after a break.

Everyone who waited for a failed attempt gets its error. The next attempt waits; the wait doubles with each failure and
has jitter, so that a thousand clients do not reach a restarted broker at the same moment. A caller that cannot wait so
long gets the last failure at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias

from gateway.client.connect.connection import BrokerConnection, FutureWaiting
from gateway.client.connect.member import Answer
from gateway.client.connect.settings import ClientSettings
from gateway.client.connect.tls import tls_context
from gateway.client.errors import ClientClosed, ConnectError, RequestTimeout, RocketMQError
from wire.codes import SERVER_VERSION, LanguageCode, ResponseCode, request_code_name
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.errors import LocalError, WireError
from wire.frame import build_frame, parse_frame
from wire.headers.declare import Header, build_header

_log = logging.getLogger(__name__)

Sign: TypeAlias = Callable[[RemotingCommand], None]
"""Adds a signature to the fields of a command."""

MAX_ANSWERS_AT_ONCE: Final = 2000
"""The most requests of brokers that are answered at once; more are refused (upstream ``checkRequestHoldMax``)."""


class _Link:
    """The connection to one address, and the history of attempts."""

    __slots__ = ("attempt", "connection", "failures", "last_cause", "retry_at")

    def __init__(self) -> None:
        self.connection: BrokerConnection | None = None
        self.attempt: asyncio.Task[BrokerConnection] | None = None
        self.failures = 0
        self.retry_at = 0.0
        self.last_cause = ""


class Remoting:
    """Requests to any address, over the connections of one client.

    :param asked: answers requests of brokers; see ``Answer``.
    :param jitter: source of randomness for the waits between attempts.
    :param sign: signs every request; None without access keys.
    """

    def __init__(
        self, settings: ClientSettings, *, asked: Answer, jitter: random.Random, sign: Sign | None = None
    ) -> None:
        self._settings = settings
        self._asked = asked
        self._jitter = jitter
        self._links: dict[str, _Link] = {}
        self._retired: set[BrokerConnection] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._tls: ssl.SSLContext | None = tls_context(settings.tls)
        self._is_closed = False
        self.sign = sign
        self.advertised: dict[str, str] = {}
        """The name of the broker that advertised an address, by address, for the text of errors."""
        self.connected: Callable[[str], None] = lambda _address: None
        """A function that is called with the address of each new connection."""
        self.lost: Callable[[str], None] = lambda _address: None
        """A function that is called with an address when the connection in use to that address breaks."""

    async def request(
        self, address: str, code: int, header: Header | None = None, body: bytes = b"", *, timeout: float
    ) -> RemotingCommand:
        """Send a request and wait for the answer, whatever its code.

        :param address: ``host:port``.
        :param timeout: seconds for connecting and waiting, in sum.
        :raises ConnectError: there is no connection, or the connection broke while waiting (``ConnectionLost``).
        :raises RequestTimeout: there was no answer within the timeout.
        """
        command = request_command(code, header, body)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        answer = await self._request_once(address, command, deadline - loop.time())
        if answer.code == ResponseCode.GO_AWAY:
            # The broker is shutting down and wants us to take another connection; Java repeats once as well.
            self.retire(address)
            answer = await self._request_once(address, command, max(deadline - loop.time(), 0.001))
        return answer

    def call(
        self, address: str, code: int, header: Header | None = None, *, timeout: float
    ) -> asyncio.Future[RemotingCommand]:
        """Send like ``request``, but return a future at once; if the connection is open, no task is needed."""
        loop = asyncio.get_running_loop()
        connection = self.open_connection(address)
        if connection is None:
            return asyncio.ensure_future(self.request(address, code, header, timeout=timeout))
        future: asyncio.Future[RemotingCommand] = loop.create_future()
        command = request_command(code, header)
        opaque = connection.take_opaque()
        connection.start_call(opaque, self.frame(command, opaque), FutureWaiting(code, timeout, future))
        return future

    async def oneway(self, address: str, code: int, header: Header | None = None, body: bytes = b"") -> None:
        """Send a request that gets no answer; return when the system has the bytes, or will have them soon.

        :raises ConnectError: there is no connection.
        """
        command = request_command(code, header, body)
        command.flag = ONEWAY_FLAG
        connection = await self.connect(address, self._settings.connect_timeout)
        connection.write(self.frame(command, connection.take_opaque()))
        if connection.is_paused:
            await connection.drained()

    def frame(self, command: RemotingCommand, opaque: int) -> bytes:
        """Return the bytes of a request: numbered, signed, framed.

        :raises RocketMQError: the request does not fit into a frame.
        """
        command.opaque = opaque
        if self.sign is not None:
            self.sign(command)
        try:
            return build_frame(command)
        except LocalError as error:
            raise RocketMQError(str(error)) from error

    def signed_frame(self, frame: bytes) -> bytes:
        """Return the frame of an unsigned request, with a signature."""
        command = parse_frame(frame, 4, len(frame))
        return self.frame(command, command.opaque)

    def open_connection(self, address: str) -> BrokerConnection | None:
        """Return the connection to an address if there is an open one, otherwise None; for hot paths."""
        link = self._links.get(address)
        if link is None:
            return None
        connection = link.connection
        return connection if connection is not None and connection.is_open else None

    def plain_target(self, address: str) -> tuple[str, int] | None:
        """Return host and port of an address; None with TLS or without an open connection. For any thread."""
        if self._tls is not None or self.open_connection(address) is None:
            return None
        host, _, port = self._settings.address_map.get(address, address).rpartition(":")
        return host.strip("[]"), int(port)

    async def connect(self, address: str, timeout: float) -> BrokerConnection:
        """Return the connection to an address; make the connection if there is none.

        :param timeout: the most seconds to wait for the connection.
        :raises ConnectError: there is no connection within this time.
        """
        connection = self.open_connection(address)
        if connection is not None:
            return connection
        if self._is_closed:
            raise ClientClosed("client", "is closed")
        link = self._links.setdefault(address, _Link())
        if link.attempt is None:
            pause = link.retry_at - asyncio.get_running_loop().time()
            if pause >= timeout:
                raise self._connect_error(address, f"{link.last_cause} (next attempt in {pause:.1f} s)")
            link.attempt = asyncio.create_task(self._attempt(address, link, pause), name=f"connect to {address}")
            link.attempt.add_done_callback(_retrieve)
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(link.attempt)
        except TimeoutError as error:
            cause = link.last_cause or f"no answer within {timeout:g} s"
            raise self._connect_error(address, cause) from error

    def retire(self, address: str) -> None:
        """Use a new connection from now on; the old connection closes after its last answer."""
        link = self._links.get(address)
        if link is not None and link.connection is not None:
            connection, link.connection = link.connection, None
            self._retired.add(connection)
            connection.retire()

    async def close(self) -> None:
        """Close every connection and wait until all are closed; waiting callers get ``ClientClosed``."""
        self._is_closed = True
        for task in [*self._answering, *(link.attempt for link in self._links.values() if link.attempt is not None)]:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RocketMQError):
                await task
        open_ones = [link.connection for link in self._links.values() if link.connection is not None]
        open_ones.extend(self._retired)
        ended = ClientClosed("client", "was closed before the answer came")
        ended.outcome_unknown = True
        for connection in open_ones:
            connection.close(ended)
        if open_ones:
            _, unfinished = await asyncio.wait([connection.closed for connection in open_ones], timeout=1.0)
            if unfinished:
                for connection in open_ones:
                    connection.abort(ClientClosed("client", "is closed"))
                await asyncio.wait(unfinished, timeout=1.0)
        self._links.clear()

    # --- inside ---------------------------------------------------------------------------------------------

    async def _request_once(self, address: str, command: RemotingCommand, timeout: float) -> RemotingCommand:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        connection = self.open_connection(address) or await self.connect(
            address, min(timeout, self._settings.connect_timeout)
        )
        left = deadline - loop.time()
        if left <= 0:
            raise RequestTimeout(request_code_name(command.code), address, timeout, outcome_unknown=False)
        future: asyncio.Future[RemotingCommand] = loop.create_future()
        opaque = connection.take_opaque()
        connection.start_call(opaque, self.frame(command, opaque), FutureWaiting(command.code, left, future))
        return await future

    async def _attempt(self, address: str, link: _Link, pause: float) -> BrokerConnection:
        try:
            if pause > 0:
                await asyncio.sleep(pause)
            connection = await self._open(address)
        except (OSError, TimeoutError, ValueError, OverflowError) as error:  # the last two: an address that is none
            link.failures += 1
            link.last_cause = _cause(error, self._settings.connect_timeout)
            if self._tls is not None and isinstance(error, ConnectionResetError):
                link.last_cause = "the connection was reset while TLS began (does the server speak TLS here?)"
            link.retry_at = asyncio.get_running_loop().time() + self._pause(link.failures)
            raise self._connect_error(address, link.last_cause) from error
        else:
            link.failures = 0
            link.last_cause = ""
            link.connection = connection
            self.connected(address)
            return connection
        finally:
            link.attempt = None

    async def _open(self, address: str) -> BrokerConnection:
        target = self._settings.address_map.get(address, address)
        host, _, port = target.rpartition(":")
        settings = self._settings
        async with asyncio.timeout(settings.connect_timeout):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: BrokerConnection(
                    address,
                    asked=self._start_answering,
                    lost=self._connection_lost,
                    max_frame_bytes=settings.max_frame_bytes,
                    max_in_flight=settings.max_in_flight_requests,
                    advertised_by=self.advertised.get(address),
                ),
                host.strip("[]"),
                int(port),
                ssl=self._tls,
                server_hostname=host.strip("[]") if self._tls is not None else None,
            )
        return connection

    def _pause(self, failures: int) -> float:
        """Return the seconds before the next attempt: half of the step is fixed, the other half is random."""
        least = self._settings.reconnect_backoff_min
        step: float = min(self._settings.reconnect_backoff_max, least * 2 ** min(failures - 1, 16))
        return step / 2 + self._jitter.random() * step / 2

    def _connect_error(self, address: str, cause: str) -> ConnectError:
        return ConnectError(address, cause, advertised_by=self.advertised.get(address))

    def _connection_lost(self, connection: BrokerConnection) -> None:
        self._retired.discard(connection)
        link = self._links.get(connection.address)
        if link is not None and link.connection is connection:
            link.connection = None
            if not self._is_closed:
                self.lost(connection.address)

    def _start_answering(self, connection: BrokerConnection, command: RemotingCommand) -> None:
        if len(self._answering) >= MAX_ANSWERS_AT_ONCE:
            _log.warning("%s asks more than can be answered: %r is refused", connection.address, command)
            self._write_answer(connection, command, command.response(ResponseCode.SYSTEM_BUSY, "too many requests"))
            return
        task = asyncio.create_task(self._answer(connection, command), name=f"answer {command.code}")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, connection: BrokerConnection, command: RemotingCommand) -> None:
        try:
            answer = await self._asked(command, connection.address)
        except (RocketMQError, WireError) as error:
            name = request_code_name(command.code)
            _log.warning("request %s of %s is refused: %s", name, connection.address, error)
            answer = command.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - whatever an application's callback raises is answered, not fatal
            _log.exception("request %s of %s failed", request_code_name(command.code), connection.address)
            answer = command.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if answer is not None:
            self._write_answer(connection, command, answer)

    def _write_answer(self, connection: BrokerConnection, command: RemotingCommand, answer: RemotingCommand) -> None:
        if not command.is_oneway and connection.is_open:
            answer.language = LanguageCode.PYTHON
            connection.write(build_frame(answer))


def request_command(code: int, header: Header | None, body: bytes = b"") -> RemotingCommand:
    """Return a request of this client that has no number yet."""
    return RemotingCommand(
        code,
        language=LanguageCode.PYTHON,
        version=SERVER_VERSION,
        ext_fields=build_header(header) if header is not None else None,
        body=body,
    )


def _cause(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"no answer within {timeout:g} s"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error} (does the server speak TLS here, and is its certificate trusted?)"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # asyncio puts the address in its place
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _retrieve(task: asyncio.Task[BrokerConnection]) -> None:
    """Read the result, so that asyncio does not warn of a failure for which no caller waits any more."""
    if not task.cancelled():
        task.exception()
