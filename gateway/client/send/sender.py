"""The sender: sends messages over a client instance, chooses queues, repeats failed sends, counts what is in flight.

A message needs no task: ``start`` writes the message, and the connection calls ``Sending.answered``. Slower work runs
in a task of its own: an unknown route, a new connection, another try.

``Producer`` is the public class. Traces use a sender of their own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, overload

from gateway.client.connect.connection import BrokerConnection
from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.member import Member
from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.connect.routes import TopicRoute
from gateway.client.errors import (
    BrokerError,
    ClientClosed,
    ConnectError,
    NotSent,
    PartlySent,
    RequestTimeout,
    RocketMQError,
)
from gateway.client.formats.outgoing import compressed_body, is_plain
from gateway.client.formats.unique_ids import UniqueIds
from gateway.client.message import Message, check_is_message
from gateway.client.names import with_namespace
from gateway.client.results import SendResult, SendStatus, single_results
from gateway.client.send.in_flight import InFlight
from gateway.client.send.known_topics import KnownTopics
from gateway.client.send.queue_choice import BrokerFaults
from gateway.client.send.send_preparation import SendPreparation
from gateway.client.send.sending import NOBODY, SendFuture, Sending, SendOptions, SendTarget
from gateway.client.send.spans import SendSpans
from wire.codes import RequestCode, ResponseCode
from wire.command import ONEWAY_FLAG
from wire.headers.send import SendMessageResponse

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from gateway.client.send.trace_sender import TraceSender

_log = logging.getLogger(__name__)

_SAME_BROKER_PAUSE: Final = 0.05
"""The seconds before a broker that refused is asked again, times the number of tries, if there is no other broker."""
_COMPRESS_ASIDE_BYTES: Final = 65_536
"""The body size in bytes from which a body is compressed in a thread, so that the loop can do other work."""


class Sender(Member):
    """Sends the messages of one group.

    :param group: the producer group, without the namespace.
    """

    def __init__(self, instance: ClientInstance, group: str, settings: ProducerSettings) -> None:
        self.settings = settings
        ids = UniqueIds(instance.client_ip, os.getpid(), clock=instance.clock, random=instance.random)
        self._create_id_at = ids.create_at
        self.trace: TraceSender | None = None
        self._instance = instance
        self.group = with_namespace(settings.namespace, group)
        self.loop = asyncio.get_running_loop()
        """The event loop on which the sender works."""
        self._spans = SendSpans() if settings.enable_opentelemetry else None
        self._preparation = SendPreparation(self, instance, self.group, settings, ids, self._spans)
        self._faults = BrokerFaults() if settings.send_latency_fault_enable else None
        self._topics = KnownTopics(instance, settings, self._faults)
        self._targets = self._topics.targets
        self._in_flight = InFlight(self.loop, settings.max_in_flight, settings.max_in_flight_bytes)
        self._compress_from = self._preparation.compress_from
        self._clock = instance.clock
        self._is_closed = False
        self._is_plain = self._preparation.adds_nothing
        """True if the client adds nothing to messages."""
        self._is_watched = self._spans is not None or self._faults is not None

    # --- as a member ----------------------------------------------------------------------------------------

    def producer_data(self) -> str | None:
        """Return the group for heartbeats."""
        return self.group

    def topics(self) -> set[str]:
        """Return the topics to which this sender has sent."""
        return set(self._topics.wire_topics)

    def route_changed(self, topic: str, route: TopicRoute) -> None:
        """Implement ``Member.route_changed``."""
        self._topics.route_changed(topic, route)

    # --- sending --------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """The number of messages and batches without an answer."""
        return len(self._in_flight)

    async def submit(self, message: Message, options: SendOptions) -> asyncio.Future[SendResult]:
        """Send a message as soon as there is room, and return a future of its result.

        :raises MessageRefused: the message cannot be sent as it is.
        """
        check_is_message(message)
        if not self._in_flight.has_room:
            await self._in_flight.room()
        if len(message.body) >= _COMPRESS_ASIDE_BYTES and self.settings.compress_type != "none":
            packed = await asyncio.to_thread(compressed_body, message, self.settings)
            return self.start(message, options, packed)
        return self.start(message, options)

    def start(
        self, message: Message, options: SendOptions, packed: tuple[bytes, int] | None = None
    ) -> asyncio.Future[SendResult]:
        """Send a message now, whether or not there is room.

        :param packed: the return value of ``compressed_body`` for this message, if the caller has called it already.
        :raises MessageRefused: the message cannot be sent as it is; ``ClientClosed``: the sender is closed.
        """
        future: asyncio.Future[SendResult] = self.loop.create_future()
        self.start_with(future, message, options, packed)
        return future

    def start_with(
        self, future: SendFuture, message: Message, options: SendOptions, packed: tuple[bytes, int] | None = None
    ) -> None:
        """Do the work of ``start`` with a future of the caller, which may be a future for threads."""
        if packed is not None or self.start_plain(message, options, future) is None:
            self._begin(self._prepare(message, options, future, packed))

    @overload
    def start_plain(self, message: Message, options: SendOptions) -> asyncio.Future[SendResult] | None: ...

    @overload
    def start_plain(self, message: Message, options: SendOptions, future: SendFuture) -> SendFuture | None: ...

    def start_plain(
        self, message: Message, options: SendOptions, future: SendFuture | None = None
    ) -> SendFuture | None:
        """Send a message that needs only a frame over an open connection. Most messages go this way.

        :param future: the caller's future; None: the method checks for room, and makes a future of this loop.
        :returns: the future; None if the message is of another kind, or if there is no room. Nothing has happened then.
        """
        check_is_message(message)
        targets = self._targets.get(message.topic)
        if targets is None or message.flag or not (self._is_plain and options.is_plain and is_plain(message)):
            return None
        body = message.body
        if targets.next_in_turn is None or len(body) >= self._compress_from:
            return None
        if future is None:
            if not self._in_flight.has_room:
                return None
            # What create_future() returns, without going through the loop: one is made for every message.
            future = asyncio.Future(loop=self.loop)
        target = targets.next_in_turn()
        now = self.loop.time()
        timeout = options.timeout
        born_at_ms = self._clock()
        msg_id = self._create_id_at(born_at_ms)
        sending = Sending(
            self,
            message,
            options,
            future,
            msg_id,
            b"",
            body,
            0,
            born_at_ms,
            now,
            now + timeout,
            _SEND,
            timeout,
            None,
            0.0,
            target,
        )
        self._in_flight.add(sending)
        connection = target.connection
        form = target.plain_form
        if form is None or connection is None or not connection.is_open or connection.is_paused:
            self._begin_at(sending, target)
            return future
        sending.tries = 1
        opaque = connection.take_opaque()
        connection.start_call(opaque, form.build_plain(opaque, born_at_ms, msg_id, body), sending, now)
        return future

    async def send_oneway(self, message: Message, options: SendOptions) -> None:
        """Send a message without an answer; return when the system has the bytes or will have them soon.

        :raises RocketMQError: the message, its route or the connection makes the send impossible.
        """
        sending = self._prepare(message, options, self.loop.create_future(), None)
        try:
            targets = self._targets.get(message.topic) or await self._topics.learn(message.topic)
            target = targets.choose(message, options, None)
            connection = await self._connection(target, options.timeout)
            connection.write(self._preparation.frame(sending, target, connection.take_opaque(), ONEWAY_FLAG))
            if connection.is_paused:
                await connection.drained()
        except BaseException as error:
            self._end_span(sending.span, error)
            raise
        if self._spans is not None and sending.span is not None:
            self._spans.handed_over(sending.span, sending.msg_id)

    async def send_batch(self, messages: Sequence[Message], options: SendOptions) -> list[SendResult]:
        """Send messages of one topic as batches, in as many requests as their size needs, one after the other.

        :returns: a result for each message, in their order.
        :raises MessageRefused: the messages cannot travel in one batch; nothing was sent.
        :raises PartlySent: some requests worked and one did not.
        """
        results: list[SendResult] = []
        for batch in self._preparation.batches(messages, options):
            if not self._in_flight.has_room:
                await self._in_flight.room()
            future: asyncio.Future[SendResult] = self.loop.create_future()
            self._begin(self._preparation.batch(messages[0], batch, options, future))
            try:
                results += single_results(await future)
            except RocketMQError as error:
                if not results:
                    raise
                raise PartlySent(results, len(messages)) from error
        return results

    async def close(self, timeout: float) -> None:
        """Take no more messages, wait for the answers to messages in flight, and fail the rest."""
        self._is_closed = True
        self._is_plain = False
        await self._in_flight.drain(timeout)
        for sending in list(self._in_flight.sendings):
            error = ClientClosed(f"producer {self.group}", "was closed before the answer came")
            error.outcome_unknown = True
            self._fail(sending, error)

    # --- for threads that send past the loop, see ``blocking.direct_sends`` ------------------------------------

    def prepare_aside(self, message: Message, options: SendOptions, packed: tuple[bytes, int] | None) -> Sending | None:
        """Return a message with its target, not yet counted as in flight; callable on any thread.

        :returns: None if the loop has to send the message: it would overtake other messages, or each send is observed.
        :raises RocketMQError: the message cannot be sent as it is.
        """
        targets = self._targets.get(message.topic)
        if targets is None or self._in_flight.sendings or self._is_watched or self.trace is not None:
            return None
        sending = self._prepare(message, options, NOBODY, packed)
        # Other kinds of loops look at the clock once a turn, and this one may have slept for long.
        sending.started_at = time.monotonic()
        sending.ends_at = sending.started_at + options.timeout
        sending.target = targets.choose(message, options, None)
        return sending

    def where_aside(self, address: str) -> tuple[str, int] | None:
        """Return the host and port to which a thread may connect; None if a thread should not connect.

        A thread should not connect if TLS is used, or if the broker was not reached before.
        """
        return self._instance.remoting.plain_target(address)

    def frame_at_target(self, sending: Sending, opaque: int) -> bytes:
        """Return the frame of a message from ``prepare_aside``; callable on any thread."""
        assert sending.target is not None, "it was prepared with one"
        return self._preparation.frame(sending, sending.target, opaque, 0)

    def begin_at_target(self, sending: Sending) -> None:
        """Send a message from ``prepare_aside``, after ``take_over``."""
        assert sending.target is not None, "it was prepared with one"
        self._begin_at(sending, sending.target)

    def take_over(self, sending: Sending, then: Callable[[], None]) -> None:
        """Count a message from another thread as in flight, then call ``then``.

        Fail the message instead if the sender is closed.
        """
        self._in_flight.add(sending)
        if self._is_closed:
            error = ClientClosed(f"producer {self.group}", "was closed before the message was stored")
            error.outcome_unknown = sending.tries > 0
            self._fail(sending, error)
        else:
            then()

    # --- what a Sending calls -------------------------------------------------------------------------------

    def stored(self, sending: Sending, result: SendResult, header: SendMessageResponse) -> None:
        """Handle the broker's answer that it has stored the message."""
        if self._faults is not None:
            now = self.loop.time()
            took_ms = (now - (sending.deadline - sending.timeout)) * 1000
            self._faults.answered(result.queue.broker_name, took_ms, now * 1000)
        status = result.status
        if status is not _SEND_OK and status not in sending.options.accept:
            error = NotSent(result)
            if self.settings.retry_another_broker_when_not_store_ok and self._may_retry(sending, error):
                self._send_again(sending, error)
                return
            self._fail(sending, error)
            return
        self._in_flight.remove(sending)
        if self.trace is not None:
            self.trace.sent(self.group, sending, result, header)
        if self._spans is not None and sending.span is not None:
            self._spans.stored(sending.span, result)
        sending.problem = None
        future = sending.future
        if not future.done():
            future.set_result(result)

    def failed_once(self, sending: Sending, error: RocketMQError) -> None:
        """Handle a failed try: try again or give up."""
        target = sending.target
        if self._faults is not None and target is not None:
            self._faults.failed(target.queue.broker_name, self.loop.time() * 1000)
        sending.maybe_stored = sending.maybe_stored or error.outcome_unknown
        sending.problem = error
        if isinstance(error, BrokerError) and error.code == ResponseCode.GO_AWAY and target is not None:
            self._instance.remoting.retire(target.address)
        if self._may_retry(sending, error):
            self._send_again(sending, error)
        else:
            self._fail(sending, error)

    # --- inside ---------------------------------------------------------------------------------------------

    def _prepare(
        self, message: Message, options: SendOptions, future: SendFuture, packed: tuple[bytes, int] | None
    ) -> Sending:
        if self._is_closed:
            raise ClientClosed(f"producer {self.group}", "is closed")
        check_is_message(message)
        return self._preparation.message(message, options, future, packed)

    def _begin(self, sending: Sending) -> None:
        self._in_flight.add(sending)
        targets = self._targets.get(sending.message.topic)
        if targets is None:
            self._instance.spawn(self._send_slowly(sending), name="send")
            return
        try:
            target = targets.choose(sending.message, sending.options, None)
        except RocketMQError as error:
            self._fail(sending, error)
            return
        self._begin_at(sending, target)

    def _begin_at(self, sending: Sending, target: SendTarget) -> None:
        connection = target.connection
        if connection is None or not connection.is_open:
            connection = self._instance.remoting.open_connection(target.address)
            self._use(target, connection)
        if connection is not None and not connection.is_paused:
            self._write(sending, target, connection, sending.started_at)
        else:
            self._instance.spawn(self._send_slowly(sending, first=target), name="send")

    def _write(
        self, sending: Sending, target: SendTarget, connection: BrokerConnection, now: float | None = None
    ) -> None:
        sending.target = target
        sending.tries += 1
        opaque = connection.take_opaque()
        try:
            frame = self._preparation.frame(sending, target, opaque, 0)
        except RocketMQError as error:
            self._fail(sending, error)
            return
        connection.start_call(opaque, frame, sending, now)

    async def _send_slowly(
        self, sending: Sending, failed_broker: str | None = None, first: SendTarget | None = None
    ) -> None:
        """Make one try, and wait for everything that a try needs.

        :param failed_broker: the broker of the try before.
        :param first: the target that was chosen already.
        """
        topic = sending.message.topic
        try:
            async with asyncio.timeout_at(sending.ends_at):
                targets = self._targets.get(topic) or await self._topics.learn(topic)
                target = first or targets.choose(sending.message, sending.options, failed_broker)
                if target.queue.broker_name == failed_broker:
                    await asyncio.sleep(_SAME_BROKER_PAUSE * sending.tries)
                sending.target = target
                connection = await self._connection(target, sending.ends_at - self.loop.time())
                if connection.is_paused:
                    await connection.drained()
        except TimeoutError as error:
            if isinstance(error, RocketMQError):
                self._try_ended(sending, error)
                return
            self._fail(sending, _out_of_time(sending))
        except RocketMQError as error:
            self._try_ended(sending, error)
        except asyncio.CancelledError:
            self._fail(sending, ClientClosed(f"producer {self.group}", "was closed before the message was sent"))
            raise
        else:
            sending.timeout = max(sending.ends_at - self.loop.time(), 0.001)
            self._write(sending, target, connection)

    def _try_ended(self, sending: Sending, error: RocketMQError) -> None:
        sending.tries += 1
        self.failed_once(sending, error)

    async def _connection(self, target: SendTarget, timeout: float) -> BrokerConnection:
        remoting = self._instance.remoting
        connection = await remoting.connect(target.address, min(max(timeout, 0.001), self.settings.connect_timeout))
        self._use(target, connection)
        return connection

    def _use(self, target: SendTarget, connection: BrokerConnection | None) -> None:
        target.connection = connection
        if connection is not None:
            connection.expect_stored()

    def _may_retry(self, sending: Sending, error: RocketMQError) -> bool:
        options = sending.options
        if sending.future.done() or self._is_closed or not error.retriable or sending.tries > options.retries:
            return False
        if options.queue is not None or options.selector is not None or sending.message.sharding_key:
            return False
        return self.loop.time() < sending.ends_at

    def _send_again(self, sending: Sending, error: RocketMQError) -> None:
        broker_name = sending.target.queue.broker_name if sending.target is not None else None
        _log.info("message %s is tried again (%d): %s", sending.msg_id, sending.tries, error)
        if isinstance(error, ConnectError) or (isinstance(error, BrokerError) and error.code in _ROUTE_CODES):
            self._topics.forget(sending.message.topic)
        self._instance.spawn(self._send_slowly(sending, broker_name), name="send again")

    def _fail(self, sending: Sending, error: RocketMQError) -> None:
        self._in_flight.remove(sending)
        if sending.maybe_stored and not error.outcome_unknown:
            error.outcome_unknown = True
        if self.trace is not None and sending.target is not None:
            self.trace.failed(self.group, sending)
        self._end_span(sending.span, error)
        # Nobody collects a circle with a Sending in it: an error, its frames, the Sending they hold, its future.
        future, sending.future, sending.problem = sending.future, NOBODY, None
        if not future.done():
            future.set_exception(error)

    def _end_span(self, span: Span | None, error: BaseException) -> None:
        if self._spans is not None and span is not None:
            self._spans.failed(span, error)


def _out_of_time(sending: Sending) -> RocketMQError:
    """Return the error of a message that was not sent within its timeout.

    A failed connection explains more than a timeout, so the error of the last try is preferred if it is a
    ``ConnectError``.
    """
    if isinstance(sending.problem, ConnectError):
        return sending.problem
    where = sending.target.address if sending.target is not None else "the name server or broker"
    return RequestTimeout("send", where, sending.options.timeout, outcome_unknown=sending.maybe_stored)


_SEND_OK: Final = SendStatus.SEND_OK  # looked up once: access to an enum's member takes a while
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_ROUTE_CODES: Final = frozenset((ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION))
