"""``LitePullConsumer``: returns messages when the application asks, batch by batch.

    with LitePullConsumer("report", namesrv="localhost:9876", subscriptions={"orders": "*"}) as consumer:
        for messages in consumer:
            ...

A thin face of ``gateway.client.aio.LitePullConsumer``, which has the same methods and fuller texts.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.client import aio
from gateway.client.blocking.face import GroupFace
from gateway.client.consume.settings.consumer_settings import LitePullSettings
from gateway.client.consume.subscriptions import Sql
from gateway.client.errors import ClientClosed
from gateway.client.message_queue import MessageQueue

if TYPE_CHECKING:
    from gateway.client.message import ReceivedMessage


class LitePullConsumer(GroupFace):
    """Reads queues at the application's pace. Parameters and guarantees are those of ``aio.LitePullConsumer``.

    ``poll`` and iteration are for one thread at a time. Any thread may call ``close``.
    """

    _core: aio.LitePullConsumer
    settings: LitePullSettings

    def __init__(
        self,
        group: str,
        settings: LitePullSettings | None = None,
        *,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, str | Sql] | None = None,
    ) -> None:
        consumer = aio.LitePullConsumer(group, settings, namesrv=namesrv, subscriptions=subscriptions)
        super().__init__(consumer)

    def __exit__(self, kind: object, *_: object) -> None:
        wait = self._core.CLOSE_TIMEOUT
        self._end(lambda: self._core.close(wait, counts_last=kind is None), wait)

    def __iter__(self) -> Iterator[list[ReceivedMessage]]:
        """Return batches without end; the iteration ends when another thread closes the consumer."""
        while True:
            try:
                messages = self.poll()
            except ClientClosed:
                if not self._is_closed:
                    raise
                return
            if messages:
                yield messages

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that are read now."""
        return self._core.assignment

    def poll(self, timeout: float | None = None) -> list[ReceivedMessage]:
        """Return the next messages of one queue; the messages of the call before count as consumed now.

        :param timeout: seconds to wait; None: ``poll_timeout`` of the settings.
        :returns: an empty list if no message came before the timeout.
        :raises ClientClosed: the consumer is not running.
        """
        return self._run(self._core.poll(timeout))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Report the consumed offsets to the brokers, and wait until they are stored.

        :raises NotCommitted: the offsets could not be stored.
        """
        self._run(self._core.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's stored offset of a queue, None without a stored offset."""
        return self._run(self._core.committed(queue))

    def position(self, queue: MessageQueue) -> int:
        """Return the offset after the last message that counts as consumed."""
        return self._core.position(queue)

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Share a topic's queues with the group."""
        self._do(lambda: self._core.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic."""
        self._do(lambda: self._core.unsubscribe(topic))

    def message_queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic."""
        return self._run(self._core.message_queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, even if other clients read them, too."""
        self._run(self._core.assign(queues))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from another offset."""
        self._run(self._core.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Read a queue from its first stored message."""
        self._run(self._core.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Read only the messages that come into a queue from now on."""
        self._run(self._core.seek_to_end(queue))

    def offset_for_time(self, queue: MessageQueue, when: datetime.datetime | float) -> int:
        """Return the offset of the first message stored at a time or later.

        :param when: an aware datetime or epoch seconds.
        """
        return self._run(self._core.offset_for_time(queue, when))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Neither pull nor return messages of some queues until ``resume``."""
        self._do(lambda: self._core.pause(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue with paused queues."""
        self._do(lambda: self._core.resume(queues))
