"""Batches: which header properties are refused, how a batch is stored, and how its sender is answered.

A batch is a row of records, or one record in topics with batch queues. Upstream: the inner batches of BatchCQ topics,
which ``MessageExtEncoder.encode`` makes for batches.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from gateway.broker.requests.sending.put_answers import ANSWER_OF, refused_answer, wait_for
from gateway.broker.requests.sending.stored_properties import StoredProperties
from gateway.errors import RequestRefused
from gateway.metadata.attributes import has_batch_queues
from gateway.remoting.dispatch import Request
from gateway.schedule.redirect import TIMER_PROPERTIES, delay_level
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutOutcome, PutStatus
from wire.bodies.topics import TopicConfig
from wire.codes import ResponseCode
from wire.message.batch import INNER_BATCH, MAX_INNER_MESSAGES, is_inner_batch
from wire.message.digits import write_decimal
from wire.message.message_id import build_offset_message_ids
from wire.message.properties import PropertyName, build_properties, parse_properties
from wire.message.record import OutgoingMessage
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX
from wire.quick.answer_form import AnswerForm
from wire.quick.message_run import MessageRun

MAX_TOPIC_BYTES = 127
"""The largest number of bytes in a batch's topic.

Never change this limit: a version 1 record has one signed byte for the length.
"""
MAX_IDS_IN_FORM: Final = 1_000
"""The number of message ids up to which an answer is made from a form; headers with more are too long for a form."""

_PUT_OK: Final = PutStatus.PUT_OK
_PLACES: Final = (PropertyName.LITE_TOPIC, PropertyName.PRIORITY)
_EACH_ITS_OWN: Final = PropertyName.INNER_MULTI_DISPATCH
"""A property that counts in the header of a batch only if the batch is one record.

TAGS and KEYS count there, too. In other batches TAGS and KEYS of the header are left alone, because Java clients with
``setAutoBatch`` have them in the header and in each message.
"""
_ACTED_UPON: Final = frozenset({PropertyName.TRAN_MSG, PropertyName.DELAY, *TIMER_PROPERTIES, *_PLACES, _EACH_ITS_OWN})


class Batches:
    """Stores batches and answers their senders.

    :param answer_ext: the fields that every answer about a message carries.
    :param short_ways: False to append and answer in the plain ways.
    """

    def __init__(
        self, store: MessageStore, properties: StoredProperties, answer_ext: Mapping[str, str], *, short_ways: bool
    ) -> None:
        self._short_ways = short_ways
        self._store = store
        self._properties = properties
        self._answer_ext = dict(answer_ext)
        self._form = AnswerForm(ResponseCode.SUCCESS, self._answer_ext, ("msgId", "queueId", "queueOffset"))

    def store(
        self,
        request: Request,
        batch: OutgoingMessage,
        topic: TopicConfig,
        text: str,
        check: Callable[[Mapping[str, str]], None] | None,
    ) -> None:
        """Store a batch, then answer.

        :param batch: topic, queue and times of all messages; the row of messages is its body.
        :param text: the properties in the header.
        :param check: the check that ``MessageRun`` makes of each message's properties.
        :raises RequestRefused: MESSAGE_ILLEGAL: the batch cannot be stored as a batch.
        """
        if len(batch.topic.encode()) > MAX_TOPIC_BYTES:
            raise _refused(f"message topic length over {MAX_TOPIC_BYTES} bytes")
        if batch.topic.startswith(RETRY_TOPIC_PREFIX):
            raise _refused(f"batch request does not support retry group {batch.topic}")
        outer = parse_properties(text)
        is_one_record = bool(topic.attributes) and has_batch_queues(topic.attributes)
        check_header_properties(outer, is_one_record=is_one_record)
        batch.flag = 0  # each message has its own
        run = MessageRun(batch, check)
        if not run.count:
            raise _refused("the batch holds no message")
        stored = partial(self._answer, request, batch)
        if is_one_record:
            self._properties.give_unknown(batch, text)
            self._store.append_all([as_one_record(batch, run.count)], stored, wait_for(outer))
        elif self._short_ways:
            self._store.append_run(run, stored, wait_for(outer))
        else:
            self._store.append_all(run.messages(), stored, wait_for(outer))

    def _answer(self, request: Request, batch: OutgoingMessage, outcomes: Sequence[PutOutcome]) -> None:
        command = request.command
        status = outcomes[0].status
        if status is not _PUT_OK and not status.is_stored:
            request.send(refused_answer(command, status, self._store.refusal, self._answer_ext))
            return
        if request.answered:  # nobody asked for one
            return
        places = outcomes[0].places() if len(outcomes) == 1 else [place for each in outcomes for place in each.places()]
        message_ids = build_offset_message_ids(batch.store_host, places)
        queue_offset = outcomes[0].queue_offset
        is_one_record = is_inner_batch(batch.sys_flag)
        is_plain = status is _PUT_OK and not is_one_record and not command.serialize_type  # JSON
        if is_plain and self._short_ways and len(places) <= MAX_IDS_IN_FORM:
            form = self._form
            writer = form.begin()
            writer.write(message_ids)
            writer.write(form.gaps[0])
            write_decimal(writer, batch.queue_id)
            writer.write(form.gaps[1])
            write_decimal(writer, queue_offset)
            request.send_frame(form.end(writer, command.opaque))
            return
        ext = dict(self._answer_ext)
        ext["msgId"] = message_ids.decode()
        ext["queueId"] = str(batch.queue_id)
        ext["queueOffset"] = str(queue_offset)
        if is_one_record:
            ext["batchUniqId"] = batch.property_map[PropertyName.UNIQ_KEY]
        request.send(command.response(ANSWER_OF[status], None, ext))


def check_header_properties(properties: Mapping[str, str], *, is_one_record: bool) -> None:
    """Refuse properties in a batch's header that a batch cannot obey although a single send does.

    Without this check a delayed batch would be acknowledged and delivered at once.

    :param is_one_record: whether the batch is stored as one record, which gets the properties of the header.
    :raises RequestRefused: MESSAGE_ILLEGAL, with the name of the property.
    """
    if _ACTED_UPON.isdisjoint(properties):
        return
    if (properties.get(PropertyName.TRAN_MSG) or "").lower() == "true":
        raise _refused("a batch cannot be a transaction: send its messages one by one")
    level = delay_level(properties)
    if level is None or level > 0:
        raise _cannot_wait(properties, PropertyName.DELAY)
    if PropertyName.TIMER_OUT_MS not in properties:  # delivered at its time before, and sent on
        for name in TIMER_PROPERTIES:
            if name in properties:
                raise _cannot_wait(properties, name)
    for name in _PLACES if is_one_record else (*_PLACES, _EACH_ITS_OWN):
        if name in properties:
            raise _refused(f"a batch cannot have the property {name} in its header: give it to each message")


def as_one_record(batch: OutgoingMessage, count: int) -> OutgoingMessage:
    """Turn the batch into one message that holds the ``count`` messages of its body, for topics with batch queues.

    :raises RequestRefused: MESSAGE_ILLEGAL: the batch has too many messages.
    """
    if count > MAX_INNER_MESSAGES:
        raise _refused(f"the batch holds more than {MAX_INNER_MESSAGES} messages")
    properties = {**batch.property_map, PropertyName.INNER_NUM: str(count)}
    batch.sys_flag |= INNER_BATCH
    batch.properties = build_properties(properties)
    batch.property_map = properties
    return batch


def _cannot_wait(properties: Mapping[str, str], name: str) -> RequestRefused:
    return _refused(f"a batch cannot wait, property {name}={properties[name][:32]}: send its messages one by one")


def _refused(reason: str) -> RequestRefused:
    return RequestRefused(ResponseCode.MESSAGE_ILLEGAL, reason)
