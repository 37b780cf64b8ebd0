"""``aio.LitePullConsumer``: returns messages when the application asks for them, batch by batch.

    async with LitePullConsumer("report", namesrv="localhost:9876", subscriptions={"orders": "*"}) as consumer:
        async for messages in consumer:
            ...

Queues come by subscription, shared with the other members of the group, or the application assigns queues.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

from gateway.client.connect.instance import ClientInstance
from gateway.client.consume.lite_pull.read_queues import ReadQueues
from gateway.client.consume.queue_consumer import QueueConsumer
from gateway.client.consume.settings.consumer_settings import LitePullSettings, timestamp_ms_of
from gateway.client.consume.subscriptions import Sql
from gateway.client.errors import ConfigurationError
from gateway.client.message import ReceivedMessage
from gateway.client.message_queue import MessageQueue
from gateway.client.names import with_namespace
from wire.bodies.consume_kinds import ConsumeType


class LitePullConsumer(QueueConsumer[ReadQueues]):
    """Reads queues at the application's pace.

    A batch counts as consumed when the next batch is asked for, and at ``commit``, ``assign`` and ``close``. A batch
    does not count if a ``with`` block ends with an exception. With ``auto_commit``, consumed offsets are reported to
    the broker every 5 s and at the end; without ``auto_commit``, only by ``commit``.

    :param group: 1 to 255 letters, digits, ``%|_-``.
    :param settings: None: ``LitePullSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :param subscriptions: topic → tags (``"A || B"``, ``"*"``) or ``Sql(...)``; leave out to ``assign`` queues.
    :raises ConfigurationError: a setting is not usable; ``MessageRefused``: the name of a group or topic is refused.
    """

    settings: LitePullSettings
    _consume_type = ConsumeType.CONSUME_ACTIVELY
    CLOSE_TIMEOUT = 10.0
    _needs_subscriptions = False

    def __init__(
        self,
        group: str,
        settings: LitePullSettings | None = None,
        *,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, str | Sql] | None = None,
    ) -> None:
        super().__init__("lite pull consumer", group, LitePullSettings.chosen(settings, namesrv), subscriptions)

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(counts_last=kind is None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[ReceivedMessage]:
        while not self._is_closed:
            messages = await self.poll()
            if messages:
                return messages
        raise StopAsyncIteration

    # --- life -----------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return frozenset(self._parts().queues.states)

    async def close(self, timeout: float = CLOSE_TIMEOUT, *, counts_last: bool = True) -> None:
        """Commit what was consumed (with ``auto_commit``), leave the group, close the connections. Idempotent.

        :param timeout: seconds for committing.
        :param counts_last: True if the batch returned last counts as consumed.
        """
        if self._closes_now() and self._running is not None:
            await self._running.end(timeout, counts_last=counts_last)

    # --- reading --------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = None) -> list[ReceivedMessage]:
        """Return the next messages, all of one queue in offset order; empty after the timeout, or at ``close``.

        At most ``pull_batch_size`` messages are returned. The batch before counts as consumed. For one task at a time.

        :param timeout: seconds; None: ``poll_timeout`` of the settings.
        """
        return await self._parts_here().poll(self.settings.poll_timeout if timeout is None else timeout)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Report the consumed offsets to the brokers, and wait for the answers.

        :param offsets: the next offset to consume of each queue; None: everything that ``poll`` has returned.
        :raises NotCommitted: some offsets could not be stored; ``ConfigurationError``: not a queue, or not an offset.
        """
        if offsets is not None:
            if not isinstance(offsets, Mapping):
                raise ConfigurationError("offsets", offsets, "a mapping of MessageQueue to the next offset")
            for queue, offset in offsets.items():
                check_queues([queue])
                check_offset(offset)
        await self._parts_here().commit(offsets)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's stored offset of a queue, None if no offset is stored.

        :raises RocketMQError: the offset could not be read.
        """
        check_queues([queue])
        return await self._parts_here().queues.store.fetch(queue)

    def position(self, queue: MessageQueue) -> int:
        """Return the offset after the last message that counts as consumed.

        :raises ConfigurationError: the queue is not assigned to this consumer.
        """
        return self._parts().state(queue).committable

    # --- which queues, and from where -------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Share a topic's queues with the group; also while running, if there were subscriptions at the start.

        :raises ConfigurationError: the expression is not usable, or the consumer started without subscriptions.
        """
        self._check_usable()
        if self._running is not None and self._running.rebalancing is None:
            raise ConfigurationError("subscribe", topic, "called before start, and not beside assign")
        super().subscribe(topic, expression)

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """Return all readable queues of a topic, as the name server lists them.

        :raises RouteNotFound: the topic does not exist.
        """
        name = with_namespace(self.settings.namespace, topic)
        return list((await self._parts_here().instance.route(name, refresh=True)).subscribe_queues)

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues from the group's position, whoever else reads them.

        :raises ConfigurationError: topics are subscribed to.
        :raises RocketMQError: a topic was not found, or the offset of a queue could not be read.
        """
        if self._wanted:
            raise ConfigurationError("assign", "queues", "used without subscriptions")
        await self._parts_here().assign(set(check_queues([queues] if isinstance(queues, str) else queues)))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from another offset; its cached messages are dropped.

        :raises ConfigurationError: the queue is not assigned, or does not have the offset (the end offset is allowed).
        """
        check_queues([queue])
        check_offset(offset)
        await self._parts_here().seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Read a queue from its first stored message."""
        parts = self._parts_here()
        parts.move(parts.state(queue), await parts.queues.offsets.first(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Read only messages that arrive in a queue from now on."""
        parts = self._parts_here()
        parts.move(parts.state(queue), await parts.queues.offsets.end(queue))

    async def offset_for_time(self, queue: MessageQueue, when: datetime.datetime | float) -> int:
        """Return the offset of the first message stored at this time or later.

        :param when: an aware datetime or epoch seconds.
        """
        check_queues([queue])
        parts = self._parts_here()
        return await parts.queues.offsets.at_time(queue, timestamp_ms_of(when, parts.instance.clock()))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling some queues, and return no messages from them, until ``resume``."""
        parts = self._parts_here()
        for queue in queues:
            parts.state(queue).paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Read paused queues again."""
        parts = self._parts_here()
        for queue in queues:
            parts.resume(parts.state(queue))

    # --- a member of the client instance --------------------------------------------------------------------

    def topics(self) -> Collection[str]:
        """Return the topics whose routes are kept up to date."""
        assigned = {queue.topic for queue in self._running.queues.states} if self._running is not None else set()
        return assigned.union(self._subscriptions)

    # --- inside ---------------------------------------------------------------------------------------------

    def _assemble(self, instance: ClientInstance) -> None:
        self._running = ReadQueues(instance, self.settings, self)

    async def _begin(self) -> None:
        if self._subscriptions:
            await self._parts_here().begin_sharing()


def check_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return the queues that the application passed, as a list.

    :raises ConfigurationError: an element is not a ``MessageQueue``, but for example the name of a topic.
    """
    named = list(queues) if isinstance(queues, Iterable) else [queues]
    for queue in named:
        if not isinstance(queue, MessageQueue):
            raise ConfigurationError("queue", queue, "a MessageQueue, as message_queues(topic) gives them")
    return named


def check_offset(offset: int) -> None:
    """Refuse an offset that cannot exist.

    :raises ConfigurationError: the offset is not a whole number, or is negative.
    """
    if not isinstance(offset, int) or offset < 0:
        raise ConfigurationError("offset", offset, "a whole number of at least 0")
