"""A plain blocking connection to a broker or a name server: requests out, answers in.

Spark's workers are processes that live from task to task and have no event loop, so a plain socket is enough. Several
requests may be on their way at once: ``start`` sends a request, ``finish`` waits for its answer.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from gateway.client.errors import ConnectError, ConnectionLost, ProtocolError, RequestTimeout
from gateway.client.message_queue import MessageQueue
from wire.codes import SERVER_VERSION, LanguageCode, RequestCode, request_code_name
from wire.command import RemotingCommand
from wire.errors import FrameError, HeaderError
from wire.frame import FRAME_HEAD, MAX_FRAME_BYTES, MAX_HEADER_BYTES, build_frame, parse_marked_frame
from wire.headers.declare import Header, build_header
from wire.headers.pull import BULK_READER, PullMessageRequest
from wire.message.flags import PullFlag
from wire.message.tags import MATCH_ALL

MAX_WAITING: Final = 256
"""The most requests of ``call_all`` on their way at once, so that neither side holds much for one connection."""
_SLOW_ANSWER: Final = 9
"""The number of further time-outs that an answer may take once it has begun to arrive: 16 MiB over a slow network."""
_READ_BYTES: Final = 256 * 1024
_LEAST_FRAME_BYTES: Final = 4


def request(code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
    """Return a request that has no number yet."""
    fields = build_header(header) if header is not None else None
    return RemotingCommand(code, language=LanguageCode.PYTHON, version=SERVER_VERSION, ext_fields=fields, body=body)


def pull_request(
    group: str,
    queue: MessageQueue,
    offset: int,
    count: int,
    *,
    expression: str = MATCH_ALL,
    expression_type: str = "TAG",
) -> RemotingCommand:
    """Return a request for at most ``count`` messages from ``offset`` on.

    The answer comes at once, even without messages. A gateway gives as many messages as requested, other brokers as
    many as their settings allow.
    """
    header = PullMessageRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=PullFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=expression,
        sub_version=0,
        expression_type=expression_type,
        request_source=BULK_READER,
    )
    return request(RequestCode.PULL_MESSAGE, header)


class _Incoming(io.RawIOBase):
    """The bytes that a socket receives, with a time limit for each piece and one for a whole answer.

    Without the second limit, a server could send single bytes for ever.
    """

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self.wait_s = 0.0
        self.ends_at = 0.0

    def readable(self) -> bool:
        """Implement ``RawIOBase``."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Implement ``RawIOBase``.

        :raises TimeoutError: nothing arrived in time, or the whole answer took too long.
        """
        if time.monotonic() > self.ends_at:
            raise TimeoutError
        self._socket.settimeout(self.wait_s)
        return self._socket.recv_into(buffer)


class BlockingConnection:
    """One connection, for one thread only. After an error the connection is closed and must be thrown away.

    :param opened: the connected socket.
    :param address: ``host:port`` for error messages.
    :param sign: puts a signature into a command, for servers that ask for one.
    """

    def __init__(
        self, opened: socket.socket, address: str, *, sign: Callable[[RemotingCommand], None] | None = None
    ) -> None:
        self.address = address
        self.used_at = time.monotonic()
        self._socket = opened
        self._incoming = _Incoming(opened)
        self._file = io.BufferedReader(self._incoming, _READ_BYTES)
        self._sign = sign
        self._next_opaque = 0
        self._waiting: dict[int, int] = {}
        self._early: dict[int, RemotingCommand] = {}
        self.is_open = True

    def call(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Send a request and return its answer.

        :raises ConnectionLost: the connection broke.
        :raises RequestTimeout: no answer arrived in time.
        :raises ProtocolError: the received bytes are not RocketMQ's protocol.
        """
        return self.finish(self.start(command, timeout_s), timeout_s)

    def call_all(self, commands: Sequence[RemotingCommand], timeout_s: float) -> list[RemotingCommand]:
        """Send independent requests and return their answers in the same order.

        :param timeout_s: seconds for each answer.
        """
        answers: list[RemotingCommand] = []
        opaques: list[int] = []
        for command in commands:
            opaques.append(self.start(command, timeout_s))
            if len(opaques) - len(answers) >= MAX_WAITING:
                answers.append(self.finish(opaques[len(answers)], timeout_s))
        answers += [self.finish(opaque, timeout_s) for opaque in opaques[len(answers) :]]
        return answers

    def start(self, command: RemotingCommand, timeout_s: float) -> int:
        """Send a request, and return the number that ``finish`` takes."""
        self._refuse_closed()
        self._next_opaque += 1
        command.opaque = self._next_opaque
        if self._sign is not None:
            self._sign(command)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(build_frame(command))
        except TimeoutError as error:
            raise self._closing(RequestTimeout(request_code_name(command.code), self.address, timeout_s)) from error
        except OSError as error:
            raise self._closing(ConnectionLost(self.address, _cause(error))) from error
        self._waiting[command.opaque] = command.code
        return command.opaque

    def finish(self, opaque: int, timeout_s: float) -> RemotingCommand:
        """Wait for the answer to a request, and keep earlier answers to other requests."""
        code = self._waiting[opaque]
        deadline = time.monotonic() + timeout_s
        while (answer := self._early.pop(opaque, None)) is None:
            self._refuse_closed()
            try:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError  # answers to others came meanwhile
                self._incoming.wait_s, self._incoming.ends_at = left_s, deadline + timeout_s * _SLOW_ANSWER
                command = self._read()
            except TimeoutError as error:
                raise self._closing(RequestTimeout(request_code_name(code), self.address, timeout_s)) from error
            except OSError as error:
                raise self._closing(ConnectionLost(self.address, _cause(error))) from error
            except (FrameError, HeaderError) as error:
                raise self._closing(ProtocolError(self.address, str(error))) from error
            if command.is_response and command.opaque in self._waiting:
                self._early[command.opaque] = command
        del self._waiting[opaque]
        self.used_at = time.monotonic()
        return answer

    def abandon(self, opaque: int) -> None:
        """Stop waiting for an answer, which is dropped when it arrives."""
        self._waiting.pop(opaque, None)
        self._early.pop(opaque, None)

    def close(self) -> None:
        """Close the socket."""
        self.is_open = False
        self._file.close()
        self._socket.close()

    def _refuse_closed(self) -> None:
        if not self.is_open:
            raise ConnectionLost(self.address, "it was closed after an error")

    def _read(self) -> RemotingCommand:
        head = self._exactly(FRAME_HEAD.size)
        frame_bytes, mark = FRAME_HEAD.unpack_from(head)
        if not _LEAST_FRAME_BYTES <= frame_bytes <= MAX_FRAME_BYTES:
            raise FrameError(f"frame length {frame_bytes} is not in {_LEAST_FRAME_BYTES} … {MAX_FRAME_BYTES}")
        left = frame_bytes - _LEAST_FRAME_BYTES
        header = self._exactly(min(mark & MAX_HEADER_BYTES, left))
        command = parse_marked_frame(header, mark, 0, len(header), {})
        command.body = self._exactly(left - len(header))  # by itself, since large ones are not to be copied twice
        return command

    def _exactly(self, count: int) -> bytes:
        data: bytes = self._file.read(count)
        if len(data) < count:
            raise ConnectionResetError("the other side closed it")
        return data

    def _closing(self, error: Exception) -> Exception:
        self.close()
        return error


def open_connection(
    address: str,
    *,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
    sign: Callable[[RemotingCommand], None] | None = None,
    advertised_by: str | None = None,
) -> BlockingConnection:
    """Connect to a server.

    :param address: ``host:port``; an IPv6 address in brackets.
    :param advertised_by: the broker whose route named this address, for the error.
    :raises ConnectError: there is no connection within the time.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        opened = socket.create_connection((host, int(port)), timeout_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            opened = tls.wrap_socket(opened, server_hostname=host)
    except (OSError, ValueError, OverflowError) as error:  # the last two: an address that is none
        raise ConnectError(address, _cause(error), advertised_by=advertised_by) from error
    return BlockingConnection(opened, address, sign=sign)


def _cause(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
