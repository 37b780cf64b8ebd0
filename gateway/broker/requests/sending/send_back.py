"""CONSUMER_SEND_MSG_BACK: a message whose consumption failed is stored for a retry or given up.

Upstream: ``AbstractSendMessageProcessor.consumerSendMsgBack``. The failed record is stored again: in the group's retry
topic after a delay level, or in the group's dead-letter topic.
"""

from __future__ import annotations

from functools import partial

from gateway.access.needs import message_needs
from gateway.broker.desk import DeskRequests
from gateway.delivery.retry import (
    DeadLetter,
    after_failed_consumption,
    dead_letter_topic,
    max_reconsume_times,
    retry_topic,
)
from gateway.errors import RequestRefused
from gateway.remoting.declared import SUB, needs, on_group
from gateway.remoting.dispatch import Request
from gateway.remoting.requests import answers_directly
from gateway.schedule.redirect import redirect_delayed
from gateway.store.put_result import PutResult
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import read_header
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.message.batch import is_inner_batch
from wire.message.flags import Permission, TopicFlag
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage, StoredMessage, once_more, restated


class SendBack(DeskRequests):
    """Answers CONSUMER_SEND_MSG_BACK (36)."""

    @answers_directly(
        RequestCode.CONSUMER_SEND_MSG_BACK, needs(on_group(SUB, "group"), in_body="Topic Sub of the message")
    )
    def send_back(self, request: Request) -> None:
        """Store the failed message again, then answer."""
        header = read_header(ConsumerSendMsgBackRequest, request.command)
        group = self._group(header.group)
        if group.retry_queue_nums <= 0:
            request.answer(ResponseCode.SUCCESS)
            return
        self._desk.named.head(request, header.offset, partial(self._found, request, header))

    def _found(self, request: Request, header: ConsumerSendMsgBackRequest, head: StoredMessage | None) -> None:
        failed = _found_at(header.offset, head)
        if request.caller is not None:
            request.require_of_message(header.offset, *message_needs(header.group, [failed]))
        if is_inner_batch(failed.sys_flag):
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                "the record is a batch, of which one message failed: send that to the retry topic, as clients do then",
            )
        self._desk.named.whole(request, failed, partial(self._store_again, request, header))

    def _store_again(self, request: Request, header: ConsumerSendMsgBackRequest, whole: StoredMessage | None) -> None:
        failed, group = _found_at(header.offset, whole), self._group(header.group)
        limit = max_reconsume_times(group.retry_max_times, header.max_reconsume_times, request.command.version)
        way = after_failed_consumption(
            reconsume_times=failed.reconsume_times, limit=limit, delay_level=header.delay_level
        )
        if isinstance(way, DeadLetter):
            again = self._dead_letter(failed, header.group)
        else:
            again = self._retry(failed, header, group, way.delay_level)
        topic = failed.property_map.get(PropertyName.RETRY_TOPIC, failed.topic)
        self._desk.store.append(again, lambda result: self._answer(request, result, topic, header.group))

    def _answer(self, request: Request, result: PutResult, topic: str, group: str) -> None:
        if result.status.is_stored:
            self._desk.flows.sent_back(topic, group)
            request.answer(ResponseCode.SUCCESS)
        else:
            request.answer(ResponseCode.SYSTEM_ERROR, remark=result.status.name)

    def _group(self, name: str) -> SubscriptionGroupConfig:
        group = self._desk.groups.find(name)
        if group is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}")
        if not self._desk.settings.broker_permission & Permission.WRITE:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "the broker does not take messages (brokerPermission)")
        return group

    def _retry(
        self,
        failed: StoredMessage,
        header: ConsumerSendMsgBackRequest,
        group: SubscriptionGroupConfig,
        level: int,
    ) -> OutgoingMessage:
        topic = retry_topic(header.group)
        unit = TopicFlag.UNIT_SUBSCRIPTION if header.unit_mode else 0
        config = self._desk.topics.ensure_readable(
            topic, group.retry_queue_nums, Permission.READ_WRITE, topic_sys_flag=unit
        )
        if not config.perm & Permission.WRITE:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        # A topic older than the group's present number of queues may have fewer, and nobody reads those beyond.
        queue_id = self._desk.random_below(min(group.retry_queue_nums, config.read_queue_nums))
        again = _stored_again(failed, topic, queue_id, str(level))
        return redirect_delayed(again, self._desk.levels)

    def _dead_letter(self, failed: StoredMessage, group: str) -> OutgoingMessage:
        topic = dead_letter_topic(group)
        self._desk.topics.ensure_readable(topic, 1, Permission.READ_WRITE)
        return _stored_again(failed, topic, 0, "0")


def _found_at(offset: int, message: StoredMessage | None) -> StoredMessage:
    if message is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
    return message


def _stored_again(failed: StoredMessage, topic: str, queue_id: int, level: str) -> OutgoingMessage:
    """Return the failed message for another topic, to be delivered after a delay level; level 0 is no delay.

    WAIT stays as the sender set it. Apache RocketMQ sets WAIT=false; a client that sends such a message on would then
    be answered before the message is on disk.
    """
    properties = dict(failed.property_map)
    properties.setdefault(PropertyName.RETRY_TOPIC, failed.topic)
    properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, failed.offset_message_id)
    properties[PropertyName.DELAY] = level
    again = restated(failed, topic, queue_id, build_properties(properties), properties)
    again.reconsume_times = once_more(failed.reconsume_times)
    again.prepared_transaction_offset = 0
    return again
