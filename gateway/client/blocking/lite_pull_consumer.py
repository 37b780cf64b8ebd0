"""``LitePullConsumer``: gives messages when they are asked for, batch by batch.

    with LitePullConsumer("report", namesrv="localhost:9876", subscriptions={"orders": "*"}) as consumer:
        for messages in consumer:
            ...

The thin face of ``gateway.client.aio.LitePullConsumer``, which has the same methods and says more of each.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from gateway.client import aio
from gateway.client.blocking.face import GroupFace
from gateway.client.consume.settings.lite_pull_settings import LitePullSettings
from gateway.client.consume.subscriptions import Sql
from gateway.client.errors import ClientClosed
from gateway.client.message_queue import MessageQueue

if TYPE_CHECKING:
    from gateway.client.message import ReceivedMessage


class LitePullConsumer(GroupFace):
    """Reads queues at the application's pace; parameters and promises are those of ``aio.LitePullConsumer``.

    ``poll`` and iteration are for one thread at a time, ``close`` for any.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wait = self._core.CLOSE_TIMEOUT
        self._end(lambda: self._core.close(wait, counts_last=kind is None), wait)

    def __iter__(self) -> Iterator[list[ReceivedMessage]]:
        """Batches without end; it ends when another thread closes the consumer."""
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
        """The next messages of one queue, none when none came; those of the call before count as consumed now.

        :param timeout: seconds to wait; None: ``poll_timeout`` of the settings.
        :raises ClientClosed: it does not run.
        """
        return self._run(self._core.poll(timeout))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Tell the brokers what is consumed, and wait until they know; ``NotCommitted`` when that fails."""
        self._run(self._core.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's stored offset of a queue, None without one."""
        return self._run(self._core.committed(queue))

    def position(self, queue: MessageQueue) -> int:
        """The offset after the last message that counts as consumed."""
        return self._core.position(queue)

    def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        """Share a topic's queues with the group."""
        self._do(lambda: self._core.subscribe(topic, expression))

    def unsubscribe(self, topic: str) -> None:
        """Give up a topic."""
        self._do(lambda: self._core.unsubscribe(topic))

    def message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic."""
        return self._run(self._core.message_queues(topic))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues, whoever else does."""
        self._run(self._core.assign(queues))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from another offset."""
        self._run(self._core.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Read a queue from its first stored message."""
        self._run(self._core.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Read only what comes into a queue from now on."""
        self._run(self._core.seek_to_end(queue))

    def offset_for_time(self, queue: MessageQueue, when: datetime.datetime | float) -> int:
        """The offset of the first message stored then or later; an aware datetime or epoch seconds."""
        return self._run(self._core.offset_for_time(queue, when))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Neither pull nor give messages of some queues until ``resume``."""
        self._do(lambda: self._core.pause(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on with paused queues."""
        self._do(lambda: self._core.resume(queues))
