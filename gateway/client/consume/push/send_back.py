"""Sends messages that could not be consumed back to the broker, which delivers them later or makes them dead letters.

CONSUMER_SEND_MSG_BACK (36) names the message by its place in the log. If the request fails, the message itself is sent
to the group's retry topic, as in upstream's ``DefaultMQPushConsumerImpl.sendMessageBack``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from gateway.client.consume.subscriptions import retry_topic
from gateway.client.errors import BrokerNotFound, RocketMQError
from gateway.client.names import with_namespace
from wire.codes import RequestCode, ResponseCode
from wire.errors import WireError
from wire.headers.send import ConsumerSendMsgBackRequest, ShortSendMessageRequest
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName, build_properties
from wire.message.record import once_more

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.message import ReceivedMessage

_log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT: Final = 5.0
"""Seconds that one request to send a message back may take, as upstream."""
DEFAULT_MAX_RECONSUME_TIMES: Final = 16
_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
_TEMPLATE_TOPIC: Final = "TBW102"
_TEMPLATE_QUEUES: Final = 4
# What the send back must not carry along: it would make a transaction or another delay of it.
_NOT_KEPT: Final = (PropertyName.TRAN_MSG, PropertyName.DELAY)
_STORED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)


class GroupSendBack:
    """Sends messages of one group back.

    :param group: with its namespace.
    :param max_reconsume_times: redeliveries before a message becomes a dead letter.
    """

    def __init__(self, instance: ClientInstance, group: str, max_reconsume_times: int) -> None:
        self._instance = instance
        self._group = group
        self.max_reconsume_times = max_reconsume_times

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Let a message come again. Return False if both ways failed, which is logged.

        :param delay_level: −1: the message becomes a dead letter; 0: the broker chooses the delay; 1 …: a delay level
            of the broker.
        """
        try:
            await self._ask(message, delay_level)
        except RocketMQError as error:
            _log.warning(
                "group %s: %s was not sent back, it is sent to the retry topic instead: %s", self._group, message, error
            )
            return await self.send_again(message)
        return True

    async def send_again(self, message: ReceivedMessage) -> bool:
        """Send a message to the retry topic as a new message. Return False if the send failed, which is logged.

        The broker delays the message, or makes it a dead letter after the last redelivery.
        """
        try:
            queue_owner = await self._retry_broker(message)
            header = self._header(message)
            await self._instance.ask(
                queue_owner,
                RequestCode.SEND_MESSAGE_V2,
                header,
                message.record.body,
                timeout=SEND_BACK_TIMEOUT,
                expect=_STORED,
            )
        except (RocketMQError, WireError) as error:
            _log.warning("group %s: %s was not sent to the retry topic: %s", self._group, message, error)
            return False
        return True

    async def _ask(self, message: ReceivedMessage, delay_level: int) -> None:
        record = message.record
        header = ConsumerSendMsgBackRequest(
            offset=record.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=with_namespace(self._instance.settings.namespace, message.topic),
            max_reconsume_times=self.max_reconsume_times,
        )
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        try:
            address = self._instance.address_of(message.queue.broker_name)
        except BrokerNotFound:
            address = message.store_host
        await self._instance.ask_address(address, code, header, timeout=SEND_BACK_TIMEOUT)

    async def _retry_broker(self, message: ReceivedMessage) -> str:
        """Return the message's own broker if its master is known, otherwise any broker with a master."""
        masters = self._instance.master_addresses()
        if message.queue.broker_name in masters:
            return message.queue.broker_name
        if not masters:
            raise BrokerNotFound(message.queue.broker_name, 0)
        return min(masters)

    def _header(self, message: ReceivedMessage) -> ShortSendMessageRequest:  # type: ignore[valid-type]
        record = message.record
        properties = {name: value for name, value in record.property_map.items() if name not in _NOT_KEPT}
        properties.setdefault(PropertyName.ORIGIN_MESSAGE_ID, message.msg_id)
        properties[PropertyName.RETRY_TOPIC] = with_namespace(self._instance.settings.namespace, message.topic)
        properties[PropertyName.DELAY] = str(3 + message.reconsume_times)
        return ShortSendMessageRequest(
            producer_group=_INNER_PRODUCER,
            topic=retry_topic(self._group),
            default_topic=_TEMPLATE_TOPIC,
            default_topic_queue_nums=_TEMPLATE_QUEUES,
            queue_id=-1,
            sys_flag=record.sys_flag & (SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK),
            born_timestamp=self._instance.clock(),
            flag=record.flag,
            properties=build_properties(properties).decode(),
            reconsume_times=once_more(message.reconsume_times),
            max_reconsume_times=self.max_reconsume_times,
            batch=False,
        )
