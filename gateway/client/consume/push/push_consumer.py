"""``aio.PushConsumer``: hands the messages of topics to a listener. The members of a group share the messages.

    async def on_order(message): ...

    async with PushConsumer("billing", on_order, namesrv="localhost:9876", subscriptions={"orders": "*"}):
        await stop_signal.wait()

The parts of a running consumer are in ``pushed_queues``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gateway.client.connect.instance import ClientInstance
from gateway.client.consume.push.listeners import BatchListener, Listener, ListenerCall
from gateway.client.consume.push.pushed_queues import PushedQueues
from gateway.client.consume.queue_consumer import QueueConsumer
from gateway.client.consume.settings.consumer_settings import MessageModel, PushSettings
from gateway.client.consume.subscriptions import Sql, Subscription, retry_topic
from gateway.client.message_queue import MessageQueue
from wire.bodies.consume_kinds import ConsumeType


class PushConsumer(QueueConsumer[PushedQueues]):
    """Consumes as a member of a group. After ``start`` the listener is called until the consumer is closed.

    If the listener returns, the message is acknowledged. If the listener raises an exception, the message comes again
    later (``RetryLater`` chooses when). Every message comes at least once. A message comes again after a crash, or when
    its queue goes to another member while the message is being consumed.

    :param group: 1 to 255 letters, digits, ``%|_-``; all members must have the same subscriptions.
    :param listener: gets one message; a function (called in a thread) or an ``async def``.
    :param settings: None: ``PushSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :param batch_listener: instead of ``listener``, gets up to ``consume_message_batch_max_size`` messages of a queue.
    :param subscriptions: topic → tags (``"A || B"``, ``"*"``) or ``Sql("price > 5")``; see ``subscribe``.
    :param orderly: one message after the other within each queue, while the broker's lock of the queue is held.
    :raises ConfigurationError: a setting is not usable; ``MessageRefused``: the name of a group or topic is refused.
    """

    settings: PushSettings
    _consume_type = ConsumeType.CONSUME_PASSIVELY
    CLOSE_TIMEOUT = 30.0

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
        super().__init__("push consumer", group, PushSettings.chosen(settings, namesrv), subscriptions)
        self._call = ListenerCall(listener, batch_listener)
        self._orderly = orderly
        self._is_shared = self.settings.message_model is MessageModel.CLUSTERING

    # --- life -----------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this member reads now, including the queues of its retry topic."""
        return frozenset(self._parts().rebalancing.assigned)

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Stop pulling, wait for running listeners, commit what was consumed, release locks, and leave. Idempotent.

        :param timeout: seconds to wait for listeners; messages that are not finished by then are delivered again.
        """
        if self._closes_now() and self._running is not None:
            await self._running.end(timeout)

    # --- what is consumed -----------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Pull nothing more until ``resume``; cached messages are still consumed."""
        self._parts_here().is_suspended = True

    def resume(self) -> None:
        """Start pulling again after ``suspend``."""
        self._parts_here().resume()

    async def commit(self) -> None:
        """Report the consumed offsets to the brokers now, and wait for the answers.

        They are also reported every 5 s and at ``close``, without a word when that fails: the log says it, and the next
        report tries again.

        :raises NotCommitted: some offsets could not be stored.
        """
        await self._parts_here().queues.commit()

    # --- a member of the client instance --------------------------------------------------------------------

    def topics(self) -> Collection[str]:
        """Return the topics whose routes are kept up to date."""
        return self.subscriptions().keys()

    def subscriptions(self) -> Mapping[str, Subscription]:
        """Return the subscriptions by topic, including the subscription of the retry topic."""
        if not self._is_shared:
            return self._subscriptions
        topic = retry_topic(self.group)
        retry = Subscription(topic, "*", "TAG", frozenset(), frozenset(), self._version_ms)
        return {**self._subscriptions, topic: retry}

    def properties(self) -> Mapping[str, str]:
        """Return the settings as tools show them."""
        return {
            **super().properties(),
            "PROP_CONSUMEORDERLY": str(self._orderly).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(self.settings.consume_workers),
        }

    # --- inside ---------------------------------------------------------------------------------------------

    def _assemble(self, instance: ClientInstance) -> None:
        self._running = PushedQueues(instance, self.settings, self, self._call, is_orderly=self._orderly)

    async def _begin(self) -> None:
        await self._parts().begin()

    async def _abandon(self, instance: ClientInstance) -> None:
        if self._running is not None:
            await self._running.abandon()
        await super()._abandon(instance)
