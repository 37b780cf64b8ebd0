"""``aio.LitePullConsumer``: gives messages when they are asked for, batch by batch.

    async with LitePullConsumer("report", namesrv="localhost:9876", subscriptions={"orders": "*"}) as consumer:
        async for messages in consumer:
            ...

Queues come by subscription, shared with the other members of the group, or are assigned by the application.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import logging
import os
import warnings
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from gateway.client.aio.assigned_queues import AssignedQueues
from gateway.client.aio.broker_calls import BrokerCalls
from gateway.client.aio.instance import ClientInstance
from gateway.client.aio.member import Answer
from gateway.client.aio.pull_loop import PullTerms
from gateway.client.aio.rebalancing import Rebalancing
from gateway.client.aio.subscribing import check_subscription, first_routes
from gateway.client.consume_positions import timestamp_ms_of
from gateway.client.consumer_settings import LitePullSettings
from gateway.client.errors import ClientClosed, ConfigurationError, NotCommitted, UsedAfterFork
from gateway.client.message import MessageQueue, ReceivedMessage, check_group
from gateway.client.namespaces import with_namespace
from gateway.client.process_queue import ProcessQueue, Turn
from gateway.client.routes import TopicRoute
from gateway.client.subscriptions import Sql, Subscription, subscription_of, tags_of
from wire.bodies.heartbeat import ConsumerData, ConsumeType
from wire.codes import RequestCode
from wire.message.flags import PullFlag

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT: Final = 10.0
"""Seconds ``close`` takes at most unless it is told otherwise."""


class LitePullConsumer:
    """Reads queues at the application's pace.

    A batch counts as consumed when the next one is asked for, at ``commit``, ``assign`` and ``close``; not when
    a ``with`` block ends with an exception. With ``auto_commit`` that is told to the broker every 5 s and at the
    end, without it by ``commit`` alone.

    :param group: 1 to 255 letters, digits, ``%|_-``.
    :param settings: None: ``LitePullSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :param subscriptions: topic → tags (``"A || B"``, ``"*"``) or ``Sql(...)``; leave out to ``assign`` queues.
    :raises ConfigurationError: a setting cannot work; ``MessageRefused``: the name of a group or topic cannot.
    """

    def __init__(
        self,
        group: str,
        settings: LitePullSettings | None = None,
        *,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, str | Sql] | None = None,
    ) -> None:
        check_group(group)
        chosen = settings if settings is not None else LitePullSettings.from_env()
        self.settings = chosen if namesrv is None else chosen.with_changes(namesrv=namesrv)
        self.group = with_namespace(self.settings.namespace, group)
        """The group's name with its namespace."""
        self._pid = os.getpid()
        self._wanted = dict(subscriptions or {})
        for topic, wanted in self._wanted.items():
            subscription_of(topic, wanted, version_ms=0)  # refuses what cannot work before anything is started
        self._subscriptions: dict[str, Subscription] = {}
        self._version_ms = 0
        self._running: _Running | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(counts_last=kind is None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[ReceivedMessage]:
        while not self._is_closed:
            messages = await self.poll()
            if messages:
                return messages
        raise StopAsyncIteration

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_running", None) is not None and not self._is_closed and self._pid == os.getpid():
            _warn(f"lite pull consumer {self.group} was not closed", ResourceWarning, source=self, stacklevel=1)

    # --- life -----------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """``ip@instance``, as brokers and tools list this client; ``ClientClosed`` when it does not run."""
        return self._parts().instance.client_id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return frozenset(self._parts().queues.states)

    async def start(self) -> None:
        """Join the group; with subscriptions it returns when queues were shared for the first time. Idempotent.

        :raises ConnectError: no name server can be reached. A topic without a route is waited for.
        :raises BrokerError: a SQL92 expression is refused.
        :raises ConfigurationError: there is no name server in the settings.
        """
        self._check_usable()
        if self._running is not None:
            return
        instance = ClientInstance(self.settings)
        self._running = running = _Running(self, instance)
        try:
            await instance.start()
            for topic, wanted in self._wanted.items():
                self._add(instance, topic, wanted)
            await first_routes(instance, list(self._subscriptions))
            for subscription in self._subscriptions.values():
                await check_subscription(instance, self.group, subscription)
            instance.join(self)
            await instance.heartbeat()
            if self._subscriptions:
                await running.begin_sharing()
        except BaseException:
            self._is_closed = True
            await instance.close()
            raise

    async def close(self, timeout: float = CLOSE_TIMEOUT, *, counts_last: bool = True) -> None:
        """Commit what was consumed (with ``auto_commit``), leave the group, close the connections. Idempotent.

        :param timeout: seconds for committing.
        :param counts_last: whether the batch given last counts as consumed.
        """
        self._check_process()
        if self._is_closed:
            return
        self._is_closed = True
        if self._running is not None:
            await self._running.end(timeout, counts_last=counts_last)

    # --- reading --------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = None) -> list[ReceivedMessage]:
        """The next messages, all of one queue in offset order; empty when there are none in time or at ``close``.

        At most ``pull_batch_size``. The batch before counts as consumed. For one task at a time.

        :param timeout: seconds; None: ``poll_timeout`` of the settings.
        """
        return await self._parts().poll(self.settings.poll_timeout if timeout is None else timeout)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Tell the brokers what is consumed, and wait until they know.

        :param offsets: the next offset to consume of each queue; None: everything that ``poll`` has given.
        :raises NotCommitted: some could not be stored.
        """
        await self._parts().commit(offsets)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's stored offset of a queue, None without one; raises ``RocketMQError`` when it is not known."""
        return await self._parts().queues.store.fetch(queue)

    def position(self, queue: MessageQueue) -> int:
        """The offset after the last message that counts as consumed; ``ConfigurationError`` for others' queues."""
        return self._parts().state(queue).committable

    # --- which queues, and from where -------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Share a topic's queues with the group; before ``start`` or, when there are subscriptions, while running.

        :raises ConfigurationError: the expression cannot work, or queues are assigned already.
        """
        self._check_usable()
        subscription_of(topic, expression, version_ms=0)
        running = self._running
        if running is not None and running.rebalancing is None:
            raise ConfigurationError("subscribe", topic, "called before start, and not beside assign")
        self._wanted[topic] = expression
        if running is not None:
            subscription = self._add(running.instance, topic, expression)
            running.queues.change_subscription(subscription)
            running.subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Give up a topic; nothing happens when it is not subscribed to."""
        self._check_usable()
        self._wanted.pop(topic, None)
        if self._running is not None:
            self._subscriptions.pop(with_namespace(self.settings.namespace, topic), None)
            self._running.subscriptions_changed()

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic, from the name server; ``RouteNotFound`` when it does not exist."""
        name = with_namespace(self.settings.namespace, topic)
        return list((await self._parts().instance.route(name, refresh=True)).subscribe_queues)

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, whoever else does; from where the group stands.

        :raises ConfigurationError: topics are subscribed to.
        :raises RocketMQError: the offset of a queue could not be found out, or its topic not be found.
        """
        if self._wanted:
            raise ConfigurationError("assign", "queues", "used without subscriptions")
        await self._parts().assign(set(queues))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from another offset; what is cached of it is thrown away.

        :raises ConfigurationError: the queue is not assigned, or the offset is not between its begin and end.
        """
        await self._parts().seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Read a queue from its first stored message."""
        parts = self._parts()
        parts.move(parts.state(queue), await parts.queues.offsets.first(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Read only what comes into a queue from now on."""
        parts = self._parts()
        parts.move(parts.state(queue), await parts.queues.offsets.end(queue))

    async def offset_for_time(self, queue: MessageQueue, when: datetime.datetime | float) -> int:
        """The offset of the first message stored then or later; an aware datetime or epoch seconds."""
        parts = self._parts()
        return await parts.queues.offsets.at_time(queue, timestamp_ms_of(when, parts.instance.clock()))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Neither pull nor give messages of some queues until ``resume``."""
        parts = self._parts()
        for queue in queues:
            parts.state(queue).paused = True

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on with paused queues."""
        parts = self._parts()
        for queue in queues:
            parts.resume(parts.state(queue))

    # --- a member of the client instance --------------------------------------------------------------------

    def producer_data(self) -> None:
        """Not a producer."""

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say."""
        return ConsumerData(
            self.group,
            ConsumeType.CONSUME_ACTIVELY.value,
            self.settings.message_model.value,
            self.settings.consume_from_where.value,
            subscriptions=[subscription.data() for subscription in self._subscriptions.values()],
        )

    def topics(self) -> Collection[str]:
        """Topics whose routes are kept fresh."""
        assigned = {queue.topic for queue in self._running.queues.states} if self._running is not None else set()
        return assigned.union(self._subscriptions)

    def route_changed(self, topic: str, route: TopicRoute) -> None:  # noqa: ARG002 - of any topic
        """Queues may have come or gone."""
        if self._running is not None:
            self._running.wake()

    def answers(self) -> Mapping[int, Answer]:
        """Requests of brokers."""
        return self._running.calls.answers() if self._running is not None else {}

    def subscriptions(self) -> Mapping[str, Subscription]:
        """By topic."""
        return self._subscriptions

    def properties(self) -> Mapping[str, str]:
        """What tools show of the settings."""
        shown = {entry.name: getattr(self.settings, entry.name) for entry in dataclasses.fields(self.settings)}
        hidden = ("secret_key", "access_key", "security_token", "tls")
        return {
            **{name: str(value) for name, value in shown.items() if name not in hidden},
            "consumerGroup": self.group,
            "PROP_NAMESERVER_ADDR": ";".join(self.settings.name_servers),
            "PROP_CONSUME_TYPE": ConsumeType.CONSUME_ACTIVELY.value,
            "PROP_CONSUMER_START_TIMESTAMP": str(self._parts().started_at_ms),
        }

    # --- inside ---------------------------------------------------------------------------------------------

    def _add(self, instance: ClientInstance, topic: str, wanted: str | Sql) -> Subscription:
        name = with_namespace(self.settings.namespace, topic)
        self._version_ms = max(self._version_ms + 1, instance.clock())
        subscription = self._subscriptions[name] = subscription_of(name, wanted, version_ms=self._version_ms)
        return subscription

    def _parts(self) -> _Running:
        self._check_process()
        if self._running is None or self._is_closed:
            raise ClientClosed(f"lite pull consumer {self.group}")
        return self._running

    def _check_usable(self) -> None:
        self._check_process()
        if self._is_closed:
            raise ClientClosed(f"lite pull consumer {self.group}", "was closed")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise UsedAfterFork(f"lite pull consumer {self.group}")


class _Running:
    """The parts of a consumer that runs."""

    def __init__(self, consumer: LitePullConsumer, instance: ClientInstance) -> None:
        settings = consumer.settings
        self.consumer = consumer
        self.instance = instance
        self.started_at_ms = instance.clock()
        self.rebalancing: Rebalancing | None = None
        self._settings = settings
        self._ready: deque[tuple[ProcessQueue, Turn]] = deque()
        self._given: tuple[ProcessQueue, Turn] | None = None
        self._news = asyncio.Event()
        self._is_ended = False
        self._committed_at = asyncio.get_running_loop().time()
        self._tasks: list[asyncio.Task[None]] = []
        terms = PullTerms(
            code=RequestCode.LITE_PULL_MESSAGE,
            flags=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL,
            batch_size=settings.pull_batch_size,
            hold=settings.broker_suspend_max_time,
            timeout=settings.consumer_timeout_when_suspend,
            pause_after_failure=settings.pull_time_delay_when_exception,
        )
        self.queues = AssignedQueues(
            instance,
            consumer.group,
            settings,
            terms,
            span=settings.consume_max_span,
            blocked=self._blocked,
            take=self._take,
            commits_with_pulls=False,
            tracks=settings.auto_commit,
        )
        self.calls = BrokerCalls(instance, self.queues, consumer, wake=self.wake)

    async def begin_sharing(self) -> None:
        """Share queues with the group from now on."""
        self.rebalancing = Rebalancing(
            self.instance,
            self.consumer.group,
            self._settings,
            topics=lambda: self.consumer.subscriptions().keys(),
            take=self._begin_queue,
            give_up=self._end_queues,
        )
        await self.rebalancing.rebalance()
        self._tasks.append(self.instance.spawn(self.rebalancing.run(), name="rebalancing"))

    async def end(self, timeout: float, *, counts_last: bool) -> None:
        """See ``LitePullConsumer.close``."""
        self._is_ended = True
        self._news.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if counts_last:
            self._finish_given()
        try:
            await asyncio.wait_for(self.queues.end(list(self.queues.states.values())), timeout)
        except TimeoutError:
            _log.warning("group %s: closed before all offsets were stored", self.consumer.group)
        await self.instance.close()

    def wake(self) -> None:
        """Members, routes or subscriptions have changed."""
        if self.rebalancing is not None:
            self.rebalancing.wake()

    def subscriptions_changed(self) -> None:
        """Tell the brokers and look for queues."""
        self.instance.spawn(self.instance.heartbeat(), name="heartbeat after subscribing")
        self.wake()

    # --- reading --------------------------------------------------------------------------------------------

    async def poll(self, timeout: float) -> list[ReceivedMessage]:
        """See ``LitePullConsumer.poll``."""
        loop = asyncio.get_running_loop()
        self._finish_given()
        if self._settings.auto_commit and loop.time() - self._committed_at >= self._settings.auto_commit_interval:
            self._committed_at = loop.time()
            self.instance.spawn(self.queues.persist(), name="automatic commit")
        end = loop.time() + timeout
        while (given := self._next()) is None and not self._is_ended:
            self._news.clear()
            try:
                async with asyncio.timeout_at(end):
                    await self._news.wait()
            except TimeoutError:
                return []
        if given is None:
            return []
        self._given = given
        return list(given[1].messages)

    def _next(self) -> tuple[ProcessQueue, Turn] | None:
        """The first portion of a queue that is not paused; those given up or read anew are thrown away."""
        ready = self._ready
        passed_over: list[tuple[ProcessQueue, Turn]] = []
        found = None
        while ready and found is None:
            state, turn = entry = ready.popleft()
            if state.dropped or turn.settled:
                continue
            if state.paused:
                passed_over.append(entry)
            else:
                found = entry
        ready.extendleft(reversed(passed_over))
        return found

    def _finish_given(self) -> None:
        if self._given is not None:
            (state, turn), self._given = self._given, None
            state.settle(turn)
            self.queues.settled(state)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None) -> None:
        """See ``LitePullConsumer.commit``."""
        table = self.queues.table
        if offsets is None:
            self._finish_given()
            for state in self.queues.states.values():
                table.move(state.queue, state.committable)
        else:
            for queue, offset in offsets.items():
                table.move(queue, offset)
        self._committed_at = asyncio.get_running_loop().time()
        if not await self.queues.persist(offsets, confirm=True):
            failed = table.changed(offsets)
            raise NotCommitted([f"{queue.topic}/{queue.broker_name}/{queue.queue_id}" for queue in failed])

    # --- which queues, and from where -------------------------------------------------------------------------

    def state(self, queue: MessageQueue) -> ProcessQueue:
        """The state of a queue that is assigned; ``ConfigurationError`` for others."""
        state = self.queues.states.get(queue)
        if state is None:
            raise ConfigurationError("queue", tuple(queue), "one of the assigned queues (assignment)")
        return state

    async def assign(self, queues: set[MessageQueue]) -> None:
        """See ``LitePullConsumer.assign``."""
        for topic in {queue.topic for queue in queues}:
            await self.instance.route(topic)
        new = sorted(queues.difference(self.queues.states))
        offsets = [await self.queues.position(queue) for queue in new]
        self._finish_given()
        await self._end_queues([state for queue, state in self.queues.states.items() if queue not in queues])
        for queue, offset in zip(new, offsets, strict=True):
            self.queues.begin_at(queue, tags_of(queue.topic, version_ms=self.started_at_ms), offset)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """See ``LitePullConsumer.seek``."""
        self.state(queue)
        first, end = await asyncio.gather(self.queues.offsets.first(queue), self.queues.offsets.end(queue))
        if not max(first, 0) <= offset <= end:
            raise ConfigurationError(
                "offset", offset, f"from {max(first, 0)} to {end}, where the queue begins and ends"
            )
        self.move(self.state(queue), offset)

    def move(self, state: ProcessQueue, offset: int) -> None:
        """Read on from another offset."""
        if self._settings.auto_commit:
            self.queues.table.move(state.queue, offset)
        self.queues.restart_at(state, offset)

    def resume(self, state: ProcessQueue) -> None:
        """Go on with a paused queue."""
        state.paused = False
        self.queues.wake_all()
        self._news.set()

    async def _begin_queue(self, queue: MessageQueue) -> ProcessQueue | None:
        subscription = self.consumer.subscriptions().get(queue.topic)
        return await self.queues.begin(queue, subscription) if subscription is not None else None

    async def _end_queues(self, states: Collection[ProcessQueue]) -> None:
        for state in states:
            state.dropped = True
        await self.queues.end(states)

    def _blocked(self, state: ProcessQueue) -> str | None:
        if state.paused:
            return "the queue is paused"
        cached = sum(each.cached_messages for each in self.queues.states.values())
        if cached > self._settings.pull_threshold_for_all:
            return f"{cached} messages are cached, the limit is {self._settings.pull_threshold_for_all}"
        return None

    def _take(self, state: ProcessQueue, messages: list[ReceivedMessage], sizes: list[int]) -> None:
        self._ready += [(state, turn) for turn in state.add(messages, sizes, self._settings.pull_batch_size)]
        if not self._news.is_set():
            self._news.set()
