"""``SimpleConsumer``: takes messages, hides them from other consumers for a while, and acknowledges them one by one.

    with SimpleConsumer("mail", namesrv="localhost:9876", subscriptions={"orders": "*"}) as consumer:
        for message in consumer.receive(16, invisible_time=30):
            ...
            consumer.ack(message)

A thin face of ``gateway.client.aio.SimpleConsumer``, which has the same methods and fuller texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.client import aio
from gateway.client.blocking.face import GroupFace
from gateway.client.consume.settings.consumer_settings import SimpleSettings
from gateway.client.consume.subscriptions import Sql

if TYPE_CHECKING:
    from gateway.client.consume.pop.pop_handles import PoppedMessage


class SimpleConsumer(GroupFace):
    """POP consumption; the parameters are those of ``aio.SimpleConsumer``. ``receive`` is for one thread at a time."""

    _core: aio.SimpleConsumer
    settings: SimpleSettings

    def __init__(
        self,
        group: str,
        settings: SimpleSettings | None = None,
        *,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, str | Sql] | None = None,
    ) -> None:
        consumer = aio.SimpleConsumer(group, settings, namesrv=namesrv, subscriptions=subscriptions)
        super().__init__(consumer)

    def receive(
        self, max_messages: int = 16, *, invisible_time: float | None = None, timeout: float | None = None
    ) -> list[PoppedMessage]:
        """Take messages and hide them from other consumers; the list is empty if no message came.

        :param max_messages: 1 to 32.
        :param invisible_time: seconds for which the messages are hidden; None: ``invisible_time`` of the settings.
        :param timeout: seconds to wait for the first message; None: ``poll_time`` of the settings.
        """
        return self._run(self._core.receive(max_messages, invisible_time=invisible_time, timeout=timeout))

    def ack(self, messages: PoppedMessage | Iterable[PoppedMessage]) -> None:
        """Acknowledge messages: they are consumed and are not delivered again."""
        self._run(self._core.ack(messages))

    def change_invisible_time(self, message: PoppedMessage, invisible_time: float) -> None:
        """Hide a message for another period, in seconds from now."""
        self._run(self._core.change_invisible_time(message, invisible_time))
