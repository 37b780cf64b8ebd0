"""RECALL_MESSAGE: taking a timer message back before it is due.

The broker stores a marker that names the message and is due in the same second. When that second comes, the marker is
read first. The order of the checks and the codes follow upstream's ``RecallMessageProcessor``. As upstream, the broker
does not check that the message is still there. A recall also succeeds for a message that does not exist, or that is
delivered at the same moment.
"""

from __future__ import annotations

from functools import partial

from gateway.broker.desk import Desk, DeskRequests
from gateway.errors import RequestRefused
from gateway.remoting.declared import PUB, needs, on_topic
from gateway.remoting.dispatch import Request
from gateway.remoting.requests import answers_directly
from gateway.store.put_result import PutResult, WaitFor
from wire.codes import RequestCode, ResponseCode
from wire.errors import FieldError
from wire.headers.declare import build_header, read_header
from wire.headers.send import RecallMessageRequest, RecallMessageResponse
from wire.message.flags import Permission
from wire.message.properties import PropertyName, build_properties
from wire.message.recall_handle import RecallHandle, parse_recall_handle
from wire.message.record import OutgoingMessage

RECALL_TAG = "_RECALL_TAG_"
"""The tag of markers; tag and body are those of upstream."""
RECALL_BODY = b"0"
MAX_TIMESTAMP_DIGITS = 18


class RecallMessage(DeskRequests):
    """Answers RECALL_MESSAGE (370)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._settings = desk.settings

    @answers_directly(RequestCode.RECALL_MESSAGE, needs(on_topic(PUB)))
    def recall(self, request: Request) -> None:
        """Store the marker, then answer."""
        header = read_header(RecallMessageRequest, request.command)
        try:
            handle = self._handle(header)
            marker = self._desk.timed(self._marker(request, header, handle))
        except RequestRefused as refused:
            request.send(request.command.response(refused.code, refused.remark, self._ext()))
            return
        self._desk.store.append(marker, partial(self._answer, request, handle.unique_key), WaitFor.DISK_OR_TIMEOUT)

    def _handle(self, header: RecallMessageRequest) -> RecallHandle:
        settings = self._settings
        if not settings.recall_message_enable:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "recall failed: recallMessageEnable is false")
        writable = settings.broker_permission & Permission.WRITE
        if not (writable or settings.allow_recall_when_broker_not_writeable):
            raise RequestRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed: brokerPermission lets nobody write"
            )
        if self._desk.topics.get(header.topic) is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"recall failed: the topic[{header.topic}] not exist")
        try:
            handle = parse_recall_handle(header.recall_handle)
        except FieldError as error:
            raise RequestRefused(ResponseCode.ILLEGAL_OPERATION, f"recall failed: {error}") from error
        if handle.topic != header.topic:
            raise _illegal(f"the handle is of topic {handle.topic[:127]!r}")
        if handle.broker_name != settings.broker_name:
            raise _illegal(f"the handle is of broker {handle.broker_name[:127]!r}")
        if not handle.unique_key or not handle.unique_key.isprintable():
            raise _illegal("the handle names no message")
        if not 0 < _milliseconds(handle.timestamp) - self._desk.clock() < settings.timer_max_delay_sec * 1_000:
            raise _illegal(f"the message was due at {handle.timestamp[:32]!r}, or cannot wait for so long")
        return handle

    def _marker(self, request: Request, header: RecallMessageRequest, handle: RecallHandle) -> OutgoingMessage:
        now_ms, channel = self._desk.clock(), request.channel
        key = handle.unique_key
        # Of an account: it may not take back a message of another topic, whose key it may know.
        names_topic = self._settings.append_topic_for_timer_delete_key or request.caller is not None
        properties = {
            PropertyName.TIMER_DEL_UNIQKEY: f"{handle.topic}+{key}" if names_topic else key,
            PropertyName.UNIQ_KEY: key,
            PropertyName.TIMER_DELIVER_MS: handle.timestamp,
            PropertyName.BORN_TIMESTAMP: str(now_ms),
            PropertyName.TAGS: RECALL_TAG,
        }
        if header.producer_group:
            properties[PropertyName.PGROUP] = header.producer_group
        return OutgoingMessage(
            topic=handle.topic,
            queue_id=0,
            flag=0,
            sys_flag=0,
            born_at_ms=now_ms,
            born_host=channel.remote_host,
            store_host=self._desk.store_hosts.of(channel),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=RECALL_BODY,
            properties=build_properties(properties),
            property_map=properties,
        )

    def _answer(self, request: Request, unique_key: str, result: PutResult) -> None:
        if result.status.is_stored:
            ext = {**self._ext(), **build_header(RecallMessageResponse(msg_id=unique_key))}
            request.send(request.command.response(ResponseCode.SUCCESS, None, ext))
        else:
            remark = f"recall failed: {result.status.name}"
            request.send(request.command.response(ResponseCode.SYSTEM_ERROR, remark, self._ext()))

    def _ext(self) -> dict[str, str]:
        return {PropertyName.MSG_REGION: self._settings.region_id}


def _illegal(reason: str) -> RequestRefused:
    return RequestRefused(ResponseCode.ILLEGAL_OPERATION, f"recall failed: {reason}")


def _milliseconds(text: str) -> int:
    """Return the time in a handle, in epoch milliseconds; −1, a time in the past, for text that is no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_TIMESTAMP_DIGITS else -1
