"""Replies of request-reply calls: the broker passes them on to the client that waits, and stores them.

Upstream: ``ReplyMessageProcessor``. The broker checks a reply like any other send. The replier learns whether the
waiting client took the reply. Replies are stored (storeReplyMessageEnable) only for those who look at the reply topic;
the answer's code does not depend on the store.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred, succeed

from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.requests.sending.send import SendMessage
from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.metadata.names import REPLY_TOPIC_ENDING
from gateway.remoting.channel import Channel
from gateway.remoting.declared import PUB, needs, on_topic
from gateway.remoting.dispatch import Request
from gateway.remoting.pending import CallFailed
from gateway.remoting.requests import answers
from gateway.shares import Shares
from gateway.store.put_result import PutResult
from gateway.telemetry.logs import EventLog
from wire.codes import RequestCode, ResponseCode
from wire.headers.send import ReplyMessageRequest, SendMessageRequest, ShortSendMessageRequest
from wire.message.message_id import build_offset_message_id, unpack_host
from wire.message.properties import PropertyName, append_properties
from wire.message.record import OutgoingMessage

PUSH_TIMEOUT_S = 10.0
"""Seconds that a client may take to confirm that it has the reply, as upstream."""
PUSHES_AT_ONCE = 32
"""The number of replies on their way to one client; further replies wait.

Fewer than the calls that a channel allows.
"""
MAX_WAITING_PUSHES = 2_000
"""The number of replies that may wait for one client; one more is refused."""
MAX_CLIENT_WAITING_BYTES = 32 << 20
"""Bytes of memory for the replies that wait for one client or are on their way to that client."""
MAX_WAITING_BYTES = 256 << 20
"""Bytes of memory for the replies that wait for all clients or are on their way."""
REPLY_BYTES = 1_024
"""Bytes of memory that are counted for each reply besides its body and its properties."""
NOT_STORED = "0"
"""The message id of a reply that was passed on without being stored."""

log = EventLog("reply")


class _Line:
    """The replies for one client: some are on their way, the others wait in the order in which they came.

    A ``DeferredSemaphore`` would not do: it recurses once for each reply that fails at once, and all replies fail at
    once if their client is gone.
    """

    __slots__ = ("_is_passing", "_running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Deferred[None]] = deque()
        self._running = 0
        self._is_passing = False

    def enter(self) -> Deferred[None]:
        """Return a Deferred that fires when the turn of this reply comes; the reply must call ``leave`` afterwards."""
        if self._running < PUSHES_AT_ONCE and not self.waiting:
            self._running += 1
            return succeed(None)
        turn: Deferred[None] = Deferred()
        self.waiting.append(turn)
        return turn

    def leave(self) -> None:
        """End the turn of a reply, and let the next replies in."""
        self._running -= 1
        if self._is_passing:
            return
        self._is_passing = True
        while self.waiting and self._running < PUSHES_AT_ONCE:
            self._running += 1
            self.waiting.popleft().callback(None)
        self._is_passing = False


class ReplyMessage(DeskRequests):
    """Answers SEND_REPLY_MESSAGE (324) and SEND_REPLY_MESSAGE_V2 (325)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._send = SendMessage(desk)
        self._bytes: Shares[Channel] = Shares(MAX_WAITING_BYTES, MAX_CLIENT_WAITING_BYTES)
        self._lines: dict[Channel, _Line] = {}

    @answers(RequestCode.SEND_REPLY_MESSAGE, SendMessageRequest, needs(on_topic(PUB, except_ending=REPLY_TOPIC_ENDING)))
    @answers(
        RequestCode.SEND_REPLY_MESSAGE_V2,
        ShortSendMessageRequest,
        needs(on_topic(PUB, "b", except_ending=REPLY_TOPIC_ENDING)),
    )
    async def reply(self, request: Request, header: SendMessageRequest) -> None:
        """Pass a reply on, store it, and answer the replier with both outcomes."""
        command, ext = request.command, self._send.answer_ext()
        try:
            message = self._send.as_it_came(request, header)
        except RequestRefused as refused:
            request.send(command.response(refused.code, refused.remark, ext))
            return
        fault = await self._pushed(message, header)
        if fault is None:
            ext.update(msgId=NOT_STORED, queueId=str(message.queue_id), queueOffset="0")
        if self._desk.settings.store_reply_message_enable:
            result = await self._stored(message)
            if result.status.is_stored:
                ext["msgId"] = build_offset_message_id(message.store_host, result.commit_log_offset)
                ext["queueId"] = str(message.queue_id)
                ext["queueOffset"] = str(result.queue_offset)
            else:
                log.warning("reply not stored", topic=message.topic, status=result.status.name)
        code = ResponseCode.SUCCESS if fault is None else ResponseCode.SYSTEM_ERROR
        request.send(command.response(code, fault, ext))

    async def _pushed(self, message: OutgoingMessage, header: SendMessageRequest) -> str | None:
        """Hand the reply to the client that waits for it; return the reason if that failed, otherwise None."""
        client_id = message.property_map.get(PropertyName.REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{PropertyName.REPLY_TO_CLIENT}] is null"
        client = self._desk.heartbeats.clients.producer_of(client_id)
        if client is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        channel = client.channel
        line = self._line(channel)
        if len(line.waiting) >= MAX_WAITING_PUSHES:
            return f"push reply message fail, {MAX_WAITING_PUSHES} replies already wait for <{client_id}>."
        size = REPLY_BYTES + len(message.body) + len(message.properties)
        if not self._bytes.take(channel, size):
            return "push reply message fail, " + self._bytes.refusal(channel, f"bytes of replies for <{client_id}>")
        try:
            return await self._push_in_turn(client, line, message, header)
        finally:
            self._bytes.give_back(channel, size)

    async def _push_in_turn(
        self, client: ConnectedClient, line: _Line, message: OutgoingMessage, header: SendMessageRequest
    ) -> str | None:
        client_id, code = message.property_map[PropertyName.REPLY_TO_CLIENT], RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        await line.enter()
        try:
            if not client.may_get(code):
                return f"push reply message fail, the account of <{client_id}> is not let in any more."
            answer = await client.channel.call(code, self._push(message, header), message.body, PUSH_TIMEOUT_S)
        except CallFailed as error:
            return f"push reply message to {client_id} fail. {error}"
        finally:
            line.leave()
        if answer.code == ResponseCode.SUCCESS:
            return None
        return f"push reply message to {client_id} fail. It answered {answer.code}: {answer.remark}"

    def _push(self, message: OutgoingMessage, header: SendMessageRequest) -> ReplyMessageRequest:
        now_ms = self._desk.clock()
        properties = append_properties(message.properties, ((PropertyName.PUSH_REPLY_TIME, str(now_ms)),))
        return ReplyMessageRequest(
            producer_group=header.producer_group,
            topic=message.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=message.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=properties.decode("utf-8", "replace"),
            reconsume_times=header.reconsume_times or 0,
            unit_mode=bool(header.unit_mode),
            born_host=_host_text(message.born_host),
            store_host=_host_text(message.store_host),
            store_timestamp=now_ms,
        )

    def _stored(self, message: OutgoingMessage) -> Deferred[PutResult]:
        waiting: Deferred[PutResult] = Deferred()
        self._desk.store.append(message, waiting.callback)
        return waiting

    def _line(self, channel: Channel) -> _Line:
        """Return the line in which the replies for one client wait for their turn."""
        line = self._lines.get(channel)
        if line is None:
            line = self._lines[channel] = _Line()
            channel.on_close(self._forget)
        return line

    def _forget(self, channel: Channel) -> None:
        self._lines.pop(channel, None)


def _host_text(packed: bytes) -> str:
    """Return ``ip:port``; upstream writes a slash before it, and its own client cannot read such an address."""
    host, port = unpack_host(packed)
    return f"{host}:{port}"
