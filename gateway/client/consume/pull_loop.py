"""Pulls one queue again and again: long polls, follows the broker's offsets, pauses while too much is cached.

Each queue has one task. A pull is one request and one answer, whatever number of messages the answer brings. The
consumer decides what to do with the messages. Answers are handled as in upstream's
``DefaultMQPushConsumerImpl.pullMessage``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Final

from gateway.client.consume.pulled import RECORDS_FOR_ONE, TakenMessages, pulled_messages
from gateway.client.errors import BrokerNotFound, RocketMQError, broker_error
from wire.bodies.consume_kinds import EXPRESSION_TYPE_TAG
from wire.codes import MASTER_ID, RequestCode, ResponseCode
from wire.errors import WireError
from wire.headers.declare import read_header
from wire.headers.pull import PullMessageRequest, PullMessageResponse
from wire.message.batch import MAX_INNER_MESSAGES
from wire.message.flags import PullFlag

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.consume.process_queue import ProcessQueue
    from gateway.client.consume.subscriptions import Subscription
    from gateway.client.message import ReceivedMessage
    from wire.command import RemotingCommand

_log = logging.getLogger(__name__)

RECHECK_S: Final = 1.0
"""Seconds until a paused loop checks again whether it may continue, if no call wakes the loop."""
_HASTY_ANSWER_S: Final = 0.01
_HASTY_PAUSE_S: Final = 0.1
"""Seconds to wait before the next pull of a broker that does not hold empty pulls; prevents a tight loop."""
_NO_SUBSCRIPTION: Final = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullTerms:
    """The request code, flags and times with which a kind of consumer pulls; durations in seconds."""

    code: int
    flags: int
    batch_size: int
    hold: float
    timeout: float
    pause_after_failure: float
    interval: float = 0.0


@dataclass(frozen=True, slots=True)
class LoopOwner:
    """The callbacks of a loop to the owner of its queue."""

    blocked: Callable[[ProcessQueue], str | None]
    """Returns the reason why nothing may be pulled now, or None."""
    committed: Callable[[ProcessQueue], int | None]
    """Returns the offset to commit with the next pull, or None."""
    take: Callable[[ProcessQueue, list[ReceivedMessage], list[int]], None]
    """Gets the wanted messages of an answer and their sizes in bytes; also called without messages, as offsets advance.
    """
    moved: Callable[[ProcessQueue, int], None]
    """Called when the broker does not have the requested offset; gets the offset at which to continue."""


class PullLoop:
    """The pulls of one queue, until the queue is dropped."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        process_queue: ProcessQueue,
        subscription: Subscription,
        terms: PullTerms,
        owner: LoopOwner,
    ) -> None:
        self._instance = instance
        self._namespace = instance.settings.namespace
        self._group = group
        self._process_queue = process_queue
        self.subscription = subscription
        """The subscription, which may be changed; the next pull uses the new subscription."""
        self._terms = terms
        self._code = terms.code
        self._owner = owner
        self._broker_id = MASTER_ID
        self._told_of_left = False
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop's task."""
        self._task = self._instance.spawn(self._run(), name=f"pulling {self._process_queue.queue}")

    def stop(self) -> None:
        """End the loop at once; an answer that is still on its way is dropped."""
        if self._task is not None:
            self._task.cancel()

    def restart(self) -> None:
        """Pull from another ``next_offset``; the answer to the present pull is dropped."""
        self.stop()
        self.start()

    def wake(self) -> None:
        """Check again whether pulling may continue."""
        self._room.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        process_queue, terms = self._process_queue, self._terms
        while not process_queue.dropped:
            await self._wait_for_room()
            process_queue.pulled_at = asked_at = loop.time()
            try:
                answer = await self._ask()
                is_idle = self._accept(answer)
            except (RocketMQError, WireError) as error:
                await self._recover(error)
                continue
            if is_idle and loop.time() - asked_at < _HASTY_ANSWER_S:
                await asyncio.sleep(_HASTY_PAUSE_S)
            elif terms.interval:
                await asyncio.sleep(terms.interval)

    async def _wait_for_room(self) -> None:
        told = False
        while (reason := self._owner.blocked(self._process_queue)) is not None:
            if not told:
                _log.debug("group %s pauses pulling %s: %s", self._group, self._process_queue.queue, reason)
                told = True
            self._room.clear()
            try:
                async with asyncio.timeout(RECHECK_S):
                    await self._room.wait()
            except TimeoutError:
                self._process_queue.pulled_at = asyncio.get_running_loop().time()

    def _ask(self) -> asyncio.Future[RemotingCommand]:
        terms, process_queue, subscription = self._terms, self._process_queue, self.subscription
        queue = process_queue.queue
        broker_id, address = self._address()
        flags = terms.flags
        committed = self._owner.committed(process_queue)
        if committed is not None and committed > 0 and broker_id == MASTER_ID:
            flags |= PullFlag.COMMIT_OFFSET
        header = PullMessageRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=process_queue.next_offset,
            max_msg_nums=terms.batch_size,
            sys_flag=flags,
            commit_offset=committed or 0,
            suspend_timeout_millis=round(terms.hold * 1000),
            subscription=subscription.expression if flags & PullFlag.SUBSCRIPTION else None,
            sub_version=subscription.version_ms,
            expression_type=subscription.expression_type,
        )
        return self._instance.remoting.call(address, self._code, header, timeout=terms.timeout)

    def _address(self) -> tuple[int, str]:
        """Return the broker that the last answer suggested, otherwise the master, otherwise any broker that is left."""
        name = self._process_queue.queue.broker_name
        addresses = self._instance.broker_addresses(name)
        for broker_id in (self._broker_id, MASTER_ID, *addresses):
            if broker_id in addresses:
                return broker_id, addresses[broker_id]
        raise BrokerNotFound(name, MASTER_ID)

    def _accept(self, answer: RemotingCommand) -> bool:
        """Act on an answer; return True if the offset did not advance, so that a quick answer needs a pause."""
        process_queue = self._process_queue
        if process_queue.dropped:
            return False
        code = answer.code
        if code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            header = read_header(PullMessageResponse, answer)
            pulled = self._messages(answer) if code == ResponseCode.SUCCESS else TakenMessages([], [])
            self._broker_id = header.suggest_which_broker_id
            next_offset = header.next_begin_offset if pulled.left_at is None else pulled.left_at
            is_stuck = next_offset <= process_queue.next_offset
            process_queue.next_offset = next_offset
            self._owner.take(process_queue, pulled.messages, pulled.sizes)
            return is_stuck or code == ResponseCode.PULL_NOT_FOUND
        if code == ResponseCode.PULL_OFFSET_MOVED:
            header = read_header(PullMessageResponse, answer)
            self._owner.moved(process_queue, header.next_begin_offset)
            return True  # and so not in a tight loop, whatever the broker says next
        if code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and self._code == RequestCode.LITE_PULL_MESSAGE:
            self._code = RequestCode.PULL_MESSAGE  # a 4.9 broker
            return False
        raise broker_error(code, answer.remark, self._address()[1])

    def _messages(self, answer: RemotingCommand) -> TakenMessages:
        """Return the messages of an answer whose tag is subscribed to, compared as text."""
        process_queue, subscription, asked = self._process_queue, self.subscription, self._terms.batch_size
        first_offset = process_queue.next_offset
        pulled = pulled_messages(
            answer.body, process_queue.queue, self._namespace, asked=asked, first_offset=first_offset
        )
        if pulled.left_at is not None and not self._told_of_left:
            self._told_of_left = True  # once: an old broker may answer each pull with many batches
            _log.warning(
                "group %s: %s answers more than the limit, %d records or %d messages where %d were asked for, or their "
                "batches find no room; the rest is pulled again from offset %d on",
                *(self._group, process_queue.queue, asked * RECORDS_FOR_ONE, asked + MAX_INNER_MESSAGES, asked),
                pulled.left_at,
            )
        if subscription.takes_all:
            return pulled
        assert subscription.expression_type == EXPRESSION_TYPE_TAG, "the broker evaluates all others"
        are_wanted = [subscription.accepts(message.tags or None) for message in pulled.messages]
        return TakenMessages(
            list(compress(pulled.messages, are_wanted)), list(compress(pulled.sizes, are_wanted)), pulled.left_at
        )

    async def _recover(self, error: RocketMQError | WireError) -> None:
        """Log the error and wait.

        A missing subscription is sent again with a heartbeat; the route of a missing broker is refreshed.
        """
        queue = self._process_queue.queue
        _log.warning(
            "group %s: pulling %s failed, again in %g s: %s", self._group, queue, self._terms.pause_after_failure, error
        )
        self._broker_id = MASTER_ID
        if getattr(error, "code", None) in _NO_SUBSCRIPTION:
            await self._instance.heartbeat()
        await asyncio.sleep(self._terms.pause_after_failure)
        if isinstance(error, BrokerNotFound):
            try:
                await self._instance.route(queue.topic, refresh=True)
            except RocketMQError as route_error:
                self._instance.route_failed(queue.topic, route_error)
