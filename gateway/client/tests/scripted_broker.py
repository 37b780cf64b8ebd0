"""A broker and name server in one, on a port of its own, that does what a test tells it.

    async with ScriptedBroker() as broker:
        broker.on(RequestCode.SEND_MESSAGE_V2, lambda request: request.response(1, "no"))
        ... client with namesrv=broker.address ...
        assert broker.codes() == [...]

As it comes, it is one broker ``broker-a`` that knows every topic with four queues, takes heartbeats and messages,
and hands out offsets. Everything it was asked is in ``requests``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeAlias, TypeVar

from gateway.client.tests.jumping_time import PushedLoop
from wire.bodies.route import BrokerData, QueueData, TopicRouteData
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError
from wire.frame import build_frame
from wire.headers.declare import build_header, parse_header
from wire.headers.send import SendMessageResponse, ShortSendMessageRequest
from wire.message.message_id import build_offset_message_id, pack_host

Reply: TypeAlias = RemotingCommand | None
Script: TypeAlias = Callable[[RemotingCommand], Reply | Awaitable[Reply]]

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], *, timeout: float = 20.0) -> T:
    """Run a test's coroutine, which may push time on.

    A test that hangs fails, and a test after which asyncio complains, as of a failure that nobody looked at.
    """
    complaints: list[str] = []

    def complain(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        complaints.append(f"{context['message']}: {context.get('exception')!r}")

    async def limited() -> T:
        asyncio.get_running_loop().set_exception_handler(complain)
        async with asyncio.timeout(timeout):
            return await work

    with asyncio.Runner(loop_factory=PushedLoop) as runner:
        result = runner.run(limited())
    gc.collect()  # a failure is often held by a circle
    assert complaints == []
    return result


class ScriptedBroker:
    """A broker with scripted answers; ``on`` sets the answer to a code, and None means silence. See the module."""

    def __init__(self, *, name: str = "broker-a", queues: int = 4, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self.queues = queues
        self.requests: list[RemotingCommand] = []
        self.connections = 0
        """How many were ever made."""
        self.route_addresses: dict[str, str] = {}
        """Broker name → address in routes; itself when empty."""
        self.unknown_topics: set[str] = set()
        self._tls = tls
        self._scripts: dict[int, Script] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.HEART_BEAT: lambda request: request.response(ResponseCode.SUCCESS),
            RequestCode.UNREGISTER_CLIENT: lambda request: request.response(ResponseCode.SUCCESS),
            RequestCode.SEND_MESSAGE_V2: self._store,
            RequestCode.SEND_BATCH_MESSAGE: self._store,
        }
        self._offsets: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._closing: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._pushed: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._next_opaque = 1_000
        self._arrived = asyncio.Event()
        self._port = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen; after ``stop`` on the same port again."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=self._tls)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Break all connections and stop listening."""
        assert self._server is not None, "it was started"
        self._server.close()
        self.drop_connections()
        for writer in self._closing:  # what they still have to send would keep them open
            writer.transport.abort()
        self._closing.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(Exception):
            await self._server.wait_closed()

    def drop_connections(self) -> None:
        """Break all connections, as a crash does."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def on(self, code: int, script: Script) -> None:
        """Answer requests of this code with what ``script`` returns: a response, None, or a coroutine of them."""
        self._scripts[code] = script

    def answer(self, code: int, response_code: int, remark: str | None = None) -> None:
        """Answer requests of this code with a response code and nothing else."""
        self._scripts[code] = lambda request: request.response(response_code, remark)

    def codes(self) -> list[int]:
        """The codes of all requests so far, in order."""
        return [request.code for request in self.requests]

    def asked(self, code: int) -> list[RemotingCommand]:
        """All requests of one code so far."""
        return [request for request in self.requests if request.code == code]

    async def wait_for(self, code: int, count: int = 1) -> list[RemotingCommand]:
        """Wait until so many requests of a code came."""
        while len(self.asked(code)) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return self.asked(code)

    async def push(self, command: RemotingCommand) -> RemotingCommand:
        """Send a request to the newest connected client and wait for its response."""
        command.opaque = self._next_opaque
        self._next_opaque += 1
        future: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._pushed[command.opaque] = future
        self._writers[-1].write(build_frame(command))
        return await future

    def push_oneway(self, command: RemotingCommand) -> None:
        """Send a request to the newest connected client that wants no response."""
        self._writers[-1].write(build_frame(command))

    def send_garbage(self, data: bytes) -> None:
        """Write bytes that need not be a frame to every client."""
        for writer in self._writers:
            writer.write(data)

    # --- inside ---------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        wire = Connection()
        try:
            while data := await reader.read(65536):
                for command in wire.receive_data(data):
                    self._take(command, writer)
        except (ConnectionError, asyncio.CancelledError, RemoteError):
            pass
        finally:
            if writer in self._writers:
                self._writers.remove(writer)
            writer.close()
            if self._tls is None and writer.transport.get_write_buffer_size():
                self._closing.append(writer)

    def _take(self, command: RemotingCommand, writer: asyncio.StreamWriter) -> None:
        if command.is_response:
            future = self._pushed.pop(command.opaque, None)
            if future is not None and not future.done():
                future.set_result(command)
            return
        self.requests.append(command)
        self._arrived.set()
        script = self._scripts.get(command.code)
        if script is None:
            self._reply(command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not scripted"), command, writer)
            return
        reply = script(command)
        if inspect.isawaitable(reply):
            task = asyncio.ensure_future(self._reply_later(reply, command, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._reply(reply, command, writer)

    async def _reply_later(
        self, reply: Awaitable[Reply], command: RemotingCommand, writer: asyncio.StreamWriter
    ) -> None:
        self._reply(await reply, command, writer)

    def _reply(self, reply: Reply, command: RemotingCommand, writer: asyncio.StreamWriter) -> None:
        if reply is not None and not command.is_oneway:
            writer.write(build_frame(reply))

    def _route(self, request: RemotingCommand) -> RemotingCommand:
        if request.ext_fields["topic"] in self.unknown_topics:
            return request.response(ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
        addresses = self.route_addresses or {self.name: self.address}
        route = TopicRouteData(
            queue_datas=tuple(QueueData(name, self.queues, self.queues, 6) for name in addresses),
            broker_datas=tuple(BrokerData("cluster", name, {0: address}) for name, address in addresses.items()),
        )
        return request.response(ResponseCode.SUCCESS, body=route.build(standard=True))

    def _store(self, request: RemotingCommand) -> RemotingCommand:
        header = parse_header(ShortSendMessageRequest, request.ext_fields)
        key = header.topic, header.queue_id
        offset = self._offsets[key]
        self._offsets[key] += 1
        return request.response(ResponseCode.SUCCESS, ext_fields=stored_at(header.queue_id, offset))


def stored_at(queue_id: int, queue_offset: int) -> dict[str, str]:
    """The fields of an answer to a send."""
    msg_id = build_offset_message_id(pack_host("127.0.0.1", 10911), queue_offset)
    return build_header(SendMessageResponse(msg_id=msg_id, queue_id=queue_id, queue_offset=queue_offset))
