"""``aio.PushConsumer``: hands the messages of topics to a listener, shared among the members of a group.

    async def on_order(message): ...

    async with PushConsumer("billing", on_order, namesrv="localhost:9876", subscriptions={"orders": "*"}):
        await stop_signal.wait()

It is assembled here from its parts: queues (``assigned_queues``), membership (``rebalancing``), and the way of
consuming (``concurrent_turns`` or ``orderly_turns``).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Self

from gateway.client.aio.assigned_queues import AssignedQueues
from gateway.client.aio.broker_calls import BrokerCalls
from gateway.client.aio.concurrent_turns import ConcurrentTurns
from gateway.client.aio.instance import ClientInstance
from gateway.client.aio.member import Answer
from gateway.client.aio.orderly_turns import OrderlyTurns
from gateway.client.aio.pull_loop import PullTerms
from gateway.client.aio.queue_locks import QueueLocks
from gateway.client.aio.rebalancing import Rebalancing, member_topics
from gateway.client.aio.send_back import DEFAULT_MAX_RECONSUME_TIMES, SendBack
from gateway.client.aio.subscribing import check_subscription, first_routes
from gateway.client.consumer_settings import MessageModel, PushSettings
from gateway.client.errors import ClientClosed, ConfigurationError, UsedAfterFork
from gateway.client.listeners import BatchListener, Listener, ListenerCall, ListenerOutcome
from gateway.client.message import MessageQueue, ReceivedMessage, check_group
from gateway.client.namespaces import with_namespace
from gateway.client.process_queue import ProcessQueue
from gateway.client.routes import TopicRoute
from gateway.client.subscriptions import Sql, Subscription, retry_topic, subscription_of
from gateway.client.worker_threads import WorkerThreads
from wire.bodies.heartbeat import ConsumerData, ConsumeType
from wire.codes import RequestCode
from wire.message.flags import PullFlag

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT: Final = 30.0
"""Seconds ``close`` waits for listeners unless it is told otherwise."""
_UNLIMITED_RECONSUMPTION: Final = 2**31 - 1


class PushConsumer:
    """Consumes as a member of a group; start it, and the listener is called until it is closed.

    Returning from the listener acknowledges, an exception means again later (``RetryLater`` chooses when). Every
    message comes at least once; again after a crash, or when queues change hands while it is being consumed.

    :param group: 1 to 255 letters, digits, ``%|_-``; all members must have the same subscriptions.
    :param listener: gets one message; a function (called in a thread) or an ``async def``.
    :param settings: None: ``PushSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :param batch_listener: instead of ``listener``, gets up to ``consume_message_batch_max_size`` messages of a queue.
    :param subscriptions: topic → tags (``"A || B"``, ``"*"``) or ``Sql("price > 5")``; see ``subscribe``.
    :param orderly: one message after the other within each queue, under the broker's lock of it.
    :raises ConfigurationError: a setting cannot work; ``MessageRefused``: the name of a group or topic cannot.
    """

    def __init__(
        self,
        group: str,
        listener: Listener | None = None,
        settings: PushSettings | None = None,
        *,
        namesrv: str | Sequence[str] | None = None,
        batch_listener: BatchListener | None = None,
        subscriptions: Mapping[str, str | Sql] | None = None,
        orderly: bool = False,
    ) -> None:
        check_group(group)
        chosen = settings if settings is not None else PushSettings.from_env()
        self.settings = chosen if namesrv is None else chosen.with_changes(namesrv=namesrv)
        self.group = with_namespace(self.settings.namespace, group)
        """The group's name with its namespace."""
        self._call = ListenerCall(listener, batch_listener)
        self._orderly = orderly
        self._is_shared = self.settings.message_model is MessageModel.CLUSTERING
        self._pid = os.getpid()
        self._subscriptions: dict[str, Subscription] = {}
        self._version_ms = 0
        self._running: _Running | None = None
        self._is_closed = False
        self._wanted = dict(subscriptions or {})
        for topic, wanted in self._wanted.items():
            subscription_of(topic, wanted, version_ms=0)  # refuses what cannot work before anything is started

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_running", None) is not None and not self._is_closed and self._pid == os.getpid():
            _warn(f"push consumer {self.group} was not closed", ResourceWarning, source=self, stacklevel=1)

    # --- life -----------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """``ip@instance``, as brokers and tools list this client; ``ClientClosed`` when it does not run."""
        return self._parts().instance.client_id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues this member reads now, its retry topic's included."""
        return frozenset(self._parts().rebalancing.assigned)

    async def start(self) -> None:
        """Join the group and begin; returns when it was rebalanced for the first time. Idempotent.

        :raises ConnectError: no name server can be reached. A topic without a route is waited for.
        :raises BrokerError: a SQL92 expression is refused.
        :raises ConfigurationError: nothing is subscribed to, or there is no name server in the settings.
        """
        self._check_usable()
        if self._running is not None:
            return
        if not self._wanted:
            raise ConfigurationError("subscriptions", {}, "at least one topic, as {'orders': '*'}")
        instance = ClientInstance(self.settings)
        self._running = running = _Running(self, instance)
        try:
            await instance.start()
            self._subscribe_all(instance)
            await first_routes(instance, list(self._subscriptions))
            for subscription in self._subscriptions.values():
                await check_subscription(instance, self.group, subscription)
            instance.join(self)
            await instance.heartbeat()
            await running.begin()
        except BaseException:
            self._is_closed = True
            await running.abandon()
            raise

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Stop pulling, wait for listeners that run, commit what was consumed, release locks and leave. Idempotent.

        :param timeout: seconds to wait for listeners; what they have not finished then is delivered again.
        """
        self._check_process()
        if self._is_closed:
            return
        self._is_closed = True
        if self._running is not None:
            await self._running.end(timeout)

    # --- what is consumed -----------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Subscribe to a topic, or to other messages of it; also while running. Not for threads.

        :param expression: ``"*"``, tags as ``"A || B"``, or ``Sql(...)`` (not checked by the broker while running).
        :raises ConfigurationError: the expression cannot work; ``MessageRefused``: the topic's name cannot.
        """
        self._check_usable()
        self._wanted[topic] = expression
        if self._running is None:
            subscription_of(topic, expression, version_ms=0)
            return
        instance = self._running.instance
        self._add(instance, topic, expression)
        self._running.queues.change_subscription(self._subscriptions[with_namespace(self.settings.namespace, topic)])
        self._running.subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Give up a topic; nothing happens when it is not subscribed to."""
        self._check_usable()
        self._wanted.pop(topic, None)
        if self._running is not None:
            self._subscriptions.pop(with_namespace(self.settings.namespace, topic), None)
            self._running.subscriptions_changed()

    def suspend(self) -> None:
        """Pull nothing more until ``resume``; what is cached is still consumed."""
        self._parts().is_suspended = True

    def resume(self) -> None:
        """Pull on."""
        parts = self._parts()
        parts.is_suspended = False
        parts.queues.wake_all()

    async def commit(self) -> None:
        """Tell the brokers now how far messages are consumed; happens every 5 s and at the end by itself."""
        await self._parts().queues.persist(confirm=True)

    # --- a member of the client instance --------------------------------------------------------------------

    def producer_data(self) -> None:
        """Not a producer."""

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say."""
        return ConsumerData(
            self.group,
            ConsumeType.CONSUME_PASSIVELY.value,
            self.settings.message_model.value,
            self.settings.consume_from_where.value,
            subscriptions=[subscription.data() for subscription in self.subscriptions().values()],
        )

    def topics(self) -> Collection[str]:
        """Topics whose routes are kept fresh."""
        return member_topics(self._subscriptions, retry_topic(self.group) if self._is_shared else None)

    def route_changed(self, topic: str, route: TopicRoute) -> None:  # noqa: ARG002 - of any topic
        """Queues may have come or gone."""
        if self._running is not None:
            self._running.rebalancing.wake()

    def answers(self) -> Mapping[int, Answer]:
        """Requests of brokers."""
        return self._running.calls.answers() if self._running is not None else {}

    def subscriptions(self) -> Mapping[str, Subscription]:
        """By topic, the retry topic's included."""
        if not self._is_shared:
            return self._subscriptions
        topic = retry_topic(self.group)
        retry = Subscription(topic, "*", "TAG", frozenset(), frozenset(), self._version_ms)
        return {**self._subscriptions, topic: retry}

    def properties(self) -> Mapping[str, str]:
        """What tools show of the settings."""
        shown = {entry.name: getattr(self.settings, entry.name) for entry in dataclasses.fields(self.settings)}
        hidden = ("secret_key", "access_key", "security_token", "tls")
        parts = self._parts()
        return {
            **{name: str(value) for name, value in shown.items() if name not in hidden},
            "consumerGroup": self.group,
            "PROP_NAMESERVER_ADDR": ";".join(self.settings.name_servers),
            "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY.value,
            "PROP_CONSUMEORDERLY": str(self._orderly).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(self.settings.consume_workers),
            "PROP_CONSUMER_START_TIMESTAMP": str(parts.started_at_ms),
        }

    # --- inside ---------------------------------------------------------------------------------------------

    def _subscribe_all(self, instance: ClientInstance) -> None:
        for topic, wanted in self._wanted.items():
            self._add(instance, topic, wanted)

    def _add(self, instance: ClientInstance, topic: str, wanted: str | Sql) -> None:
        name = with_namespace(self.settings.namespace, topic)
        self._version_ms = max(self._version_ms + 1, instance.clock())
        self._subscriptions[name] = subscription_of(name, wanted, version_ms=self._version_ms)

    def _parts(self) -> _Running:
        self._check_process()
        if self._running is None or self._is_closed:
            raise ClientClosed(f"push consumer {self.group}")
        return self._running

    def _check_usable(self) -> None:
        self._check_process()
        if self._is_closed:
            raise ClientClosed(f"push consumer {self.group}", "was closed")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise UsedAfterFork(f"push consumer {self.group}")


class _Running:
    """The parts of a consumer that runs."""

    def __init__(self, consumer: PushConsumer, instance: ClientInstance) -> None:
        settings = consumer.settings
        self.consumer = consumer
        self.instance = instance
        self.is_suspended = False
        self.started_at_ms = instance.clock()
        self._settings = settings
        self._orderly = consumer._orderly
        self._call = consumer._call
        self._is_shared = consumer._is_shared
        self._turn_messages = settings.consume_message_batch_max_size if self._call.takes_batches else 1
        self._direct = WorkerThreads(1, f"direct-{consumer.group}")
        self._tasks: list[asyncio.Task[None]] = []
        self.locks = QueueLocks(instance, consumer.group) if self._orderly and self._is_shared else None
        terms = PullTerms(
            code=RequestCode.PULL_MESSAGE,
            flags=PullFlag.SUSPEND,
            batch_size=settings.pull_batch_size,
            hold=settings.broker_suspend_max_time,
            timeout=settings.consumer_timeout_when_suspend,
            pause_after_failure=settings.pull_time_delay_when_exception,
            interval=settings.pull_interval,
        )
        self.queues = AssignedQueues(
            instance,
            consumer.group,
            settings,
            terms,
            span=None if self._orderly else settings.consume_concurrently_max_span,
            blocked=self._blocked,
            take=self._take,
            commits_with_pulls=True,
        )
        self.rebalancing = Rebalancing(
            instance,
            consumer.group,
            settings,
            topics=consumer.topics,
            take=self._begin_queue,
            give_up=self._end_queues,
        )
        self.calls = BrokerCalls(
            instance,
            self.queues,
            consumer,
            wake=self.rebalancing.wake,
            consume_now=self._consume_now,
            is_orderly=self._orderly,
        )
        most = settings.max_reconsume_times
        send_back = SendBack(instance, consumer.group, self._max_reconsume_times(most))
        self._turns: ConcurrentTurns | OrderlyTurns
        if self._orderly:
            self._turns = OrderlyTurns(
                instance,
                self._call,
                workers=settings.consume_workers,
                locks=self.locks,
                send_back=send_back,
                most_attempts=None if most == -1 else most,
                suspend=settings.suspend_current_queue_time,
                settled=self.queues.settled,
                name=f"consumer {consumer.group}",
            )
        else:
            self._turns = ConcurrentTurns(
                instance,
                self._call,
                workers=settings.consume_workers,
                timeout=settings.consume_timeout,
                send_back=send_back if self._is_shared else None,
                settled=self.queues.settled,
                name=f"consumer {consumer.group}",
            )

    def _max_reconsume_times(self, setting: int) -> int:
        if setting != -1:
            return setting
        return _UNLIMITED_RECONSUMPTION if self._orderly else DEFAULT_MAX_RECONSUME_TIMES

    async def begin(self) -> None:
        """Take queues for the first time, and keep everything going."""
        await self.rebalancing.rebalance()
        spawn = self.instance.spawn
        self._tasks.append(spawn(self.rebalancing.run(), name="rebalancing"))
        self._tasks.append(spawn(self.queues.keep_persisting(), name="committing"))
        if isinstance(self._turns, ConcurrentTurns):
            self._tasks.append(spawn(self._turns.watch(), name="watching listeners"))
        if self.locks is not None:
            keep = self.locks.keep(lambda: list(self.rebalancing.assigned.values()))
            self._tasks.append(spawn(keep, name="renewing locks"))

    async def end(self, timeout: float) -> None:
        """See ``PushConsumer.close``."""
        self._turns.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        states = list(self.rebalancing.assigned.values())
        for state in states:
            self.queues.stop_pulling(state)
        if not await self._turns.drain(timeout):
            _log.warning(
                "group %s: closed while listeners run for more than %g s: their messages are delivered again",
                self.consumer.group,
                timeout,
            )
        await self.rebalancing.drop_all()
        await self._end_queues(list(self.queues.states.values()))  # begun by a rebalance that was cut short
        await self.abandon()

    async def abandon(self) -> None:
        """Close what there is."""
        self._turns.close()
        self._direct.close()
        await self.instance.close()

    def subscriptions_changed(self) -> None:
        """Tell the brokers and look for queues."""
        self.instance.spawn(self.instance.heartbeat(), name="heartbeat after subscribing")
        self.rebalancing.wake()

    # --- queues ---------------------------------------------------------------------------------------------

    async def _begin_queue(self, queue: MessageQueue) -> ProcessQueue | None:
        subscription = self.consumer.subscriptions().get(queue.topic)
        if subscription is None:
            return None
        if self.locks is not None and queue not in await self.locks.lock((queue,)):
            _log.info("group %s: %s is still locked by another member", self.consumer.group, queue)
            return None
        state = await self.queues.begin(queue, subscription)
        if state is None:
            return None
        if isinstance(self._turns, OrderlyTurns):
            state.locked_at = asyncio.get_running_loop().time()
            self._turns.open(state)
        return state

    async def _end_queues(self, states: Collection[ProcessQueue]) -> None:
        if isinstance(self._turns, OrderlyTurns):
            # Without waiting, another member would get messages while ours are still being consumed.
            for state in states:
                self.queues.stop_pulling(state)
            await asyncio.gather(*(self._turns.leave(state, CLOSE_TIMEOUT) for state in states))
            for state in states:
                self.queues.table.advance(state.queue, state.committable)
        await self.queues.end(states)
        if self.locks is not None:
            await self.locks.unlock([state.queue for state in states])

    def _blocked(self, state: ProcessQueue) -> str | None:
        if self.is_suspended:
            return "the consumer is suspended"
        if self.locks is not None and not state.is_locked(asyncio.get_running_loop().time()):
            return "the lock of the queue is not ours"
        return None

    def _take(self, state: ProcessQueue, messages: list[ReceivedMessage], sizes: list[int]) -> None:
        self._turns.submit(state, state.add(messages, sizes, self._turn_messages))

    async def _consume_now(self, message: ReceivedMessage) -> ListenerOutcome:
        if self._call.is_async:
            return await self._call.call_async([message])
        return await asyncio.wrap_future(self._direct.submit(lambda: self._call.call([message])))
