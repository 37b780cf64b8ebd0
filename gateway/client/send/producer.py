"""``aio.Producer``: sends messages with asyncio.

    async with Producer("orders", namesrv="localhost:9876") as producer:
        result = await producer.send(Message("topic", b"hello"))

``gateway.client.Producer`` is the blocking class.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gateway.client import process
from gateway.client.connect.answers import header_of
from gateway.client.connect.client import Client
from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.member import Answer, Member
from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.errors import (
    ClientClosed,
    ConfigurationError,
    MessageRefused,
    RequestTimeout,
    RocketMQError,
    broker_error,
)
from gateway.client.formats.replies import pushed_reply, reply_properties, reply_topic, request_properties
from gateway.client.message import Message, ReceivedMessage, check_is_message
from gateway.client.message_queue import MessageQueue
from gateway.client.names import check_group, check_topic, with_namespace, without_namespace
from gateway.client.results import SendResult, SendStatus
from gateway.client.send.sender import Sender
from gateway.client.send.sending import Selector, SendOptions
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.errors import FieldError
from wire.headers.send import RecallMessageRequest, RecallMessageResponse
from wire.message import recall_handle

if TYPE_CHECKING:
    from gateway.client.send.trace_sender import TraceSender

_log = logging.getLogger(__name__)

MAX_REQUESTS: Final = 65_535
"""The most calls of ``request`` that may wait for their reply at the same time."""


class Producer(Client, Member):
    """Sends the messages of one producer group.

    Nothing is connected before the first message. Methods may be called only from the event loop on which ``start``
    ran; ``gateway.client.Producer`` is the class for threads.

    :param group: 1 to 255 letters, digits, ``%|_-``.
    :param settings: None: ``ProducerSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :raises ConfigurationError: a setting cannot work; ``MessageRefused``: the name of the group is refused.
    """

    settings: ProducerSettings
    CLOSE_TIMEOUT = 10.0

    def __init__(
        self, group: str, settings: ProducerSettings | None = None, *, namesrv: str | Sequence[str] | None = None
    ) -> None:
        check_group(group)
        super().__init__(f"producer {group}")
        self.settings = ProducerSettings.chosen(settings, namesrv)
        self.group = group
        """The name of the group, without the namespace."""
        self._sender: Sender | None = None
        self._trace: TraceSender | None = None
        self._replies: dict[str, asyncio.Future[ReceivedMessage | None]] = {}
        self._asked_topics: set[str] = set()
        wait = self.settings.send_msg_timeout
        self.plain = SendOptions(timeout=wait, retries=self.settings.retry_times_when_send_failed)
        """The options of a ``send`` call with default arguments."""
        self.plain_async = SendOptions(timeout=wait, retries=self.settings.retry_times_when_send_async_failed)
        """The options of a ``send_async`` call with default arguments."""

    # --- life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make the producer ready. Idempotent.

        :raises ClientClosed: the producer was closed before: make a new producer.
        :raises ConfigurationError: the settings name no name server.
        """
        self._check_usable()
        if self._instance is not None:
            return
        instance = ClientInstance(self.settings)
        self._instance = instance
        self._watch()
        self._sender = self._make_sender(instance)
        await instance.start()
        instance.join(self._sender)
        instance.join(self)
        if self.settings.enable_trace:
            from gateway.client.send.tracing import PRODUCER, start_tracing  # few need it, and all would load it

            self._trace = self._sender.trace = start_tracing(instance, self.settings, self.group, PRODUCER)

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Wait for the answers to sent messages, notify the brokers, and close the connections. Idempotent.

        :param timeout: seconds to wait for answers; messages without an answer then fail with ``ClientClosed``.
        """
        if not self._closes_now():
            return
        for future in self._replies.values():
            if not future.done():
                future.set_result(None)
        instance = self._instance
        if instance is None or self._sender is None:
            return
        await self._sender.close(timeout)
        if self._trace is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._trace.flush()
        await instance.close()

    # --- sending --------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> SendResult:
        """Send a message and wait until the broker has stored it.

        A failed try is repeated on another broker, up to ``retry_times_when_send_failed`` times within the timeout. A
        send with a queue, a selector or a sharding key is not repeated.

        :param queue: the target, one of ``publish_queues``; None: the next queue in turn, or the queue of the sharding
            key.
        :param selector: ``selector(queues, message)`` chooses the queue instead.
        :param timeout: seconds for all tries; None: ``send_msg_timeout``.
        :param accept: statuses other than SEND_OK that count as success.
        :raises MessageRefused: the message cannot be sent as it is. Nothing was sent.
        :raises NotSent: the message is stored, but not as safely as the broker's settings demand.
        :raises RocketMQError: the last try's failure; ``outcome_unknown`` is True if the message may be stored.
        """
        options = self.options(self.plain, queue, selector, timeout, accept)
        return await (await self._running_sender().submit(message, options))

    async def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> asyncio.Future[SendResult]:
        """Send a message and return at once with a future of the result; wait only for room.

        The parameters are those of ``send``. The future gets the errors of ``send``, and failed tries are repeated up
        to ``retry_times_when_send_async_failed`` times. Messages are written in the order of the calls while a
        connection is open. There is room for ``max_in_flight`` messages and ``max_in_flight_bytes``; a further call
        waits until an answer comes.

        :raises MessageRefused: the message cannot be sent as it is.
        """
        options = self.plain_async
        if queue is not None or selector is not None or timeout is not None or accept:
            options = self.options(options, queue, selector, timeout, accept)
        sender = self._sender
        loop = asyncio.get_running_loop()
        if sender is None or self._is_closed or self._pid != process.number or sender.loop is not loop:
            sender = self._running_sender()
        future = sender.start_plain(message, options)
        if future is not None:
            return future
        return await sender.submit(message, options)

    async def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, selector: Selector | None = None
    ) -> None:
        """Send a message without an answer: quick, but the message is lost without an error when something goes wrong.

        :raises MessageRefused: the message cannot be sent as it is.
        :raises RouteNotFound, ConnectError: no broker can be reached to write the message to.
        """
        options = self.options(self.plain, queue, selector)
        await self._running_sender().send_oneway(message, options)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> list[SendResult]:
        """Send messages of one topic as a batch; far quicker than one by one.

        A batch of more than ``max_message_size`` bytes is cut into several requests, which are sent one after the
        other.

        :param timeout: seconds for each request; None: ``send_msg_timeout``.
        :returns: a result for each message, in their order.
        :raises MessageRefused: the messages cannot travel in a batch: different topics, a delay, or no message at all.
        :raises PartlySent: some of several requests worked, and then one failed.
        """
        options = self.options(self.plain, queue, None, timeout, accept)
        return await self._running_sender().send_batch(messages, options)

    async def request(
        self, message: Message, *, timeout: float = 3.0, queue: MessageQueue | None = None
    ) -> ReceivedMessage:
        """Send a message to a consumer that replies, and wait for its reply.

        :param timeout: seconds, for the way there and back.
        :raises RequestTimeout: no reply came within the timeout; the request may have been carried out.
        :raises RocketMQError: the request could not be sent.
        """
        check_is_message(message)
        sender = self._running_sender()
        instance = self._running_instance()
        if len(self._replies) >= MAX_REQUESTS:
            raise MessageRefused("request", f"is one too many: {MAX_REQUESTS} wait for their reply")
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout
        correlation_id = os.urandom(16).hex()
        coming: asyncio.Future[ReceivedMessage | None] = loop.create_future()
        self._replies[correlation_id] = coming
        try:
            async with asyncio.timeout_at(ends_at):
                await self._greet_brokers_of(message.topic)
                options = SendOptions(
                    timeout=max(ends_at - loop.time(), 0.001),
                    retries=self.settings.retry_times_when_send_failed,
                    queue=queue,
                    more_properties=request_properties(correlation_id, instance.client_id, round(timeout * 1000)),
                )
                await (await sender.submit(message, options))
                reply = await coming
        except TimeoutError as error:
            if isinstance(error, RocketMQError):
                raise
            what = f"request to a consumer of {message.topic!r} (is one running that replies?)"
            raise RequestTimeout(what, "the broker", timeout) from error
        finally:
            self._replies.pop(correlation_id, None)
        if reply is None:
            raise ClientClosed(self.name, "was closed before the reply came")
        return reply

    async def reply(self, request: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult:
        """Reply to a message that was sent with ``request``; for consumers.

        :param request: the received message.
        :raises MessageRefused: the message asks for no reply.
        :raises BrokerError: the client that asked is gone.
        """
        sender = self._running_sender()
        properties = reply_properties(request)
        message = Message(reply_topic(request), body)
        options = SendOptions(
            timeout=self.settings.send_msg_timeout if timeout is None else timeout,
            retries=0,
            selector=lambda queues, _: _queue_of_broker(queues, request.queue.broker_name),
            more_properties=properties,
            code=int(RequestCode.SEND_REPLY_MESSAGE_V2),
        )
        return await (await sender.submit(message, options))

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Take a timer message back before it is due.

        :param recall_handle: from the result of the send.
        :returns: the id of the message.
        :raises BrokerError: the message is delivered already, or the broker does not recall. Recall needs the setting
            recallMessageEnable=true (of this gateway, or of Apache RocketMQ from 5.3.2 on).
        """
        check_topic(topic)
        instance = self._running_instance()
        handle = parse_recall_handle(recall_handle)
        wire_topic = with_namespace(self.settings.namespace, topic)
        await instance.route(wire_topic)
        header = RecallMessageRequest(
            producer_group=with_namespace(self.settings.namespace, self.group),
            topic=wire_topic,
            recall_handle=recall_handle,
        )
        timeout = self.settings.send_msg_timeout
        is_recalled = False
        try:
            answer = await instance.ask(handle.broker_name, RequestCode.RECALL_MESSAGE, header, timeout=timeout)
            msg_id = header_of(RecallMessageResponse, answer, f"broker {handle.broker_name}").msg_id
            is_recalled = True
        finally:
            if self._trace is not None:
                self._trace.recalled(self.group, topic, handle.unique_key, success=is_recalled)
        return msg_id

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues of a topic that can be written.

        :raises RouteNotFound: the topic is not known.
        """
        check_topic(topic)
        route = await self._running_instance().route(with_namespace(self.settings.namespace, topic))
        namespace = self.settings.namespace
        return tuple(queue._replace(topic=without_namespace(namespace, queue.topic)) for queue in route.publish_queues)

    # --- for the blocking face and for other clients of this package ------------------------------------------

    @property
    def sender(self) -> Sender:
        """The sender of this producer.

        :raises ClientClosed: the producer is not running; ``UsedAfterFork``: the producer belongs to another process.
        """
        self._known_instance()
        assert self._sender is not None, "it is made together with the instance"
        return self._sender

    def options(
        self,
        plain: SendOptions,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> SendOptions:
        """Return the options of one call, made from its parameters.

        :param plain: the options of a call without parameters: ``plain`` or ``plain_async``.
        """
        if queue is None and selector is None and timeout is None and not accept:
            return plain
        wait = plain.timeout if timeout is None else timeout
        if not isinstance(wait, int | float) or not wait > 0:
            raise ConfigurationError("timeout", timeout, "a number of seconds over 0")
        return SendOptions(
            timeout=wait, retries=plain.retries, queue=queue, selector=selector, accept=frozenset(accept)
        )

    # --- as a member, beside the sender, which registers the group and knows the topics ----------------------

    def answers(self) -> Mapping[int, Answer]:
        """Return the handler of replies to requests."""
        return {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._take_reply}

    # --- inside ---------------------------------------------------------------------------------------------

    def _running_sender(self) -> Sender:
        self._running_instance()
        return self.sender

    def _make_sender(self, instance: ClientInstance) -> Sender:
        """Return the sender of this group; subclasses return their own kind of sender."""
        return Sender(instance, self.group, self.settings)

    async def _greet_brokers_of(self, topic: str) -> None:
        """Send a heartbeat to the brokers of a topic before the first request.

        Brokers can push replies only to clients that they know.
        """
        if topic in self._asked_topics:
            return
        instance = self._running_instance()
        settings = self.settings
        await instance.route(
            with_namespace(settings.namespace, topic),
            template=settings.create_topic_key,
            template_queues=settings.default_topic_queue_nums,
        )
        await instance.heartbeat()
        self._asked_topics.add(topic)

    async def _take_reply(self, command: RemotingCommand, address: str) -> RemotingCommand | None:
        correlation_id, reply = pushed_reply(command)
        waiting = self._replies.get(correlation_id or "")
        if waiting is None or waiting.done():
            _log.info("%s pushed a reply nobody waits for any more: %s", address, correlation_id)
        else:
            waiting.set_result(reply)
        return command.response(ResponseCode.SUCCESS)


def parse_recall_handle(handle: str) -> recall_handle.RecallHandle:
    """Return the content of a handle.

    :raises ConfigurationError: the text is not a handle.
    """
    try:
        found = recall_handle.parse_recall_handle(handle)
        int(found.timestamp)
    except (FieldError, ValueError) as error:
        raise ConfigurationError("recall_handle", handle, "SendResult.recall_handle of a timer message") from error
    return found


def _queue_of_broker(queues: Sequence[MessageQueue], broker_name: str) -> MessageQueue:
    for queue in queues:
        if queue.broker_name == broker_name:
            return queue
    remark = f"the reply topic has no queue on broker {broker_name!r}, which stored the request"
    raise broker_error(ResponseCode.TOPIC_NOT_EXIST, remark, broker_name)
