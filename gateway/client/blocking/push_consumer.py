"""``PushConsumer``: hands messages to a listener in threads.

    def on_order(message): ...

    with PushConsumer("billing", on_order, namesrv="localhost:9876", subscriptions={"orders": "*"}):
        stop.wait()

A thin face of ``gateway.client.aio.PushConsumer``, which has the same methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.client import aio
from gateway.client.blocking.face import GroupFace
from gateway.client.consume.push.listeners import BatchListener, Listener
from gateway.client.consume.settings.consumer_settings import PushSettings
from gateway.client.consume.subscriptions import Sql
from gateway.client.message_queue import MessageQueue


class PushConsumer(GroupFace):
    """Consumes as a member of a group; the parameters are those of ``aio.PushConsumer``.

    A plain function is called in up to ``consume_workers`` threads, an ``async def`` on the consumer's own loop.
    """

    _core: aio.PushConsumer
    settings: PushSettings

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
        consumer = aio.PushConsumer(
            group,
            listener,
            settings,
            namesrv=namesrv,
            batch_listener=batch_listener,
            subscriptions=subscriptions,
            orderly=orderly,
        )
        super().__init__(consumer)

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this member reads now, including the queues of its retry topic."""
        return self._core.assignment

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Subscribe to a topic, or replace its expression; ``aio.PushConsumer.subscribe`` says more."""
        self._do(lambda: self._core.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic."""
        self._do(lambda: self._core.unsubscribe(topic))

    def suspend(self) -> None:
        """Pull nothing more until ``resume``; cached messages are still consumed."""
        self._do(self._core.suspend)

    def resume(self) -> None:
        """Start pulling again after ``suspend``."""
        self._do(self._core.resume)

    def commit(self) -> None:
        """Report the consumed offsets to the brokers, and wait until they are stored.

        :raises NotCommitted: the offsets could not be stored; the next report, every 5 s, tries again.
        """
        self._run(self._core.commit())
