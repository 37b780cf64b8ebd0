"""SEND_MESSAGE in its forms: single, batch, one-way, delayed, half message, client-side retry.

The order of the checks and the codes follow upstream's ``SendMessageProcessor``. This is a hot path: no
Deferred and no coroutine; the answer is given by the store's callback once the message is durable.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import astuple

from gateway.broker.requests.sending.batch import as_one_record, check_header_properties
from gateway.broker.requests.sending.plain_properties import HALF_MARK, PlainProperties
from gateway.broker.requests.sending.put_answers import ANSWER_OF, remark_of
from gateway.broker.requests.sending.unique_keys import unique_keys
from gateway.delivery.retry import (
    after_client_retry,
    dead_letter_topic,
    group_of_retry_topic,
    max_reconsume_times,
)
from gateway.errors import RequestRefused
from gateway.metadata.attributes import has_batch_queues
from gateway.metadata.message_types import PRIORITY, mismatch, priority_of, type_of_message
from gateway.metadata.names import (
    DEAD_LETTER_TOPIC_PREFIX,
    NOT_ALLOWED_SEND_TOPICS,
    RETRY_TOPIC_PREFIX,
    WHEEL_TIMER_TOPIC,
    check_topic_name,
)
from gateway.remoting.declared import Right
from gateway.schedule.redirect import TIMER_PROPERTIES, delay_level, redirect_delayed
from gateway.schedule.timer_message import recall_handle, wants_timer
from gateway.store.put_result import PutStatus, WaitFor
from gateway.transaction.records.half_messages import refuse_reason
from wire.codes import RequestCode, ResponseCode
from wire.digits import write_decimal
from wire.headers.declare import read_header
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.message.flags import Permission, SysFlag
from wire.message.inner_batch import INNER_BATCH, is_inner_batch
from wire.message.light_queues import MAX_NAME_CHARACTERS, is_light_queue
from wire.message.lite_topics import lite_queue
from wire.message.message_id import (
    build_offset_message_id,
    build_offset_message_ids,
    write_offset_message_id,
)
from wire.message.properties import PropertyName, append_properties, build_properties, parse_properties
from wire.message.record import OutgoingMessage
from wire.quick.answer_form import AnswerForm
from wire.quick.message_run import MessageRun
from wire.quick.sent import SentHeader

if TYPE_CHECKING:
    from gateway.broker.desk import Desk
    from gateway.remoting.channel import Channel
    from gateway.remoting.dispatch import Dispatch, Request
    from gateway.settings import Settings
    from gateway.store.put_result import PutOutcome, PutResult
    from wire.bodies.topics import TopicConfig

MAX_TOPIC_BYTES = 127
"""Never change: a version 1 record has one signed byte for the length."""
PACKED_V4_BYTES: Final = 8
"""An IPv4 address and a port; IPv6 takes 20."""
BROKER_FLAGS: Final = SysFlag.HOSTS_MASK | SysFlag.TRANSACTION_MASK | INNER_BATCH
"""Bits of ``sysFlag`` that are the broker's to set."""
MAX_IDS_IN_FORM: Final = 1_000
"""Answers to larger batches are not made from a form: their headers are too long for one."""
RETRY_TOPIC_PERM = Permission.READ | Permission.WRITE

PLACING: Final = frozenset({PropertyName.TRAN_MSG, PropertyName.DELAY, *TIMER_PROPERTIES})
"""Most messages have none of these and go where they are sent."""

SPECIAL: Final = PLACING | {PropertyName.LITE_TOPIC, PropertyName.PRIORITY, PropertyName.SHARDING_KEY}
"""Names of properties that make a message another than one of the type NORMAL, or send it elsewhere."""

# Looked up for every message, which for an attribute of an enumeration takes as long as a call.
_as_tuple: Final = astuple
_LONG_NAMES: Final = int(RequestCode.SEND_MESSAGE)
_NOT_ALLOWED: Final = NOT_ALLOWED_SEND_TOPICS
_PUT_OK: Final = PutStatus.PUT_OK
_WAIT: Final = WaitFor.DISK_OR_TIMEOUT
_HASTY: Final = WaitFor.WRITE


Fields: TypeAlias = (
    "tuple[str, str, str, int, int, int, int, int, str | None, int | None, bool | None, int | None, bool | None,"
    "str | None]"
)
"""Of a ``SendMessageRequest``, in the order of the letters."""


class SendMessage:
    """Answers SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320)."""

    def __init__(self, desk: Desk) -> None:
        settings = desk.settings
        self._store = desk.store
        self._append = desk.store.append
        self._append_run = desk.store.append_run
        self._topics = desk.topics
        self._topics_by_name = desk.topics.table()
        self._groups = desk.groups
        self._half_messages = desk.transactions
        self._levels = desk.levels
        self._timed = desk.timed
        self.use(settings)
        self._store_host = desk.store_hosts.of
        self._unique_key = unique_keys(desk.clock).create_unique_key
        self._random_below = desk.random_below
        self._group_is_orderly = desk.locks.group_is_orderly
        self._answer_ext = {
            PropertyName.MSG_REGION: settings.region_id,
            PropertyName.TRACE_ON: "true" if settings.trace_on else "false",
        }
        self._answer_form = AnswerForm(
            ResponseCode.SUCCESS, self._answer_ext, ("msgId", "queueId", "queueOffset", "transactionId")
        )
        self._batch_form = AnswerForm(ResponseCode.SUCCESS, self._answer_ext, ("msgId", "queueId", "queueOffset"))
        self._added = {**self._answer_ext, PropertyName.CLUSTER: settings.broker_cluster_name}
        self._added_raw = build_properties(self._added)
        self._added_text = self._added_raw.decode()
        self._reserved = frozenset({PropertyName.POP_CK, *self._added})
        self._plain = PlainProperties(self._added, self._reserved | SPECIAL)
        self._half = PlainProperties(
            self._added,
            self._reserved | SPECIAL,
            mark=HALF_MARK,
            takes=lambda properties: refuse_reason(properties) is None,
        )

    def register(self, dispatch: Dispatch) -> None:
        """Take over the codes this class answers."""
        for code in (
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_BATCH_MESSAGE,
        ):
            dispatch.answers_directly(code, self.send, Right.PUBLISH)

    def use(self, settings: Settings) -> None:
        """Go on with changed settings."""
        self._settings = settings
        # What every message is held against.
        self._max_message_bytes = settings.max_message_size
        self._checks_types = settings.enable_topic_message_type_check
        self._takes_halves = not settings.reject_transaction_message

    def send(self, request: Request) -> None:
        """Check, store, and answer once the store says that the message is durable."""
        command = request.command
        try:
            read = command.header  # with the command
            if type(read) is SentHeader and self._send_known(request, read):
                return
            if type(read) is ShortSendMessageRequest:
                header = read
            else:
                form = SendMessageRequest if command.code == _LONG_NAMES else ShortSendMessageRequest
                header = read_header(form, command)
            # All fields at once, which takes as long as reading two of them by name.
            fields: Fields = _as_tuple(header)
            name, queue_id = fields[1], fields[4]
            topic = self._topics_by_name.get(name)
            if topic is None or topic.order or name in _NOT_ALLOWED:
                topic = self._topic(header, request.channel)
            if not 0 <= queue_id < topic.read_queue_nums:
                queue_id = self._queue_id(header, topic)
            if len(command.body) > self._max_message_bytes:
                raise self._too_large(command.body)
            if fields[12]:
                self._send_batch(request, header, queue_id)
            else:
                self._send_single(request, header, fields, topic, queue_id)
        except RequestRefused as refused:
            request.send(command.response(refused.code, refused.remark, dict(self._answer_ext)))

    def answer_ext(self) -> dict[str, str]:
        """What every answer about a message carries."""
        return dict(self._answer_ext)

    def as_it_came(self, request: Request, header: SendMessageRequest) -> OutgoingMessage:
        """Return a reply, checked as every send is. Of the broker's own properties it gets the region and TRACE_ON.

        :raises RequestRefused: as for a send.
        """
        topic, body, channel = self._topic(header, request.channel), request.command.body, request.channel
        if len(body) > self._max_message_bytes:
            raise self._too_large(body)
        store_host = self._store_host(channel)
        return OutgoingMessage(
            topic=header.topic,
            queue_id=self._queue_id(header, topic),
            flag=header.flag,
            sys_flag=_sys_flag(header.sys_flag, channel.remote_host, store_host),
            born_at_ms=header.born_timestamp,
            born_host=channel.remote_host,
            store_host=store_host,
            reconsume_times=header.reconsume_times or 0,
            prepared_transaction_offset=0,
            body=body,
            properties=append_properties((header.properties or "").encode("utf-8", "replace"), self._answer_ext),
        )

    # -- single ---------------------------------------------------------------------------------------------

    def _send_known(self, request: Request, header: SentHeader) -> bool:
        """Store a message that is like others before it; False: it has to be looked at, and nothing was done."""
        form, queue_id = header.form, header.queue_id
        topic = form.topic
        config = self._topics_by_name.get(topic)
        if (
            config is None
            or config.order
            or queue_id >= config.read_queue_nums
            or len(request.command.body) > self._max_message_bytes
            or topic in _NOT_ALLOWED
            or topic.startswith(RETRY_TOPIC_PREFIX)
        ):
            return False
        is_half = form.before == self._half.start
        if not (self._takes_halves if is_half else form.before == self._plain.start):
            return False
        unique_key = header.unique_key.decode()
        properties = (self._half if is_half else self._plain).of_key(unique_key, form.ending)
        if properties is None:
            return False
        if self._checks_types and (config.attributes or is_half):  # plain ones are what topics take unasked
            self._check_type(topic, properties)
        raw = b"".join((form.raw_before, header.unique_key, form.raw_ending, self._added_raw))
        message = self._message(
            request,
            topic,
            queue_id,
            form.message_flag,
            form.sys_flag,
            header.born_timestamp,
            form.reconsume_times,
            raw,
            properties,
        )
        if is_half:
            message = self._half_messages.half_of(message)
        self._store_single(request, message, queue_id, properties)
        return True

    def _send_single(
        self, request: Request, header: SendMessageRequest, fields: Fields, config: TopicConfig, queue_id: int
    ) -> None:
        _, topic, _, _, _, sys_flag, born_at_ms, flag, text, reconsume_times, _, _, _, _ = fields
        text = text or ""
        plain = self._plain.of(text)
        half = self._half.of(text) if plain is None and self._takes_halves else None
        known = plain or half
        if known is not None:
            properties = known
            raw = (text + self._added_text).encode()
        else:
            raw, properties = self._properties(text)
        if self._checks_types and (config.attributes or plain is None):  # plain ones are what topics take unasked
            self._check_type(topic, properties)
        if known is None:
            if PropertyName.LITE_TOPIC in properties:
                raw = self._into_lite_topic(topic, raw, properties)
            if PropertyName.PRIORITY in properties:
                queue_id, raw = self._by_priority(topic, queue_id, raw, properties)
        message = self._message(
            request, topic, queue_id, flag, sys_flag, born_at_ms, reconsume_times or 0, raw, properties
        )
        if topic.startswith(RETRY_TOPIC_PREFIX):
            group_name = topic[len(RETRY_TOPIC_PREFIX) :]
            message = self._retried(message, group_name, header, request.command.version)
        if half is not None and message.property_map is half:
            message = self._half_messages.half_of(message)
        elif plain is None and not PLACING.isdisjoint(properties):
            message = self._placed(message)
        self._store_single(request, message, queue_id, properties)

    def _message(
        self,
        request: Request,
        topic: str,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_at_ms: int,
        reconsume_times: int,
        raw: bytes,
        properties: dict[str, str],
    ) -> OutgoingMessage:
        channel = request.channel
        born_host, store_host = channel.remote_host, self._store_host(channel)
        if sys_flag & BROKER_FLAGS or len(born_host) != PACKED_V4_BYTES or len(store_host) != PACKED_V4_BYTES:
            sys_flag = _sys_flag(sys_flag, born_host, store_host)
        return OutgoingMessage(
            topic,
            queue_id,
            flag,
            sys_flag,
            born_at_ms,
            born_host,
            store_host,
            reconsume_times,
            0,
            request.command.body,
            raw,
            properties,
        )

    def _store_single(
        self, request: Request, message: OutgoingMessage, queue_id: int, properties: dict[str, str]
    ) -> None:
        """:param queue_id: what the sender is told."""
        self._append(
            message,
            SendAnswer(self, request, queue_id, properties[PropertyName.UNIQ_KEY]),
            _WAIT if properties.get(PropertyName.WAIT) == "true" else _wait_for(properties),
        )

    def _properties(self, text: str) -> tuple[bytes, dict[str, str]]:
        """A property string as it is stored, and the same decoded."""
        raw = text.encode()
        properties = parse_properties(text)
        if not self._reserved.isdisjoint(properties):
            # The broker's own values win; a client that forwards a received message sends the old ones.
            for name in self._reserved:
                properties.pop(name, None)
            raw = build_properties(properties)
        if PropertyName.UNIQ_KEY not in properties:
            key = self._unique_key()
            properties[PropertyName.UNIQ_KEY] = key
            raw = append_properties(raw, ((PropertyName.UNIQ_KEY, key),))
        properties.update(self._added)
        if raw and not raw.endswith(b"\x02"):
            raw += b"\x02"
        return raw + self._added_raw, properties

    def _check_type(self, topic: str, properties: Mapping[str, str]) -> None:
        """:raises RequestRefused: MESSAGE_ILLEGAL, the topic is for messages of another type."""
        config = self._topics_by_name.get(topic)
        if config is None or topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX)):
            return
        reason = mismatch(config.attributes, properties)
        if reason is not None and not self._topics.is_system(topic):
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, reason)

    def _into_lite_topic(self, topic: str, raw: bytes, properties: dict[str, str]) -> bytes:
        """The property string of a message that is put into the lite topic it names, too.

        :raises RequestRefused: MESSAGE_ILLEGAL: it can be put into none.
        """
        lite_topic = properties[PropertyName.LITE_TOPIC]
        if not lite_topic or not self._topics.is_lite_parent(topic):
            return raw
        queue = lite_queue(topic, lite_topic)
        if not self._settings.fills_light_queues:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, "there are no lite topics without enableLmq and enableMultiDispatch"
            )
        if not is_light_queue(queue):
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the lite topic {lite_topic[:64]!r} of {topic} has a name that no lite topic can have: "
                f"letters, digits and %|_$- are allowed, {MAX_NAME_CHARACTERS} in all",
            )
        properties[PropertyName.INNER_MULTI_DISPATCH] = queue
        return build_properties(properties)

    def _by_priority(self, topic: str, queue_id: int, raw: bytes, properties: dict[str, str]) -> tuple[int, bytes]:
        """The queue that stands for a message's priority, and its property string.

        By what the message is, not its topic, as upstream; a message of another type loses the property.
        """
        priority = priority_of(properties)
        if priority < 0:
            return queue_id, raw
        if type_of_message(properties) != PRIORITY:
            del properties[PropertyName.PRIORITY]
            return queue_id, build_properties(properties)
        config = self._topics_by_name.get(topic)
        queues = 1 if config is None else min(config.read_queue_nums, config.write_queue_nums)
        return (queue_id if queues <= 0 else max(0, min(priority, queues - 1))), raw

    def _placed(self, message: OutgoingMessage) -> OutgoingMessage:
        """Where a message is stored that asks for more than its topic: the half topic or the schedule topic."""
        properties = message.property_map
        level = delay_level(properties)
        if level is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"the delay level of a message is a number, not {properties[PropertyName.DELAY][:32]!r}",
            )
        is_half = (properties.get(PropertyName.TRAN_MSG) or "").lower() == "true"
        if is_half and not (message.reconsume_times > 0 and level > 0):
            if self._settings.reject_transaction_message:
                raise RequestRefused(
                    ResponseCode.NO_PERMISSION,
                    "the broker sends no transaction messages (rejectTransactionMessage=true)",
                )
            reason = refuse_reason(properties)
            if reason is not None:
                raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, reason)
            return self._half_messages.half_of(message)
        if level > 0:
            return redirect_delayed(message, self._levels)
        if wants_timer(message):
            return self._timed(message)
        return message

    def _retried(
        self, message: OutgoingMessage, group_name: str, header: SendMessageRequest, version: int
    ) -> OutgoingMessage:
        """A message a client sent to a retry topic itself: there, or to the dead letters."""
        group = self._groups.find(group_name)
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group_name}"
            )
        limit = max_reconsume_times(group.retry_max_times, header.max_reconsume_times, version)
        way = after_client_retry(
            reconsume_times=message.reconsume_times,
            limit=limit,
            group_is_orderly=self._group_is_orderly(group_name),
        )
        if way is None:
            return message
        topic = dead_letter_topic(group_name)
        self._topics.ensure_readable(topic, 1, RETRY_TOPIC_PERM)
        properties = {**message.property_map, PropertyName.DELAY: "-1"}
        message.topic = topic
        message.queue_id = 0
        message.properties = build_properties(properties)
        message.property_map = properties
        return message

    # -- batch ----------------------------------------------------------------------------------------------

    def _send_batch(self, request: Request, header: SendMessageRequest, queue_id: int) -> None:
        if len(header.topic.encode()) > MAX_TOPIC_BYTES:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"message topic length over {MAX_TOPIC_BYTES} bytes")
        if header.topic.startswith(RETRY_TOPIC_PREFIX):
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {header.topic}"
            )
        outer_text = header.properties or ""
        outer = parse_properties(outer_text)
        config = self._topics_by_name.get(header.topic)
        is_one_record = config is not None and bool(config.attributes) and has_batch_queues(config.attributes)
        check_header_properties(outer, is_one_record=is_one_record)
        born_host, store_host = request.channel.remote_host, self._store_host(request.channel)
        batch = OutgoingMessage(
            header.topic,
            queue_id,
            0,
            _sys_flag(header.sys_flag, born_host, store_host),
            header.born_timestamp,
            born_host,
            store_host,
            header.reconsume_times or 0,
            0,
            request.command.body,
        )
        check = partial(self._check_type, header.topic) if self._checks_types else None
        run = MessageRun(batch, check)
        if not run.count:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "the batch holds no message")

        stored = partial(self._answer_batch, request, queue_id, batch)
        if is_one_record:
            batch.properties, batch.property_map = self._properties(outer_text)
            self._store.append_all([as_one_record(batch, run.count)], stored, _wait_for(outer))
        else:
            self._append_run(run, stored, _wait_for(outer))

    # -- checks ---------------------------------------------------------------------------------------------

    def _topic(self, header: SendMessageRequest, channel: Channel) -> TopicConfig:
        """The topic's configuration, created automatically where that is allowed."""
        name = header.topic
        if name in NOT_ALLOWED_SEND_TOPICS:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"sending message to topic[{name}] is forbidden: system topic"
            )
        topic = self._topics.get(name)
        if topic is None:
            check_topic_name(name)
            topic = self._created(header, channel.remote[0])
        if topic is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name}] not exist, apply first please! Create it, or set autoCreateTopicEnable=true",
            )
        if topic.order and not self._settings.broker_permission & Permission.WRITE:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"sending message to ordered topic[{name}] is forbidden (brokerPermission)",
            )
        return topic

    def _created(self, header: SendMessageRequest, host: str) -> TopicConfig | None:
        if group_of_retry_topic(header.topic) is not None:
            return self._topics.ensure(header.topic, 1, RETRY_TOPIC_PERM, maker=host)
        return self._topics.create_from_default(
            header.topic, header.default_topic, header.default_topic_queue_nums, header_sys_flag(header), host
        )

    def _queue_id(self, header: SendMessageRequest, topic: TopicConfig) -> int:
        """Return the queue a message goes to: one that consumers can read.

        :raises RequestRefused: INVALID_PARAMETER, there is no such queue; SYSTEM_ERROR, nobody could read the message.
        """
        queue_id, readable = header.queue_id, topic.read_queue_nums
        queues = max(readable, topic.write_queue_nums)
        if queue_id >= queues:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{queue_id}] is illegal, topic[{header.topic}] has {queues} queues",
            )
        if 0 <= queue_id < readable:
            return queue_id
        usable = min(readable, topic.write_queue_nums)
        if queue_id < 0 < usable:
            return self._random_below(usable)
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"nobody could read a message sent to queueId[{queue_id}] of topic[{header.topic}]: "
            f"its readQueueNums is {readable}, its writeQueueNums {topic.write_queue_nums}",
        )

    def _too_large(self, body: bytes) -> RequestRefused:
        return RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"message body of {len(body)} bytes is over the limit of {self._max_message_bytes} (maxMessageSize)",
        )

    # -- answers --------------------------------------------------------------------------------------------

    def answer(self, request: Request, queue_id: int, unique_key: str, result: PutResult) -> None:
        """Tell the sender what became of its message."""
        command = request.command
        status = result.status
        if status is _PUT_OK and not command.serialize_type and result.topic != WHEEL_TIMER_TOPIC:  # JSON
            key = unique_key.encode()
            if key.isalnum():  # quicker than the same of text, and ASCII is asked for as well
                if not request.answered:
                    request.send_frame(self._filled(command.opaque, queue_id, key, result))
                return
        code = ANSWER_OF[status]
        ext = dict(self._answer_ext)
        if not status.is_stored:
            request.send(command.response(code, remark_of(status, self._store.refusal), ext))
            return
        ext["msgId"] = build_offset_message_id(result.message.store_host, result.commit_log_offset)
        ext["queueId"] = str(queue_id)
        ext["queueOffset"] = str(result.queue_offset)
        ext["transactionId"] = unique_key
        handle = recall_handle(result.message, self._settings.broker_name)
        if handle is not None:
            ext["recallHandle"] = handle
        request.send(command.response(code, None, ext))

    def _filled(self, opaque: int, queue_id: int, key: bytes, result: PutResult) -> bytes:
        form = self._answer_form
        gaps = form.gaps
        writer = form.begin()
        write_offset_message_id(writer, result.message.store_host, result.commit_log_offset)
        writer.write(gaps[0])
        write_decimal(writer, queue_id)
        writer.write(gaps[1])
        write_decimal(writer, result.queue_offset)
        writer.write(gaps[2])
        writer.write(key)
        return form.end(writer, opaque)

    def _answer_batch(
        self, request: Request, queue_id: int, batch: OutgoingMessage, outcomes: Sequence[PutOutcome]
    ) -> None:
        command = request.command
        status = outcomes[0].status
        if status is not _PUT_OK and not status.is_stored:
            remark = remark_of(status, self._store.refusal)
            request.send(command.response(ANSWER_OF[status], remark, dict(self._answer_ext)))
            return
        if request.answered:  # nobody asked for one
            return
        places = outcomes[0].places() if len(outcomes) == 1 else [place for each in outcomes for place in each.places()]
        message_ids = build_offset_message_ids(batch.store_host, places)
        queue_offset = outcomes[0].queue_offset
        is_one_record = is_inner_batch(batch.sys_flag)
        is_plain = status is _PUT_OK and not is_one_record and not command.serialize_type  # JSON
        if is_plain and len(places) <= MAX_IDS_IN_FORM:
            form = self._batch_form
            writer = form.begin()
            writer.write(message_ids)
            writer.write(form.gaps[0])
            write_decimal(writer, queue_id)
            writer.write(form.gaps[1])
            write_decimal(writer, queue_offset)
            request.send_frame(form.end(writer, command.opaque))
            return
        ext = dict(self._answer_ext)
        ext["msgId"] = message_ids.decode()
        ext["queueId"] = str(queue_id)
        ext["queueOffset"] = str(queue_offset)
        if is_one_record:
            ext["batchUniqId"] = batch.property_map[PropertyName.UNIQ_KEY]
        request.send(command.response(ANSWER_OF[status], None, ext))


class SendAnswer:
    """Answers one sender when its message is stored. A plain class: one is made for every message."""

    __slots__ = ("_queue_id", "_request", "_send", "_unique_key")

    def __init__(self, send: SendMessage, request: Request, queue_id: int, unique_key: str) -> None:
        self._send = send
        self._request = request
        self._queue_id = queue_id
        self._unique_key = unique_key

    def __call__(self, result: PutResult) -> None:
        """The store says what became of the message."""
        self._send.answer(self._request, self._queue_id, self._unique_key, result)


def _wait_for(properties: Mapping[str, str]) -> WaitFor:
    """When the sender is answered. Without WAIT, or with WAIT=true: when the message is on disk; upstream reads every
    other value as false (``Message.isWaitStoreMsgOK``). A half message is never answered early: its producer would run
    the local transaction.
    """
    wait = properties.get(PropertyName.WAIT)
    if wait is None or wait.lower() == "true" or PropertyName.TRAN_MSG in properties:
        return _WAIT
    return _HASTY


def header_sys_flag(header: SendMessageRequest) -> int:
    """The topic flags a new topic gets: the unit bit of units, else none."""
    return 1 if header.unit_mode else 0


def _sys_flag(asked: int, born_host: bytes, store_host: bytes) -> int:
    """The client's flags, with the address family bits as the broker sees the addresses.

    The transaction bits are the broker's: TRAN_MSG alone makes a half message, and a prepared bit without it
    would be acknowledged and then shown by no queue. A record holds a batch only where the topic is for such.
    """
    flag = asked & ~BROKER_FLAGS
    if len(born_host) > PACKED_V4_BYTES:
        flag |= SysFlag.BORN_HOST_V6
    if len(store_host) > PACKED_V4_BYTES:
        flag |= SysFlag.STORE_HOST_V6
    return flag
