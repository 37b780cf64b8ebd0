"""SEND_MESSAGE in its forms: single, batch, one-way, delayed, half message, client-side retry.

Every send becomes an ``OutgoingMessage`` at once, however its header was read. The broker checks the message's topic,
queue and size. Then the message gets its properties and its place, and is stored. The order of the checks and the codes
follow upstream's ``SendMessageProcessor``. A send is on a hot path, so there are no Deferreds and no coroutines: the
store's callback answers once the message is durable.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from gateway.broker.desk import Desk
from gateway.broker.requests.sending.batches import Batches
from gateway.broker.requests.sending.placing import (
    StoredIn,
    check_light_queues,
    check_room_for_offsets,
    place_of,
    put_by_priority,
    put_into_lite_topic,
    put_to_dead_letters,
    queue_of,
    refuse_order,
    refuse_system_topic,
)
from gateway.broker.requests.sending.put_answers import ANSWER_OF, refused_answer, wait_for
from gateway.broker.requests.sending.stored_properties import StoredProperties, check_text, unique_keys
from gateway.delivery.retry import (
    after_client_retry,
    dead_letter_topic,
    group_of_retry_topic,
    max_reconsume_times,
)
from gateway.errors import RequestRefused
from gateway.metadata.message_types import mismatch
from gateway.metadata.names import NOT_ALLOWED_SEND_TOPICS, WHEEL_TIMER_TOPIC, check_topic_name
from gateway.remoting.declared import PUB, needs, on_topic
from gateway.remoting.dispatch import Dispatch, Request
from gateway.schedule.redirect import redirect_delayed
from gateway.schedule.timer_message import recall_handle
from gateway.store.put_result import PutResult, PutStatus
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import read_header
from wire.headers.send import SendMessageRequest, ShortSendMessageRequest
from wire.message.batch import INNER_BATCH
from wire.message.digits import write_decimal
from wire.message.flags import Permission, SysFlag
from wire.message.light_queues import UNDISPATCHED_TOPICS
from wire.message.message_id import build_offset_message_id, write_offset_message_id
from wire.message.properties import PropertyName, append_properties, parse_properties
from wire.message.record import NO_PROPERTIES, OutgoingMessage
from wire.message.topic_prefixes import DEAD_LETTER_TOPIC_PREFIX, RETRY_TOPIC_PREFIX
from wire.quick.answer_form import AnswerForm
from wire.quick.sent import SentHeader

SENDERS_FLAGS: Final = ~(SysFlag.HOSTS_MASK | SysFlag.TRANSACTION_MASK | INNER_BATCH)
"""The bits of ``sysFlag`` that a sender may set.

The broker sets the bits for a record's hosts. Only the property TRAN_MSG makes a half message: a message with a
prepared bit and without TRAN_MSG would be acknowledged, and then no queue would show it. A record may be a batch only
if its topic has batch queues.
"""

# Looked up for every message, which for an attribute of an enumeration takes as long as a call.
_NOT_ALLOWED: Final = NOT_ALLOWED_SEND_TOPICS
_PUT_OK: Final = PutStatus.PUT_OK
_ITS_TOPIC: Final = StoredIn.ITS_TOPIC
_HALF_TOPIC: Final = StoredIn.HALF_TOPIC
_SCHEDULE_TOPIC: Final = StoredIn.SCHEDULE_TOPIC
_LONG_NAMES: Final = frozenset({int(RequestCode.SEND_MESSAGE), int(RequestCode.SEND_REPLY_MESSAGE)})


class SendMessage:
    """Answers SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320)."""

    def __init__(self, desk: Desk) -> None:
        self._settings = settings = desk.settings
        self._max_message_bytes = settings.max_message_size
        self._short_ways = settings.short_ways
        self._fills_light_queues = settings.fills_light_queues
        self._store = desk.store
        self._append = desk.store.append
        self._topics = desk.topics
        self._topics_by_name = desk.topics.table()
        self._groups = desk.groups
        self._transactions = desk.transactions
        self._levels = desk.levels
        self._timed = desk.timed
        self._store_host = desk.store_hosts.of
        self._random_below = desk.random_below
        self._group_is_orderly = desk.locks.group_is_orderly
        self._answer_ext = {
            PropertyName.MSG_REGION: settings.region_id,
            PropertyName.TRACE_ON: "true" if settings.trace_on else "false",
        }
        self._answer_form = AnswerForm(
            ResponseCode.SUCCESS, self._answer_ext, ("msgId", "queueId", "queueOffset", "transactionId")
        )
        added = {**self._answer_ext, PropertyName.CLUSTER: settings.broker_cluster_name}
        self._properties = StoredProperties(settings, added, unique_keys(desk.clock).create_unique_key)
        self._batches = Batches(desk.store, self._properties, self._answer_ext, short_ways=settings.short_ways)

    def register(self, dispatch: Dispatch) -> None:
        """Register the request codes that this class answers."""
        for code, field in (
            (RequestCode.SEND_MESSAGE, "topic"),
            (RequestCode.SEND_MESSAGE_V2, "b"),
            (RequestCode.SEND_BATCH_MESSAGE, "b"),
        ):
            dispatch.answers_directly(
                code, self.send, needs(on_topic(PUB, field), in_body="Topic Pub of each light queue")
            )

    def send(self, request: Request) -> None:
        """Check and store a message, then answer once the store reports that the message is durable."""
        command = request.command
        try:
            header = command.header  # where it was read with the command
            if type(header) is SentHeader:
                channel = request.channel
                message = header.outgoing(command.body, channel.remote_host, self._store_host(channel))
                topic = self._checked(request, message)
                place = self._properties.give_known(message, header)
            else:
                plain = send_header(command)
                message = self._outgoing(request, plain)
                topic = self._checked(request, message)
                if plain.batch:
                    check_text(plain.properties or "")
                    check = None
                    if self._fills_light_queues or self._settings.enable_topic_message_type_check:
                        check = partial(self._check_one_of_batch, request, message.topic)
                    if self._fills_light_queues:
                        check_light_queues(request, parse_properties(plain.properties or ""))
                    self._batches.store(request, message, topic, plain.properties or "", check)
                    return
                place = self._properties.give(message, plain.properties or "")
            self._place_and_store(request, message, topic, place)
        except RequestRefused as refused:
            request.send(command.response(refused.code, refused.remark, dict(self._answer_ext)))

    def answer_ext(self) -> dict[str, str]:
        """Return the fields that every answer about a message carries."""
        return dict(self._answer_ext)

    def as_it_came(self, request: Request, header: SendMessageRequest) -> OutgoingMessage:
        """Return the message of a reply, checked as every send is checked.

        The region and TRACE_ON are the only properties that the broker adds.

        :raises RequestRefused: as for a send.
        """
        message = self._outgoing(request, header)
        self._checked(request, message)
        check_text(header.properties or "")
        raw = append_properties((header.properties or "").encode("utf-8", "replace"), self._answer_ext)
        message.properties, message.property_map = raw, parse_properties(raw)
        if self._fills_light_queues:
            check_light_queues(request, message.property_map)
        return message

    def _outgoing(self, request: Request, header: SendMessageRequest) -> OutgoingMessage:
        """Return the message that a send asks to store, without its properties."""
        channel = request.channel
        return OutgoingMessage(
            header.topic,
            header.queue_id,
            header.flag,
            header.sys_flag,
            header.born_timestamp,
            channel.remote_host,
            self._store_host(channel),
            header.reconsume_times or 0,
            0,
            request.command.body,
            b"",
            NO_PROPERTIES,
        )

    # -- checks ---------------------------------------------------------------------------------------------

    def _checked(self, request: Request, message: OutgoingMessage) -> TopicConfig:
        """Return the topic of a message, after checks that correct the message's queue and flags.

        :raises RequestRefused: the message must not go to this topic or queue, or the message is too large.
        """
        topic = self._topics_by_name.get(message.topic)
        if topic is None or topic.order or message.topic in _NOT_ALLOWED:
            topic = self._topic(request, message.topic)
        if not 0 <= message.queue_id < topic.read_queue_nums:
            message.queue_id = queue_of(message, topic, self._random_below)
        if len(message.body) > self._max_message_bytes:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"message body of {len(message.body)} bytes is over the limit of {self._max_message_bytes} "
                "(maxMessageSize)",
            )
        message.sys_flag &= SENDERS_FLAGS
        return topic

    def _topic(self, request: Request, name: str) -> TopicConfig:
        """Return the topic's configuration; a missing topic is created where automatic creation is allowed."""
        refuse_system_topic(name)
        topic = self._topics.get(name)
        if topic is None:
            check_topic_name(name)
            topic = self._created(send_header(request.command), request.channel.remote[0])
        if topic is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name}] not exist, apply first please! Create it, or set autoCreateTopicEnable=true",
            )
        refuse_order(topic, name, self._settings.broker_permission)
        return topic

    def _created(self, header: SendMessageRequest, host: str) -> TopicConfig | None:
        if group_of_retry_topic(header.topic) is not None:
            return self._topics.ensure(header.topic, 1, Permission.READ_WRITE, maker=host)
        # The topic flags of a new topic: the unit bit of units, else none.
        flags = 1 if header.unit_mode else 0
        return self._topics.create_from_default(
            header.topic, header.default_topic, header.default_topic_queue_nums, flags, host
        )

    def _check_type(self, topic: str, properties: Mapping[str, str]) -> None:
        """Refuse a message whose type the topic does not take.

        :raises RequestRefused: MESSAGE_ILLEGAL: the topic takes messages of another type.
        """
        config = self._topics_by_name.get(topic)
        if config is None or topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX)):
            return
        reason = mismatch(config.attributes, properties)
        if reason is not None and not self._topics.is_system(topic):
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, reason)

    def _check_one_of_batch(self, request: Request, topic: str, properties: Mapping[str, str]) -> None:
        if self._settings.enable_topic_message_type_check:
            self._check_type(topic, properties)
        if self._fills_light_queues:
            check_light_queues(request, properties)

    # -- placing --------------------------------------------------------------------------------------------

    def _place_and_store(
        self, request: Request, message: OutgoingMessage, topic: TopicConfig, place: StoredIn | None
    ) -> None:
        """Store a message in its place.

        :param place: None if the place has to be found from the message's properties.
        """
        properties = message.property_map
        # Plain messages are taken without a look at the setting.
        if (topic.attributes or place is not _ITS_TOPIC) and self._settings.enable_topic_message_type_check:
            self._check_type(message.topic, properties)
        if self._fills_light_queues:
            check_light_queues(request, properties)
        if place is None:
            if PropertyName.LITE_TOPIC in properties and self._topics.is_lite_parent(message.topic):
                put_into_lite_topic(message, fills_light_queues=self._settings.fills_light_queues)
            if PropertyName.PRIORITY in properties:
                put_by_priority(message, topic)
        queue_id = message.queue_id  # what the sender is told
        if message.topic.startswith(RETRY_TOPIC_PREFIX):
            self._retry(request, message)
        if place is None:
            place = place_of(message, takes_halves=not self._settings.reject_transaction_message)
        if place is not _ITS_TOPIC:
            if PropertyName.TIMER_DEL_UNIQKEY in properties:
                _refuse_marker(request)
            message = self._waiting(message, place)
        self._append(
            message, SendAnswer(self, request, queue_id, properties[PropertyName.UNIQ_KEY]), wait_for(properties)
        )

    def _waiting(self, message: OutgoingMessage, place: StoredIn) -> OutgoingMessage:
        """Return a message in the form in which a place other than its topic stores it."""
        if place is _HALF_TOPIC:
            waiting = self._transactions.half_of(message)
        elif place is _SCHEDULE_TOPIC:
            waiting = redirect_delayed(message, self._levels)
        else:
            waiting = self._timed(message)
        if self._fills_light_queues and waiting.topic.startswith(UNDISPATCHED_TOPICS):
            check_room_for_offsets(waiting)
        return waiting

    def _retry(self, request: Request, message: OutgoingMessage) -> None:
        """Leave a message in the retry topic to which its client sent it, or redirect it to the dead letters."""
        group_name = message.topic[len(RETRY_TOPIC_PREFIX) :]
        group = self._groups.find(group_name)
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group_name}"
            )
        asked = send_header(request.command).max_reconsume_times
        way = after_client_retry(
            reconsume_times=message.reconsume_times,
            limit=max_reconsume_times(group.retry_max_times, asked, request.command.version),
            group_is_orderly=self._group_is_orderly(group_name),
        )
        if way is not None:
            self._topics.ensure_readable(dead_letter_topic(group_name), 1, Permission.READ_WRITE)
            put_to_dead_letters(message, group_name)

    # -- answers --------------------------------------------------------------------------------------------

    def answer(self, request: Request, queue_id: int, unique_key: str, result: PutResult) -> None:
        """Answer the sender with the outcome for its message."""
        command = request.command
        status = result.status
        is_plain = status is _PUT_OK and not command.serialize_type and result.topic != WHEEL_TIMER_TOPIC  # JSON
        if is_plain and self._short_ways:
            key = unique_key.encode()
            if key.isalnum():  # quicker than the same of text, and ASCII is asked for as well
                if not request.answered:
                    request.send_frame(self._filled(command.opaque, queue_id, key, result))
                return
        if not status.is_stored:
            request.send(refused_answer(command, status, self._store.refusal, self._answer_ext))
            return
        ext = dict(self._answer_ext)
        ext["msgId"] = build_offset_message_id(result.message.store_host, result.commit_log_offset)
        ext["queueId"] = str(queue_id)
        ext["queueOffset"] = str(result.queue_offset)
        ext["transactionId"] = unique_key
        handle = recall_handle(result.message, self._settings.broker_name)
        if handle is not None:
            ext["recallHandle"] = handle
        request.send(command.response(ANSWER_OF[status], None, ext))

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


class SendAnswer:
    """Answers one sender when its message is stored. A plain class for speed, because every message needs an object."""

    __slots__ = ("_queue_id", "_request", "_send", "_unique_key")

    def __init__(self, send: SendMessage, request: Request, queue_id: int, unique_key: str) -> None:
        self._send = send
        self._request = request
        self._queue_id = queue_id
        self._unique_key = unique_key

    def __call__(self, result: PutResult) -> None:
        """Take the store's result for the message, and answer."""
        self._send.answer(self._request, self._queue_id, self._unique_key, result)


def _refuse_marker(request: Request) -> None:
    """Refuse a marker that takes a timer message back: its key names a message of any topic.

    :raises RequestRefused: NO_PERMISSION, access control is on and the sender is no administrator.
    """
    if request.caller is not None and not request.caller.is_admin:
        raise RequestRefused(
            ResponseCode.NO_PERMISSION,
            f"{PropertyName.TIMER_DEL_UNIQKEY} takes back a timer message of any topic: it is for administrators",
        )


def send_header(command: RemotingCommand) -> SendMessageRequest:
    """Return the whole header of a send.

    :raises FieldError: a field is missing or wrong.
    """
    return read_header(SendMessageRequest if command.code in _LONG_NAMES else ShortSendMessageRequest, command)
