"""The hand-over of messages from threads to the loop that sends them: many messages with one wake-up.

Waking a loop costs more than sending a message. So a thread that finds the loop awake only leaves its message. The
limit of messages in flight is applied here, on the side of the threads, since the threads have to wait.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.client.blocking.direct_sends import DirectSends
from gateway.client.blocking.face import GRACE
from gateway.client.blocking.waiting import Condition, ThreadFuture
from gateway.client.errors import ClientClosed, RequestTimeout, RocketMQError
from gateway.client.formats.outgoing import compressed_body
from gateway.client.message import Message, check_is_message
from gateway.client.results import SendResult

if TYPE_CHECKING:
    from gateway.client.blocking.loop_thread import LoopThread
    from gateway.client.send.sender import Sender
    from gateway.client.send.sending import SendOptions

_ROOM_TIMEOUT: Final = 600.0
"""The most seconds that a call waits for room; answers and timeouts make room long before."""


class _Handed(NamedTuple):
    message: Message
    options: SendOptions
    packed: tuple[bytes, int] | None
    future: concurrent.futures.Future[SendResult]


class SendRoom:
    """Counts messages and bytes in flight. Threads wait here when the limit is reached."""

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._bytes_by_message: dict[object, int] = {}
        self._bytes = 0
        self._freed = Condition()  # reentrant, as in ``DirectSends``

    def take(self, message: object, size_bytes: int) -> None:
        """Wait for room for one message, and take the room.

        :param message: an object that stands for the message.
        :raises RequestTimeout: no room became free for ten minutes.
        """
        with self._freed:
            if not self._has_room() and not self._freed.wait_for(self._has_room, _ROOM_TIMEOUT):
                raise RequestTimeout("send", "this client", _ROOM_TIMEOUT, outcome_unknown=False)
            self._bytes_by_message[message] = size_bytes
            self._bytes += size_bytes

    def give(self, message: object) -> None:
        """Free the room of one message. Does nothing if the message has no room."""
        with self._freed:
            size_bytes = self._bytes_by_message.pop(message, None)
            if size_bytes is not None:
                self._bytes -= size_bytes
                self._freed.notify()

    def _has_room(self) -> bool:
        return len(self._bytes_by_message) < self._most_messages and self._bytes < self._most_bytes


class HandOver:
    """Passes messages from any thread to a sender on its loop.

    :param sender: starts the messages; called on the loop's thread only.
    """

    def __init__(self, thread: LoopThread, sender: Sender) -> None:
        self._thread = thread
        self._sender = sender
        self._waiting: deque[_Handed] = deque()
        self._is_awake = False
        self._is_closed = False
        self._room = SendRoom(sender.settings.max_in_flight, sender.settings.max_in_flight_bytes)
        self._direct = DirectSends(sender, lambda call: thread.loop.call_soon_threadsafe(call))

    def send_and_wait(self, message: Message, options: SendOptions) -> SendResult:
        """Send a message and return its result.

        :raises RocketMQError: the reason why there is no result.
        """
        self._thread.refuse_current()
        sent = self._direct.send(message, options, self._packed(message)) if not self._waiting else None
        if isinstance(sent, SendResult):
            return sent
        future = self.send(message, options) if sent is None else sent
        timeout = options.timeout + GRACE
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError as error:
            if future.done():
                raise
            raise RequestTimeout("send", "the client's own thread", timeout) from error

    def send(self, message: Message, options: SendOptions) -> concurrent.futures.Future[SendResult]:
        """Pass a message on as soon as there is room, and return a future of its result.

        If the loop is gone, the future fails with ``ClientClosed``.

        :raises MessageRefused: the message cannot be sent as it is.
        """
        self._thread.refuse_current()
        packed = self._packed(message)
        future: ThreadFuture[SendResult] = ThreadFuture()
        future.set_running_or_notify_cancel()  # what is on its way cannot be called back
        future.add_done_callback(self._room.give)
        try:
            self._room.take(future, len(message.body))
            self._hand_over(_Handed(message, options, packed, future))
        except BaseException:  # a signal: the message may be on its way, or never be
            self._room.give(future)
            raise
        return future

    def _hand_over(self, handed: _Handed) -> None:
        self._waiting.append(handed)
        if not self._is_awake:
            self._is_awake = True
            try:
                self._thread.loop.call_soon_threadsafe(self._start_all)
            except (RuntimeError, ClientClosed):  # the loop ended between the caller's look and this one
                self.close()
            except BaseException:  # a signal: whether the loop was woken is not known
                self._is_awake = False
                raise
        if self._is_closed:
            self._fail_all()

    def finish(self, timeout: float) -> None:
        """Wait for the threads that wait for an answer without the loop, while the loop still runs."""
        self._direct.close(timeout)

    def close(self) -> None:
        """Fail all messages that were not started, and all messages from now on: no loop will take them."""
        self._is_closed = True
        self._fail_all()

    def _packed(self, message: Message) -> tuple[bytes, int] | None:
        """Return a long body compressed, in the sending thread; None for a short body."""
        check_is_message(message)
        settings = self._sender.settings
        is_long = len(message.body) >= settings.compress_msg_body_over
        return compressed_body(message, settings) if is_long else None

    def _start_all(self) -> None:
        # From here on a thread that adds a message wakes the loop again: it may come after the last look below.
        self._is_awake = False
        waiting = self._waiting
        while waiting:
            handed = waiting.popleft()
            try:
                self._sender.start_with(handed.future, handed.message, handed.options, handed.packed)
            except RocketMQError as error:
                handed.future.set_exception(error)

    def _fail_all(self) -> None:
        with contextlib.suppress(IndexError):  # two threads may empty it at the same time
            while True:
                self._waiting.popleft().future.set_exception(ClientClosed("producer", "is closed"))
