"""Requests of POP consumption: take messages (200050), acknowledge (200051, 200151), hide longer (200053).

The requests are for one group and all its topics. The consumers decide when to pop, and what to do with the messages.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.client.connect.answers import header_of
from gateway.client.consume.pop.pop_handles import (
    NORMAL,
    RETRY_V1,
    RETRY_V2,
    PoppedMessage,
    PopReceipts,
    ReceiptWords,
    parse_receipt,
)
from gateway.client.consume.settings.consumer_settings import ConsumeFrom
from gateway.client.consume.subscriptions import Subscription, retry_topic
from gateway.client.errors import BrokerError, ProtocolError, broker_error
from wire.bodies.pop import MAX_BATCH_BITS, BatchAck, BatchAckMessage, build_bit_set
from wire.codes import RequestCode, ResponseCode
from wire.errors import RemoteError
from wire.headers.declare import read_header
from wire.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from wire.message.properties import PropertyName
from wire.message.record import parse_records

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.message_queue import MessageQueue
    from wire.command import RemotingCommand

MAX_MESSAGES: Final = 32
"""The most messages of one pop; brokers refuse to return more."""
ANY_QUEUE: Final = -1
FULL_PAUSE: Final = 0.5
"""Seconds until the next pop at a broker that already holds as many pops as it may."""
HASTY_ANSWER: Final = 0.01
HASTY_PAUSE: Final = 0.1
"""Seconds until the next pop at a broker that does not hold empty pops; prevents a tight loop."""
_FROM_FIRST, _FROM_LAST = 0, 1
BEYOND_HOLD: Final = 10.0
"""Seconds that a pop may take beyond the time for which the broker holds it, as upstream."""
_NOTHING: Final = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class GroupPops:
    """The requests of one group.

    :param group: with its namespace.
    :param begin: the start of a group without an offset: FIRST_OFFSET, or the end for any other value.
    """

    def __init__(self, instance: ClientInstance, group: str, begin: ConsumeFrom) -> None:
        self.instance = instance
        self._group = group
        self._init_mode = _FROM_FIRST if begin is ConsumeFrom.FIRST_OFFSET else _FROM_LAST
        self._one_by_one: set[str] = set()
        """The names of the brokers that do not know acknowledgements in batches."""

    async def pop(
        self, queue: MessageQueue, subscription: Subscription, most: int, *, hidden: float, hold: float
    ) -> list[PoppedMessage]:
        """Take messages. Unwanted messages (another tag with the same hash) are acknowledged and not returned.

        :param queue: its number may be ``ANY_QUEUE``.
        :param most: at most 32.
        :param hidden: seconds for which other members do not get the messages.
        :param hold: seconds that the broker waits for a message.
        :raises BrokerError: the broker refuses, or has no POP consumption; ``ProtocolError``: the answer cannot be
            read.
        """
        instance = self.instance
        header = PopMessageRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=most,
            invisible_time=round(hidden * 1000),
            poll_time=round(hold * 1000),
            born_time=0,  # now, by the broker's clock: by another one it may be over before it begins
            init_mode=self._init_mode,
            exp_type=subscription.expression_type,
            exp=subscription.expression,
        )
        address = instance.address_of(queue.broker_name)
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        answer = await instance.remoting.request(address, RequestCode.POP_MESSAGE, header, timeout=hold + BEYOND_HOLD)
        if answer.code == ResponseCode.POLLING_FULL:
            await asyncio.sleep(FULL_PAUSE)
            return []
        if answer.code in _NOTHING or (answer.code == ResponseCode.SUCCESS and not answer.body):
            if loop.time() - asked_at < HASTY_ANSWER:
                await asyncio.sleep(min(HASTY_PAUSE, hold))
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark, address)
        try:
            messages = self._messages(answer, queue, loop.time() + hidden)
        except RemoteError as error:
            raise ProtocolError(address, f"its answer to a pop cannot be read: {error}") from error
        wanted = [message for message in messages if subscription.accepts(message.tags or None)]
        if len(wanted) < len(messages):
            await self.ack([message for message in messages if message not in wanted])
        return wanted

    async def ack(self, messages: Iterable[PoppedMessage]) -> None:
        """Acknowledge messages: in one request to each broker that supports batches, otherwise one by one.

        :raises BrokerError: a broker does not know such a message.
        """
        by_broker: defaultdict[str, list[PoppedMessage]] = defaultdict(list)
        for message in messages:
            by_broker[message.receipt.broker_name].append(message)
        await asyncio.gather(*(self._ack_at(name, given) for name, given in by_broker.items()))

    async def change_invisible_time(self, message: PoppedMessage, seconds: float) -> None:
        """Hide a message for ``seconds`` from now.

        :raises BrokerError: the broker does not know such a message.
        """
        receipt = message.receipt
        header = ChangeInvisibleTimeRequest(**self._place(message), invisible_time=round(seconds * 1000))
        answer = await self.instance.ask(receipt.broker_name, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        terms = header_of(ChangeInvisibleTimeResponse, answer, f"broker {receipt.broker_name}")
        message.receipt = receipt.renewed(terms.pop_time, terms.invisible_time, terms.revive_qid)
        message.hidden_until = asyncio.get_running_loop().time() + seconds

    # --- inside ---------------------------------------------------------------------------------------------

    async def _ack_at(self, broker_name: str, messages: Sequence[PoppedMessage]) -> None:
        alone: Sequence[PoppedMessage] = messages
        if len(messages) > 1 and broker_name not in self._one_by_one:
            acks, alone = batch_acks(messages, self._group)
            body = BatchAckMessage(broker_name, acks).build()
            try:
                if acks:
                    await self.instance.ask(broker_name, RequestCode.BATCH_ACK_MESSAGE, body=body)
            except BrokerError as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                self._one_by_one.add(broker_name)
                alone = messages
        await asyncio.gather(*(self._ack_one(message) for message in alone))

    async def _ack_one(self, message: PoppedMessage) -> None:
        header = AckMessageRequest(**self._place(message))
        await self.instance.ask(message.receipt.broker_name, RequestCode.ACK_MESSAGE, header)

    def _place(self, message: PoppedMessage) -> dict[str, Any]:
        """Return the fields that identify a popped message in a request."""
        receipt = message.receipt
        return {
            "consumer_group": self._group,
            "topic": receipt.real_topic(message.record.topic, self._group),
            "queue_id": int(receipt.queue_id),
            "extra_info": str(receipt),
            "offset": int(receipt.queue_offset),
        }

    def _messages(self, answer: RemotingCommand, queue: MessageQueue, until: float) -> list[PoppedMessage]:
        broker_name = queue.broker_name
        receipts = PopReceipts(read_header(PopMessageResponse, answer), broker_name)
        namespace = self.instance.settings.namespace
        messages: list[PoppedMessage] = []
        for record in parse_records(answer.body):
            given = record.property_map.get(PropertyName.POP_CK)
            if given is not None:
                receipt = parse_receipt(given)
            else:
                kind = _retry_kind(record.topic, self._group)
                receipt = receipts.next_receipt(kind, record.queue_id, record.queue_offset)
            if record.topic == receipt.real_topic(queue.topic, self._group):
                record.topic = queue.topic  # a broker leaves the retry topic where it has no room for the receipt
            messages.append(PoppedMessage(record, broker_name, receipt, until, namespace))
        return messages


def batch_acks(messages: Sequence[PoppedMessage], group: str) -> tuple[list[BatchAck], list[PoppedMessage]]:
    """Return the entries of a batch, one for each check point, and the messages that must be acknowledged alone."""
    offsets: defaultdict[tuple[str, ReceiptWords], list[int]] = defaultdict(list)
    alone: list[PoppedMessage] = []
    for message in messages:
        receipt, topic = message.receipt, message.record.topic
        bit = int(receipt.queue_offset) - int(receipt.start_offset)
        if not 0 <= bit < MAX_BATCH_BITS or topic.startswith(retry_topic(group)):
            alone.append(message)
        else:
            offsets[topic, receipt._replace(queue_offset="")].append(bit)
    acks = [
        BatchAck(
            group=group,
            topic=topic,
            retry=receipt.retry,
            start_offset=int(receipt.start_offset),
            queue_id=int(receipt.queue_id),
            revive_queue_id=int(receipt.revive_queue_id),
            popped_at_ms=int(receipt.popped_at_ms),
            invisible_ms=int(receipt.invisible_ms),
            bits=build_bit_set(bits),
        )
        for (topic, receipt), bits in offsets.items()
    ]
    return acks, alone


def _retry_kind(topic: str, group: str) -> str:
    """Return the kind of the group's retry topic from which a record was read, or ``NORMAL``."""
    if topic.startswith(retry_topic(group) + "+"):
        return RETRY_V2
    return RETRY_V1 if topic.startswith(retry_topic(group) + "_") else NORMAL
