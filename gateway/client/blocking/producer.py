"""``Producer``: sends messages from any number of threads.

    with Producer("orders", namesrv="localhost:9876") as producer:
        result = producer.send(Message("topic", b"hello"))

The thin face of ``gateway.client.aio.Producer``, which has the same methods and does the work on a private thread.
"""

from __future__ import annotations

import concurrent.futures
import threading
import warnings
from collections.abc import Collection, Sequence
from typing import Any, Final, Self

from gateway.client import process
from gateway.client.aio import producer as core
from gateway.client.aio.sending import Selector, SendOptions
from gateway.client.blocking.hand_over import HandOver
from gateway.client.errors import ClientClosed, RequestTimeout, UsedAfterFork
from gateway.client.loop_thread import LoopThread
from gateway.client.message import Message, MessageQueue, ReceivedMessage
from gateway.client.results import SendResult, SendStatus
from gateway.client.settings import ProducerSettings

_GRACE: Final = 5.0
"""Seconds beyond its own timeout after which a call gives up on the loop's thread."""


class Producer:
    """Sends the messages of one producer group; safe to share between threads, not between processes.

    Nothing is connected before the first message.

    :param group: 1 to 255 letters, digits, ``%|_-``.
    :param settings: None: ``ProducerSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :raises ConfigurationError: a setting cannot work; ``MessageRefused``: the group's name cannot.
    """

    def __init__(
        self, group: str, settings: ProducerSettings | None = None, *, namesrv: str | Sequence[str] | None = None
    ) -> None:
        self._core = core.Producer(group, settings, namesrv=namesrv)
        self._thread = LoopThread(f"producer {group}")
        self._hand_over: HandOver | None = None
        self._lock = threading.Lock()
        self._pid = process.number

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.is_running and self._pid == process.number:
            _warn(f"producer {self.group} was not closed", ResourceWarning, source=self, stacklevel=1)
            self._core.abandon()
            thread.stop()

    @property
    def group(self) -> str:
        """The name of the group, without the namespace."""
        return self._core.group

    @property
    def settings(self) -> ProducerSettings:
        """As they are in force."""
        return self._core.settings

    @property
    def client_id(self) -> str:
        """``ip@instance``, as brokers and tools list this client."""
        return self._core.client_id

    def start(self) -> None:
        """Make it ready; idempotent.

        :raises ClientClosed: it was closed before: make a new one.
        :raises ConfigurationError: there is no name server in the settings.
        """
        self._check_process()
        with self._lock:
            if self._hand_over is not None:
                return
            self._thread.start()
            try:
                self._thread.run(self._core.start())
            except BaseException:
                self._thread.stop()
                raise
            self._hand_over = HandOver(self._thread, self._core.sender)

    def close(self, timeout: float = core.CLOSE_TIMEOUT) -> None:
        """Wait for the answers to what was sent, tell the brokers, close the connections; idempotent.

        :param timeout: seconds to wait for answers; messages without one then fail with ``ClientClosed``.
        """
        self._check_process()
        with self._lock:
            hand_over, self._hand_over = self._hand_over, None
            if self._thread.is_running:
                try:
                    self._thread.run(self._core.close(timeout), timeout + _GRACE)
                finally:
                    self._core.abandon()
                    self._thread.stop()
            else:
                self._core.abandon()
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
        """Send a message and wait until the broker has stored it; see ``aio.Producer.send``."""
        options = self._core.send_options(queue=queue, selector=selector, timeout=timeout, accept=accept)
        return self._result(self._handed(message, options), options.timeout)

    def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> concurrent.futures.Future[SendResult]:
        """Send a message and return a future of its result; waits only for room, see ``aio.Producer.send_async``.

        Callbacks added to the future run on the producer's own thread: they must be quick and must not call
        blocking methods of this producer.
        """
        options = self._core.send_async_options(queue=queue, selector=selector, timeout=timeout, accept=accept)
        return self._handed(message, options)

    def send_oneway(
        self, message: Message, *, queue: MessageQueue | None = None, selector: Selector | None = None
    ) -> None:
        """Send a message that nobody confirms; see ``aio.Producer.send_oneway``."""
        self._check_process()
        self._thread.run(self._core.send_oneway(message, queue=queue, selector=selector))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
        accept: Collection[SendStatus] = (),
    ) -> list[SendResult]:
        """Send messages of one topic together; a result for each. See ``aio.Producer.send_batch``."""
        self._check_process()
        return self._thread.run(self._core.send_batch(messages, queue=queue, timeout=timeout, accept=accept))

    def request(self, message: Message, *, timeout: float = 3.0, queue: MessageQueue | None = None) -> ReceivedMessage:
        """Send a message to a consumer that replies, and wait for its reply; see ``aio.Producer.request``."""
        self._check_process()
        return self._thread.run(self._core.request(message, timeout=timeout, queue=queue), timeout + _GRACE)

    def reply(self, request: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult:
        """Reply to a message that was sent with ``request``; see ``aio.Producer.reply``."""
        self._check_process()
        return self._thread.run(self._core.reply(request, body, timeout=timeout))

    def recall(self, topic: str, recall_handle: str) -> str:
        """Take a timer message back before it is due; see ``aio.Producer.recall``."""
        self._check_process()
        return self._thread.run(self._core.recall(topic, recall_handle))

    def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be written.

        :raises RouteNotFound: the topic is not known.
        """
        self._check_process()
        return self._thread.run(self._core.publish_queues(topic))

    def _handed(self, message: Message, options: SendOptions) -> concurrent.futures.Future[SendResult]:
        hand_over = self._hand_over
        if hand_over is None or self._pid != process.number:
            self._check_process()
            raise ClientClosed(f"producer {self.group}")
        return hand_over.send(message, options)

    def _result(self, future: concurrent.futures.Future[SendResult], timeout: float) -> SendResult:
        try:
            return future.result(timeout + _GRACE)
        except concurrent.futures.TimeoutError as error:
            if future.done():
                raise
            raise RequestTimeout("send", "the client's own thread", timeout + _GRACE) from error

    def _check_process(self) -> None:
        if self._pid != process.number:
            raise UsedAfterFork(f"producer {self.group}")
