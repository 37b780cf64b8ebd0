"""Answers to the requests that brokers send to a consumer.

Rebalance (40), reset offsets (220), report offsets (221), report the consumer's state (307), consume one message now
(309).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gateway.client.consume.running_info import QueueStates, build_direct_result, build_running_info, thread_stacks
from gateway.client.message import ReceivedMessage
from gateway.client.message_queue import MessageQueue
from gateway.client.retry_later import ListenerOutcome, RetryLater
from wire.bodies.consumers import GetConsumerStatusBody
from wire.bodies.declare import JsonObject
from wire.bodies.message_queue import MessageQueue as WireQueue
from wire.codes import RequestCode, ResponseCode
from wire.errors import BodyError, WireError
from wire.headers.admin import ConsumeMessageDirectlyResultRequest, GetConsumerRunningInfoRequest
from wire.headers.declare import parse_header
from wire.headers.offsets import GetConsumerStatusRequest, ResetOffsetRequest
from wire.message.record import parse_record

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.connect.member import Answer
    from gateway.client.consume.pop.pop_queue import PopQueue
    from gateway.client.consume.sharing.assigned_queues import AssignedQueues
    from gateway.client.consume.subscriptions import Subscription
    from wire.command import RemotingCommand

_log = logging.getLogger(__name__)

ConsumeNow = Callable[[ReceivedMessage], Awaitable[ListenerOutcome]]


class Introspection(Protocol):
    """The facts about a consumer that tools can read."""

    group: str
    """The group's name with its namespace."""

    def topics(self) -> Collection[str]:
        """Return the topics that are subscribed to now, with the retry topic if the consumer has one."""

    def properties(self) -> Mapping[str, str]:
        """Return the settings as text, and values with upstream's ``PROP_…`` names."""

    def subscriptions(self) -> Mapping[str, Subscription]:
        """Return the subscriptions by topic."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A consumer's listener, as a broker can call it."""

    consume_now: ConsumeNow
    """Gives one message to the listener, outside all turns."""
    is_orderly: bool


class BrokerCalls:
    """The answers of one consumer.

    :param wake: asks for a rebalance soon.
    :param popped: returns the queues that are popped now.
    :param listening: None: this consumer has no listener.
    """

    def __init__(
        self,
        instance: ClientInstance,
        queues: AssignedQueues,
        about: Introspection,
        *,
        wake: Callable[[], None],
        listening: Listening | None = None,
        popped: Callable[[], Collection[PopQueue]] = tuple,
    ) -> None:
        self._instance = instance
        self._popped = popped
        self._queues = queues
        self._about = about
        self._wake = wake
        self._listening = listening

    def answers(self) -> Mapping[int, Answer]:
        """Return the methods that answer, by request code."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self.ids_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self.reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.tell_offsets,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.tell_about_us,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    async def ids_changed(self, _request: RemotingCommand, _address: str) -> RemotingCommand | None:
        """Rebalance soon (40): members have joined or left."""
        self._wake()
        return None

    async def reset_offsets(self, request: RemotingCommand, address: str) -> RemotingCommand | None:
        """Set the progress of some queues (220); the broker does not wait for an answer."""
        header = parse_header(ResetOffsetRequest, request.ext_fields)
        try:
            offsets = parse_reset(request.body)
        except BodyError as error:
            _log.warning("%s asks for a reset of offsets that cannot be read: %s", address, error)
            return None
        if header.group == self._queues.group:
            await self._queues.reset(offsets)
        return None

    async def tell_offsets(self, request: RemotingCommand, _address: str) -> RemotingCommand | None:
        """Return the progress in memory (221)."""
        header = parse_header(GetConsumerStatusRequest, request.ext_fields)
        table = self._queues.table.of_topic(header.topic)
        body = GetConsumerStatusBody({WireQueue(*queue): offset for queue, offset in table.items()}).build()
        return request.response(ResponseCode.SUCCESS, body=body)

    async def tell_about_us(self, request: RemotingCommand, _address: str) -> RemotingCommand | None:
        """Return settings, subscriptions, the state of each queue, and on request the stacks of the threads (307)."""
        header = parse_header(GetConsumerRunningInfoRequest, request.ext_fields)
        body = build_running_info(
            properties=self._about.properties(),
            subscriptions=list(self._about.subscriptions().values()),
            queues=QueueStates(list(self._queues.states.values()), self._queues.table.of_topic(""), self._popped()),
            epoch_ms=self._instance.clock(),
            now=asyncio.get_running_loop().time(),
            stacks=thread_stacks() if header.jstack_enable else None,
        )
        return request.response(ResponseCode.SUCCESS, body=body)

    async def consume_directly(self, request: RemotingCommand, _address: str) -> RemotingCommand | None:
        """Give one message to the listener and report the result (309); offsets do not change."""
        listening = self._listening
        if listening is None:
            return request.response(ResponseCode.SYSTEM_ERROR, "this consumer has no listener")
        header = parse_header(ConsumeMessageDirectlyResultRequest, request.ext_fields)
        try:
            record = parse_record(request.body)
        except WireError as error:
            return request.response(ResponseCode.SYSTEM_ERROR, f"the message cannot be read: {error}")
        namespace = self._instance.settings.namespace
        message = ReceivedMessage(record, header.broker_name or "", namespace=namespace)
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        outcome = await listening.consume_now(message)
        if outcome.error is not None and not isinstance(outcome.error, RetryLater):
            _log.warning("the listener failed with %s, as an operator is told", message, exc_info=outcome.error)
        spent_ms = round((loop.time() - begun_at) * 1000)
        body = build_direct_result(outcome, is_orderly=listening.is_orderly, spent_ms=spent_ms)
        return request.response(ResponseCode.SUCCESS, body=body)


def parse_reset(body: bytes) -> dict[MessageQueue, int]:
    """Return the offsets of a reset, in the form for Java (a map with queues as keys) or for C++ (a list).

    :raises BodyError: the body has neither form.
    """
    value = JsonObject.read_json(body)
    table = value.get("offsetTable") if isinstance(value, dict) else None
    if isinstance(table, dict):
        return {_queue(WireQueue.parse(key)): _offset(offset) for key, offset in table.items()}
    if isinstance(table, list):
        return {_queue(WireQueue.from_json(entry)): _offset(entry.get("offset")) for entry in table}
    raise BodyError("a reset has an offsetTable")


def _queue(queue: WireQueue) -> MessageQueue:
    return MessageQueue(queue.topic, queue.broker_name, queue.queue_id)


def _offset(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise BodyError(f"an offset is a number of 0 or more, not {value!r}")
    return value
