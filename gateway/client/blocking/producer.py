"""``Producer``: sends messages from any number of threads.

    with Producer("orders", namesrv="localhost:9876") as producer:
        result = producer.send(Message("topic", b"hello"))

A thin face of ``gateway.client.aio.Producer``, which has the same methods and does the work on a private thread.
"""

from __future__ import annotations

import concurrent.futures
import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from gateway.client import aio, process
from gateway.client.blocking.face import GRACE, GroupFace
from gateway.client.blocking.hand_over import HandOver
from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.errors import ClientClosed
from gateway.client.message import Message, ReceivedMessage
from gateway.client.message_queue import MessageQueue
from gateway.client.results import SendResult, SendStatus

if TYPE_CHECKING:
    from gateway.client.send.sending import Selector


class Producer(GroupFace):
    """Sends the messages of one producer group; may be shared between threads, not between processes.

    Nothing is connected before the first message.

    :param group: 1 to 255 letters, digits, ``%|_-``.
    :param settings: None: ``ProducerSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :raises ConfigurationError: a setting cannot work; ``MessageRefused``: the name of the group is refused.
    """

    _core: aio.Producer
    settings: ProducerSettings
    _hand_over: HandOver | None = None

    def __init__(
        self, group: str, settings: ProducerSettings | None = None, *, namesrv: str | Sequence[str] | None = None
    ) -> None:
        super().__init__(aio.Producer(group, settings, namesrv=namesrv))

    def close(self, timeout: float | None = None) -> None:
        """Wait for the answers to sent messages, notify the brokers, and close the connections. Idempotent.

        :param timeout: seconds to wait for answers; None: 10. Messages without an answer then fail with
            ``ClientClosed``.
        """
        self._check_process()
        if sys.is_finalizing():
            super().close(timeout)
            return
        hand_over, self._hand_over = self._hand_over, None
        ends_at = time.monotonic() + (self._core.CLOSE_TIMEOUT if timeout is None else timeout)
        try:
            if hand_over is not None:
                hand_over.finish(ends_at - time.monotonic())
            super().close(max(ends_at - time.monotonic(), 0.0))
        finally:
            if hand_over is not None:
                hand_over.close()

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> SendResult:
        """Send a message and wait until the broker has stored it; ``aio.Producer.send`` describes further tries.

        :param queue: the target, one of ``publish_queues``; None: the next queue in turn, or the queue of the sharding
            key.
        :param selector: ``selector(queues, message)`` chooses the queue instead.
        :param timeout: seconds for all tries; None: ``send_msg_timeout``.
        :param accept: statuses other than SEND_OK that count as success.
        :raises MessageRefused: the message cannot be sent as it is. Nothing was sent.
        :raises NotSent: the message is stored, but not as safely as the broker's settings demand.
        :raises RocketMQError: the last try's failure; ``outcome_unknown`` is True if the message may be stored.
        """
        options = self._core.options(self._core.plain, queue, selector, timeout, accept)
        return self._running_hand_over().send_and_wait(message, options)

    def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> concurrent.futures.Future[SendResult]:
        """Send a message and return a future of its result; parameters and errors are those of ``send``.

        The call itself waits only for room; ``aio.Producer.send_async`` says more.

        Callbacks of the future run on the producer's own thread: they must be quick and must not call blocking methods
        of this producer.
        """
        options = self._core.options(self._core.plain_async, queue, selector, timeout, accept)
        return self._running_hand_over().send(message, options)

    def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, selector: Selector | None = None
    ) -> None:
        """Send a message without an answer: quick, but the message is lost without an error when something goes wrong.

        :raises MessageRefused: the message cannot be sent as it is.
        :raises RouteNotFound, ConnectError: no broker can be reached to write the message to.
        """
        self._run(self._core.send_oneway(message, queue=queue, selector=selector))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> list[SendResult]:
        """Send messages of one topic as a batch, in as many requests as their size needs.

        :param timeout: seconds for each request; None: ``send_msg_timeout``.
        :returns: a result for each message, in their order.
        :raises MessageRefused: the messages cannot travel in a batch: different topics, a delay, or no message at all.
        :raises PartlySent: some of several requests worked, and then one failed.
        """
        return self._run(self._core.send_batch(messages, queue=queue, timeout=timeout, accept=accept))

    def request(self, message: Message, *, timeout: float = 3.0, queue: MessageQueue | None = None) -> ReceivedMessage:
        """Send a message to a consumer that replies, and wait for its reply.

        :param timeout: seconds, for the way there and back.
        :raises RequestTimeout: no reply came within the timeout; the request may have been carried out.
        :raises RocketMQError: the request could not be sent.
        """
        return self._run(self._core.request(message, timeout=timeout, queue=queue), timeout + GRACE)

    def reply(self, request: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult:
        """Reply to a message that was sent with ``request``; for consumers.

        :raises MessageRefused: the message asks for no reply; ``BrokerError``: the client that asked is gone.
        """
        return self._run(self._core.reply(request, body, timeout=timeout))

    def recall(self, topic: str, recall_handle: str) -> str:
        """Take a timer message back before it is due, and return the id of the message.

        :param recall_handle: from the result of the send.
        :raises BrokerError: the message is delivered already, or the server does not recall.
        """
        return self._run(self._core.recall(topic, recall_handle))

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues of a topic that can be written.

        :raises RouteNotFound: the topic is not known.
        """
        return self._run(self._core.publish_queues(topic))

    def _started(self) -> None:
        self._hand_over = HandOver(self._thread, self._core.sender)

    def _let_go(self) -> None:
        core, hand_over = self._core, self._hand_over

        async def drop() -> None:
            if hand_over is not None:
                hand_over.finish(0.0)
                hand_over.close()
            await core.drop()

        self._thread.leave(drop)

    def _running_hand_over(self) -> HandOver:
        hand_over = self._hand_over
        if hand_over is None or self._pid != process.number:
            self._check_process()
            raise ClientClosed(self.name)
        return hand_over
