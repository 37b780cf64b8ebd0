"""One open connection: a channel gathers answers for its peer, and sends our own requests to the peer.

A channel never blocks and never raises because its peer is gone: bytes sent to a closed channel are dropped. Unsent
bytes push back in two steps: first the peer is no longer read, then the connection is dropped. Upstream: Netty's
``Channel`` with its write water marks.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IDelayedCall, IPushProducer, ITransport

from gateway.reactor.interface import TimeSource
from gateway.remoting.answers.answer_room import LARGE_ANSWER_BYTES, MAX_WAITING_REQUESTS, AnswerRoom
from gateway.remoting.answers.flush_group import FlushGroup
from gateway.remoting.answers.output import GONE, NO_OUTPUT, output_for, send_without_delay, shown_print
from gateway.remoting.pending import ChannelClosed, PendingCalls, TooManyCalls
from gateway.settings import Address, RemotingSettings
from gateway.telemetry.logs import EventLog
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.frame import build_frame
from wire.headers.declare import Header, build_header
from wire.message.message_id import pack_host

log = EventLog("remoting")

PAUSE_SHARE = 32
"""The divisor of ``gateway.unsentBytesLimit``: a peer with more unsent bytes is not read (1 MiB of 32)."""
MAX_PENDING_CALLS = 64
"""The number of calls to one peer that may wait for an answer (``serverAsyncSemaphoreValue``)."""
CLOSE_GRACE_S = 5.0
"""The seconds that a closed connection may still write; a peer that does not read must not keep it open."""
MAPPED_IPV4_PREFIX = "::ffff:"
UNKNOWN_HOST = ("0.0.0.0", 0)  # noqa: S104 (no listening: the peer of a transport that has none)


class Channel:
    """One connection, accepted or made by this process.

    ``remote`` and ``local`` are (address text, port). ``remote_host`` and ``local_host`` are the same addresses packed
    as in message records (8 or 20 bytes). ``id`` is unique within its server. Every read and write sets ``active``; the
    scan for idle channels clears ``active``.

    A plain class for speed: thousands of channels are open, and every answer touches one.
    """

    def __init__(
        self,
        transport: ITransport,
        channel_id: int,
        *,
        flush_group: FlushGroup,
        room: AnswerRoom,
        reactor: TimeSource,
        settings: RemotingSettings,
    ) -> None:
        self.id = channel_id
        self.sign: Callable[[RemotingCommand], None] | None = None
        """A function that signs our requests to the peer."""
        self.remote = host_of(transport.getPeer())
        self.local = host_of(transport.getHost())
        self.remote_host = pack_host(*self.remote)
        self.local_host = pack_host(*self.local)
        self.closed = False
        self.active = False
        self.idle_since_s = reactor.seconds()
        self._transport = transport
        self._flush_group = flush_group
        self._room = room
        self._reactor = reactor
        self._settings = settings
        self._pause_bytes = settings.unsent_bytes_limit // PAUSE_SHARE
        self._grace: IDelayedCall | None = None
        self._parts: list[bytes | memoryview] = []
        self._pending_bytes = 0
        self._marked = False
        self._reading_paused = False
        self._resting = False
        self._when_room: Callable[[], None] | None = None
        self._waiting: list[Callable[[], None]] = []
        self._takes_much = True  # assumed until it is known
        self._pending: PendingCalls | None = None
        self._close_callbacks: list[Callable[[Channel], None]] = []
        send_without_delay(transport)
        self._output = output_for(transport, self._drained)

    def __repr__(self) -> str:
        return f"<Channel {self.id} {self.remote_text}{' closed' if self.closed else ''}>"

    @property
    def remote_text(self) -> str:
        """The peer as ``host:port``, as in connection lists and log lines."""
        return str(Address(*self.remote))

    def comes_from(self, source: tuple[str, int]) -> None:
        """Take the address of the client for which a proxy made this connection; before the first request."""
        self.remote = source
        self.remote_host = pack_host(*source)

    @property
    def unsent_bytes(self) -> int:
        """The number of bytes given to this channel that the kernel has not taken yet."""
        return self._pending_bytes + self._output.unsent_bytes

    @property
    def untaken_bytes(self) -> int:
        """The bytes that the peer has not taken, including those in the kernel; see ``Output.untaken_bytes``."""
        return self._output.untaken_bytes()

    @property
    def is_full(self) -> bool:
        """True if the peer has to read before more answers are made for it."""
        return self._pending_bytes + self._output.unsent_bytes > self._pause_bytes

    @property
    def must_wait(self) -> bool:
        """True if a request of this peer with a large answer has to wait, see ``when_room``; for any thread.

        A peer whose last answer was small, like most consumers, does not wait for peers that ask for large answers.
        """
        room = self._room
        if room.is_short and (self._takes_much or room.is_crowded):
            return True
        return self._pending_bytes + self._output.unsent_bytes > self._pause_bytes

    def when_room(self, begin: Callable[[], None]) -> bool:
        """Call ``begin`` later: when this peer has read enough and the server has room for the answer.

        ``begin`` must check ``must_wait`` again. ``begin`` is not called if the channel closes first.

        :return: False if too many requests wait already; the caller then has to refuse the request.
        """
        if self.closed:
            return True
        if self.is_full and len(self._waiting) < MAX_WAITING_REQUESTS:
            self._waiting.append(begin)
            return True
        return not self.is_full and self._room.wait(self, begin)

    def makes(self, by_bytes: int) -> None:
        """Count the bytes of a long answer for this peer while it is made; a negative number when it is done."""
        self._room.makes(by_bytes)

    @property
    def peer_print(self) -> bytes | None:
        """The fingerprint of the peer's certificate, empty if it showed none; None if the peer does not speak TLS."""
        return shown_print(self._transport)

    def encrypt(self, transport: ITransport) -> None:
        """Read and write through a transport that encrypts; nothing may have been written before."""
        self._output.release()
        self._transport = transport
        self._output = output_for(transport, self._drained)

    def write_own(self, data: bytes) -> None:
        """Write bytes of the encryption itself, which no request waits for."""
        self._output.write_own(data)

    # Sending

    def send(self, command: RemotingCommand) -> None:
        """Gather one command; the channel writes all commands of one reactor turn at once.

        :raises LocalError: the command cannot be framed; no part of the command was gathered.
        """
        if not self.closed:
            frame = build_frame(command)
            if len(frame) > LARGE_ANSWER_BYTES:
                self._room.begun(len(frame))
            self.send_frame(frame)

    def send_frame(self, frame: bytes) -> None:
        """Gather a frame that is already built."""
        if self.closed:
            return
        self._parts.append(frame)
        self._pending_bytes += len(frame)
        if not self._marked:
            self._marked = True
            self._flush_group.mark(self)

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Gather a frame that is already built in parts; the parts are joined when they are written."""
        if self.closed:
            return
        size = sum(map(len, parts))
        self._parts.extend(parts)
        self._pending_bytes += size
        self._takes_much = size > LARGE_ANSWER_BYTES
        if self._takes_much:
            self._room.begun(size)
        if not self._marked:
            self._marked = True
            self._flush_group.mark(self)

    def notify(self, code: int, header: Header | None = None, body: bytes = b"") -> bool:
        """Send a one-way request; return False if the channel is closed or its peer does not keep up."""
        if self.closed or self.unsent_bytes > self._pause_bytes:
            return False
        self._ask(_request(code, self._pending_calls().next_opaque(), header, body, flag=ONEWAY_FLAG))
        return True

    async def call(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        timeout_s: float | None = None,
    ) -> RemotingCommand:
        """Call the peer and wait for an answer with any response code.

        :raises CallTimeout: no answer came within ``timeout_s`` seconds; None means ``gateway.callTimeoutMs``.
        :raises ChannelClosed: the channel is closed, or closed while the call waited.
        :raises TooManyCalls: the limit of waiting calls is reached, or the peer does not keep up.
        """
        if self.closed:
            raise ChannelClosed(f"the connection to {self.remote_text} is closed")
        if self.unsent_bytes > self._pause_bytes:
            raise TooManyCalls(f"{self.unsent_bytes} bytes already wait to be read by this peer")
        pending = self._pending_calls()
        opaque = pending.next_opaque()
        command = _request(code, opaque, header, body)
        answer = pending.expect(opaque, self._settings.call_timeout_ms / 1_000 if timeout_s is None else timeout_s)
        self._ask(command)
        return await answer

    def _ask(self, command: RemotingCommand) -> None:
        if self.sign is not None:
            self.sign(command)
        self.send(command)

    def answer_arrived(self, response: RemotingCommand) -> bool:
        """Hand a response to the call that waits for it; return False if no call waits for it."""
        return self._pending is not None and self._pending.answered(response)

    def pause_reading(self, when_room: Callable[[], None]) -> None:
        """Stop reading a full peer; call ``when_room`` once, after the peer has read most of its waiting bytes."""
        self._resting = False
        self._when_room = when_room
        self._pause()

    def let_others(self) -> None:
        """Stop reading this peer until ``read_on`` is called: the peer waits for its turn."""
        self._resting = True
        self._pause()

    def read_on(self) -> None:
        """Read a peer again after its turn, as soon as the peer keeps up."""
        self._resting = False
        self._read_on()

    def _pause(self) -> None:
        if not self._reading_paused and not self.closed:
            self._reading_paused = True
            cast(IPushProducer, self._transport).pauseProducing()

    # Life

    def call_later(self, delay_s: float, function: Callable[[], None]) -> IDelayedCall:
        """Call a function once after ``delay_s`` seconds, even if this channel is closed by then."""
        return self._reactor.callLater(delay_s, function)

    def on_close(self, callback: Callable[[Channel], None]) -> None:
        """Call back once when the channel closes, for any reason; call back now if the channel is already closed."""
        if self.closed:
            callback(self)
        else:
            self._close_callbacks.append(callback)

    def close(self, reason: str, *, is_logged: bool = False) -> None:
        """Close after all gathered bytes have been written; the ``on_close`` callbacks run now.

        :param is_logged: True if the caller has already logged that the channel closes.
        """
        if self.closed:
            return
        if not is_logged:
            log.info("channel closed", remote=self.remote_text, reason=reason)
        self._output.release()
        if self._parts:
            self._transport.write(b"".join(self._parts))
        self._grace = self._reactor.callLater(CLOSE_GRACE_S, self._abort_transport)
        if unsent_bytes := self.unsent_bytes:
            self._room.holds(self, unsent_bytes)  # counted until the transport is gone
            if self.closed:  # there was no room for these bytes
                return
        self._closed(reason)
        self._transport.loseConnection()

    def abort(self, reason: str) -> None:
        """Close without writing the gathered bytes; the ``on_close`` callbacks run now."""
        if self.closed:
            return
        log.warning("channel dropped", remote=self.remote_text, reason=reason, unsent_bytes=self.unsent_bytes)
        self._room.holds(self, 0)
        self._closed(reason)
        self._abort_transport()

    def drop(self, reason: str) -> None:
        """Close at once, even while a closed channel still writes its last bytes."""
        if self.closed:
            self._room.holds(self, 0)
            self._abort_transport()
        else:
            self.abort(reason)

    def connection_lost(self, reason: str) -> None:
        """Forget the transport, which is gone; called by the protocol.

        Transport, protocol, output and channel refer to each other. Such a circle, with its unsent bytes, would stay in
        memory until a full run of the garbage collector. So the channel keeps no part of it.
        """
        if self._grace is not None and self._grace.active():
            self._grace.cancel()
        self._grace = None
        self._room.holds(self, 0)
        self._closed(reason)
        self._output.end()
        self._output = NO_OUTPUT
        self._transport = GONE

    def _abort_transport(self) -> None:
        abort = getattr(self._transport, "abortConnection", self._transport.loseConnection)
        abort()

    def _closed(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self._parts.clear()
        self._pending_bytes = 0
        self._when_room = None
        self._waiting.clear()
        self._room.forget(self)
        if self._pending is not None:
            self._pending.fail_all(f"the connection to {self.remote_text} is gone: {reason}")
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            callback(self)

    # Writing

    def write_out(self) -> None:
        """Write the gathered bytes, or keep them while earlier bytes still wait; called by the flush group."""
        self._marked = False
        if self.closed or not self._parts:
            return
        self.active = True
        if not self._output.blocked:
            self._write_parts()
        if self._output.blocked:
            self._push_back()
        if self._waiting and not self.is_full:
            self._let_waiting_begin()

    def _write_parts(self) -> None:
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts = []
        self._pending_bytes = 0
        self._output.write(data if isinstance(data, bytes) else bytes(data))

    def _push_back(self) -> None:
        unsent_bytes = self.unsent_bytes
        if unsent_bytes > self._settings.unsent_bytes_limit:
            self.abort("the peer does not read its answers")
            return
        if unsent_bytes > self._pause_bytes:
            self._pause()
        self._room.holds(self, unsent_bytes)

    def _drained(self) -> None:
        if self.closed:
            return
        self.active = True
        if self._parts:
            self._write_parts()
        self._room.holds(self, self.unsent_bytes, True)
        if self.closed:  # there was no room for the unsent bytes
            return
        if self._waiting and not self.is_full:
            self._let_waiting_begin()
            if self.closed:
                return
        self._read_on()

    def _read_on(self) -> None:
        """Continue with a peer that was not read, if the peer keeps up and other peers have had their turn."""
        while not self.closed and self._reading_paused and not self._resting and self._has_read_most:
            when_room, self._when_room = self._when_room, None
            if when_room is None:
                self._reading_paused = False
                cast(IPushProducer, self._transport).resumeProducing()
            else:
                when_room()  # may fill the channel again, or close it

    @property
    def _has_read_most(self) -> bool:
        return self.unsent_bytes <= self._pause_bytes // 2

    def _let_waiting_begin(self) -> None:
        """Hand the requests that wait for this peer to the server's room, where they wait for other connections.

        If the room refuses a request, call its ``begin`` now: ``begin`` carries the request out or refuses it as busy.
        """
        waiting, self._waiting = self._waiting, []
        for begin in waiting:
            if not self.closed and not self._room.wait(self, begin):
                begin()

    def _pending_calls(self) -> PendingCalls:
        # Made on first use: of a thousand idle connections, most never get a request from the server.
        if self._pending is None:
            self._pending = PendingCalls(self._reactor, MAX_PENDING_CALLS)
        return self._pending


def _request(code: int, opaque: int, header: Header | None, body: bytes, flag: int = 0) -> RemotingCommand:
    ext_fields = {} if header is None else build_header(header)
    return RemotingCommand(code, opaque=opaque, flag=flag, ext_fields=ext_fields, body=body)


def host_of(address: object) -> tuple[str, int]:
    """Return address text and port, without an IPv6 zone; IPv4 on a dual-stack socket is returned as IPv4."""
    if not isinstance(address, IPv4Address | IPv6Address):
        return UNKNOWN_HOST
    host = address.host.partition("%")[0]
    if host.startswith(MAPPED_IPV4_PREFIX) and "." in host:
        host = host.removeprefix(MAPPED_IPV4_PREFIX)
    return host, address.port
