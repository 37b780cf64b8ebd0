"""``aio.SimpleConsumer``: takes messages, hides them from others for a while, and acknowledges them one by one.

    async with SimpleConsumer("mail", namesrv="localhost:9876", subscriptions={"orders": "*"}) as consumer:
        for message in await consumer.receive(16, invisible_time=30):
            ...
            await consumer.ack(message)

It is POP consumption of RocketMQ 5 (request codes 200050, 200051, 200053): the broker shares out messages, not
queues, and what is not acknowledged in time comes again. It needs a broker that has it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.client.aio.group_consumer import GroupConsumer
from gateway.client.aio.member import Answer
from gateway.client.consume_positions import ConsumeFrom
from gateway.client.consumer_settings import SimpleSettings
from gateway.client.errors import ClientClosed, ConfigurationError, RouteNotFound, broker_error
from gateway.client.message import ReceivedMessage
from gateway.client.pop_handles import NORMAL, RETRY_V1, RETRY_V2, PopReceipts, Receipt, parse_receipt
from gateway.client.routes import TopicRoute
from gateway.client.subscriptions import Sql, retry_topic
from wire.bodies.heartbeat import ConsumeType
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import read_header
from wire.headers.pop import (
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage, parse_records

CLOSE_TIMEOUT: Final = 5.0
"""Seconds ``close`` takes at most unless it is told otherwise."""
MAX_MESSAGES: Final = 32
"""Messages of one pop; brokers refuse more."""
_ANY_QUEUE: Final = -1
_FROM_FIRST, _FROM_LAST = 0, 1
_BEYOND_HOLD: Final = 10.0
"""Seconds a pop may take beyond the time it is held, as upstream."""
_FULL_PAUSE: Final = 0.5
_NOTHING: Final = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class PoppedMessage(ReceivedMessage):
    """A message with the receipt that acknowledges it."""

    __slots__ = ("hidden_until", "receipt")

    def __init__(self, record: StoredMessage, broker_name: str, receipt: Receipt, until: float, namespace: str) -> None:
        super().__init__(record, broker_name, namespace=namespace)
        self.receipt = receipt
        """What the broker wants to see again; another one after ``change_invisible_time``."""
        self.hidden_until = until
        """Until when others do not get it, by the event loop's clock."""


class _Source(NamedTuple):
    """Where messages are taken from: all queues of a topic on one broker."""

    topic: str
    broker_name: str


class SimpleConsumer(GroupConsumer):
    """See the module.

    :param group: 1 to 255 letters, digits, ``%|_-``.
    :param settings: None: ``SimpleSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :param subscriptions: topic → tags (``"A || B"``, ``"*"``) or ``Sql(...)``.
    :raises ConfigurationError: a setting cannot work; ``MessageRefused``: the name of a group or topic cannot.
    """

    settings: SimpleSettings
    _consume_type = ConsumeType.CONSUME_POP

    def __init__(
        self,
        group: str,
        settings: SimpleSettings | None = None,
        *,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, str | Sql] | None = None,
    ) -> None:
        super().__init__("simple consumer", group, SimpleSettings.chosen(settings, namesrv), subscriptions)
        self._pops: dict[_Source, asyncio.Task[list[PoppedMessage]]] = {}
        self._left: list[PoppedMessage] = []
        self._turn = itertools.count()

    # --- life -----------------------------------------------------------------------------------------------

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Leave the group and close the connections; what is not acknowledged comes again. Idempotent.

        :param timeout: seconds at most.
        """
        self._check_process()
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._pops.values():
            task.cancel()
        await asyncio.gather(*self._pops.values(), return_exceptions=True)
        if self._instance is not None:
            await asyncio.wait_for(self._instance.close(), timeout)

    # --- receiving ------------------------------------------------------------------------------------------

    async def receive(
        self, max_messages: int = 16, *, invisible_time: float | None = None, timeout: float | None = None
    ) -> list[PoppedMessage]:
        """Take messages; empty when none came in time. For one task at a time.

        :param max_messages: 1 … 32.
        :param invisible_time: seconds for which others do not get them; None: ``invisible_time`` of the settings.
        :param timeout: seconds to wait for a message; None: ``poll_time`` of the settings.
        :raises RouteNotFound: none of the topics exists.
        :raises BrokerError: the broker refuses, or has no POP consumption.
        """
        self._running_instance()
        if not 1 <= max_messages <= MAX_MESSAGES:
            raise ConfigurationError("max_messages", max_messages, f"1 to {MAX_MESSAGES}")
        hidden = self.settings.invisible_time if invisible_time is None else invisible_time
        if not 1 <= hidden <= 43_200:
            raise ConfigurationError("invisible_time", hidden, "1 to 43200 seconds")
        loop = asyncio.get_running_loop()
        end = loop.time() + (self.settings.poll_time if timeout is None else timeout)
        while True:
            found = self._take_left(max_messages)
            if found:
                return found
            left = end - loop.time()
            await self._start_pops(max_messages, hidden, max(0.0, left))
            done, _ = await asyncio.wait(self._pops.values(), return_when=asyncio.FIRST_COMPLETED)
            self._collect(done)
            if not self._left and loop.time() >= end:
                return []

    async def ack(self, messages: PoppedMessage | Iterable[PoppedMessage]) -> None:
        """Acknowledge: they are consumed and do not come again.

        An acknowledgement after the invisible time is taken without complaint, and the message comes again.

        :raises BrokerError: a broker does not know such a message.
        """
        given = [messages] if isinstance(messages, PoppedMessage) else list(messages)
        await asyncio.gather(*(self._ack(message) for message in given))

    async def change_invisible_time(self, message: PoppedMessage, invisible_time: float) -> None:
        """Hide a message for another while, from now; 0 gives it to others at once.

        :param invisible_time: seconds.
        :raises BrokerError: the broker does not know such a message.
        """
        instance = self._running_instance()
        receipt = message.receipt
        header = ChangeInvisibleTimeRequest(
            consumer_group=self.group,
            topic=receipt.real_topic(message.record.topic, self.group),
            queue_id=int(receipt.queue_id),
            extra_info=str(receipt),
            offset=int(receipt.queue_offset),
            invisible_time=round(invisible_time * 1000),
        )
        answer = await instance.ask(receipt.broker_name, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        terms = read_header(ChangeInvisibleTimeResponse, answer)
        message.receipt = receipt.renewed(terms.pop_time, terms.invisible_time, terms.revive_qid)
        message.hidden_until = asyncio.get_running_loop().time() + invisible_time

    # --- a member of the client instance --------------------------------------------------------------------

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        """Sources are looked up for every ``receive``."""

    def answers(self) -> Mapping[int, Answer]:
        """A change of members concerns the broker alone."""
        return {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: _no_answer}

    # --- inside ---------------------------------------------------------------------------------------------

    def _take_left(self, most: int) -> list[PoppedMessage]:
        """What an earlier pop brought beside what was returned, unless others may have it by now."""
        now = asyncio.get_running_loop().time()
        fresh = [message for message in self._left if message.hidden_until > now]
        self._left = fresh[most:]
        return fresh[:most]

    async def _start_pops(self, most: int, hidden: float, hold: float) -> None:
        """Have a pop at every source; the one that answers first is taken, the others wait on."""
        sources = await self._sources()
        first = next(self._turn) % len(sources)
        for source in sources[first:] + sources[:first]:
            if source not in self._pops:
                work = self._pop(source, most, hidden, hold)
                self._pops[source] = asyncio.create_task(work, name=f"pop of {source.topic}")

    def _collect(self, done: Collection[asyncio.Task[list[PoppedMessage]]]) -> None:
        for source, task in list(self._pops.items()):
            if task in done:
                del self._pops[source]
        for task in done:
            if task.cancelled():
                raise ClientClosed(self.name, "was closed")
            self._left += task.result()

    async def _sources(self) -> list[_Source]:
        instance = self._running_instance()
        sources: list[_Source] = []
        missing: RouteNotFound | None = None
        for topic in self._subscriptions:
            try:
                route = await instance.route(topic)
            except RouteNotFound as error:
                missing = error
                continue
            sources += [
                _Source(topic, name) for name in sorted({queue.broker_name for queue in route.subscribe_queues})
            ]
        if not sources:
            raise missing or RouteNotFound(
                next(iter(self._subscriptions)), self.settings.name_servers, "no broker has readable queues"
            )
        return sources

    async def _pop(self, source: _Source, most: int, hidden: float, hold: float) -> list[PoppedMessage]:
        instance = self._running_instance()
        loop = asyncio.get_running_loop()
        subscription = self._subscriptions[source.topic]
        header = PopMessageRequest(
            consumer_group=self.group,
            topic=source.topic,
            queue_id=_ANY_QUEUE,
            max_msg_nums=most,
            invisible_time=round(hidden * 1000),
            poll_time=round(hold * 1000),
            born_time=0,  # now, by the broker's clock: by another one it may be over before it begins
            init_mode=_FROM_FIRST if self.settings.consume_from_where is ConsumeFrom.FIRST_OFFSET else _FROM_LAST,
            exp_type=subscription.expression_type,
            exp=subscription.expression,
        )
        address = instance.address_of(source.broker_name)
        answer = await instance.remoting.request(address, RequestCode.POP_MESSAGE, header, timeout=hold + _BEYOND_HOLD)
        if answer.code == ResponseCode.POLLING_FULL:
            await asyncio.sleep(_FULL_PAUSE)
            return []
        if answer.code in _NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark, address)
        messages = self._messages(answer, source, loop.time() + hidden)
        wanted = [message for message in messages if subscription.accepts(message.tags or None)]
        if len(wanted) < len(messages):  # another tag with the same hash
            await self.ack(message for message in messages if message not in wanted)
        return wanted

    def _messages(self, answer: RemotingCommand, source: _Source, until: float) -> list[PoppedMessage]:
        response = read_header(PopMessageResponse, answer)
        receipts = PopReceipts(response, source.broker_name)
        messages: list[PoppedMessage] = []
        for record in parse_records(answer.body):
            given = record.property_map.get(PropertyName.POP_CK)
            if given is not None:
                receipt = parse_receipt(given)
            else:
                kind = _retry_kind(record.topic, self.group)
                receipt = receipts.next_receipt(kind, record.queue_id, record.queue_offset)
            messages.append(PoppedMessage(record, source.broker_name, receipt, until, self.settings.namespace))
        return messages

    async def _ack(self, message: PoppedMessage) -> None:
        receipt = message.receipt
        header = AckMessageRequest(
            consumer_group=self.group,
            topic=receipt.real_topic(message.record.topic, self.group),
            queue_id=int(receipt.queue_id),
            extra_info=str(receipt),
            offset=int(receipt.queue_offset),
        )
        await self._running_instance().ask(receipt.broker_name, RequestCode.ACK_MESSAGE, header)


async def _no_answer(_request: RemotingCommand, _address: str) -> RemotingCommand | None:
    return None


def _retry_kind(topic: str, group: str) -> str:
    """Which of a group's retry topics a record was read from, if any."""
    if topic.startswith(retry_topic(group) + "+"):
        return RETRY_V2
    return RETRY_V1 if topic.startswith(retry_topic(group) + "_") else NORMAL
