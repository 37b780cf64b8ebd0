"""``aio.SimpleConsumer``: takes messages, hides them from other members for a while, and acknowledges them one by one.

    async with SimpleConsumer("mail", namesrv="localhost:9876", subscriptions={"orders": "*"}) as consumer:
        for message in await consumer.receive(16, invisible_time=30):
            ...
            await consumer.ack(message)

A simple consumer uses POP consumption of RocketMQ 5 (``pops``), and needs a broker that supports it. The broker shares
out messages, not queues. A message that is not acknowledged within the invisible time comes again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence

from gateway.client.connect.instance import ClientInstance
from gateway.client.connect.member import Answer
from gateway.client.consume.group_consumer import GroupConsumer
from gateway.client.consume.pop.pop_handles import PoppedMessage
from gateway.client.consume.pop.pops import ANY_QUEUE, MAX_MESSAGES, GroupPops
from gateway.client.consume.settings.consumer_settings import SimpleSettings
from gateway.client.consume.subscriptions import Sql
from gateway.client.errors import ClientClosed, ConfigurationError, RouteNotFound
from gateway.client.message_queue import MessageQueue
from wire.bodies.consume_kinds import ConsumeType
from wire.codes import RequestCode
from wire.command import RemotingCommand


class SimpleConsumer(GroupConsumer):
    """Takes messages, hides them from other members for a while, and acknowledges them one by one.

    A message that is not acknowledged within the invisible time comes again. There are no queues to share: any number
    of members may take messages from a topic. The broker must support POP consumption (5.x).

    :param group: 1 to 255 letters, digits, ``%|_-``.
    :param settings: None: ``SimpleSettings.from_env()``.
    :param namesrv: shortcut for the setting of this name.
    :param subscriptions: topic → tags (``"A || B"``, ``"*"``) or ``Sql(...)``.
    :raises ConfigurationError: a setting is not usable; ``MessageRefused``: the name of a group or topic is refused.
    """

    settings: SimpleSettings
    _consume_type = ConsumeType.CONSUME_POP
    CLOSE_TIMEOUT = 5.0

    def __init__(
        self,
        group: str,
        settings: SimpleSettings | None = None,
        *,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, str | Sql] | None = None,
    ) -> None:
        super().__init__("simple consumer", group, SimpleSettings.chosen(settings, namesrv), subscriptions)
        self._pops: GroupPops | None = None
        self._held: dict[MessageQueue, asyncio.Task[list[PoppedMessage]]] = {}
        self._left: list[PoppedMessage] = []
        self._turn = itertools.count()

    # --- life -----------------------------------------------------------------------------------------------

    async def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Leave the group and close the connections; messages without an acknowledgement come again. Idempotent.

        :param timeout: seconds at most.
        """
        if not self._closes_now():
            return
        for task in self._held.values():
            task.cancel()
        await asyncio.gather(*self._held.values(), return_exceptions=True)
        if self._instance is not None:
            async with asyncio.timeout(timeout):
                await self._instance.close()

    # --- receiving ------------------------------------------------------------------------------------------

    async def receive(
        self, max_messages: int = 16, *, invisible_time: float | None = None, timeout: float | None = None
    ) -> list[PoppedMessage]:
        """Take messages; return an empty list if none came before the timeout. For one task at a time.

        :param max_messages: 1 … 32.
        :param invisible_time: seconds, 1 … 43200, for which other members do not get the messages; None:
            ``invisible_time`` of the settings.
        :param timeout: seconds to wait for a message; None: ``poll_time`` of the settings.
        :raises RouteNotFound: none of the topics exists.
        :raises BrokerError: the broker refuses, or has no POP consumption.
        """
        self._running_instance()
        if not 1 <= max_messages <= MAX_MESSAGES:
            raise ConfigurationError("max_messages", max_messages, f"1 to {MAX_MESSAGES}")
        hidden = self.settings.invisible_time if invisible_time is None else invisible_time
        if not 1 <= hidden <= 43_200:
            raise ConfigurationError("invisible_time", hidden, "1 to 43200 seconds")
        loop = asyncio.get_running_loop()
        end = loop.time() + (self.settings.poll_time if timeout is None else timeout)
        while True:
            found = self._take_left(max_messages)
            if found:
                return found
            left = end - loop.time()
            await self._start_pops(max_messages, hidden, max(0.0, left))
            await asyncio.wait(self._held.values(), return_when=asyncio.FIRST_COMPLETED)
            self._collect()
            if not self._left and loop.time() >= end:
                return []

    async def ack(self, messages: PoppedMessage | Iterable[PoppedMessage]) -> None:
        """Acknowledge messages: they are consumed and do not come again.

        The broker accepts an acknowledgement after the invisible time without an error, but the message comes again.
        Several messages are acknowledged in one request if the broker supports batches.

        :raises BrokerError: a broker does not know such a message.
        :raises ConfigurationError: a message is not from ``receive``.
        """
        given = [messages] if isinstance(messages, PoppedMessage) or not isinstance(messages, Iterable) else messages
        await self._running_pops().ack([_popped(message) for message in given])

    async def change_invisible_time(self, message: PoppedMessage, invisible_time: float) -> None:
        """Hide a message for another while, counted from now; with 0, other members can get the message at once.

        :param invisible_time: seconds.
        :raises BrokerError: the broker does not know such a message.
        """
        if not isinstance(invisible_time, int | float) or invisible_time < 0:
            raise ConfigurationError("invisible_time", invisible_time, "seconds of 0 or more")
        await self._running_pops().change_invisible_time(_popped(message), invisible_time)

    # --- a member of the client instance --------------------------------------------------------------------

    def answers(self) -> Mapping[int, Answer]:
        """Return an answer that ignores changes of members, which matter only to the broker."""
        return {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: _no_answer}

    # --- inside ---------------------------------------------------------------------------------------------

    def _assemble(self, instance: ClientInstance) -> None:
        self._pops = GroupPops(instance, self.group, self.settings.consume_from_where)

    def _running_pops(self) -> GroupPops:
        self._running_instance()
        assert self._pops is not None, "it is made together with the instance"
        return self._pops

    def _take_left(self, most: int) -> list[PoppedMessage]:
        """Return messages of earlier pops that no ``receive`` returned, unless other members may have them by now."""
        now = asyncio.get_running_loop().time()
        fresh = [message for message in self._left if message.hidden_until > now]
        self._left = fresh[most:]
        return fresh[:most]

    async def _start_pops(self, most: int, hidden: float, hold: float) -> None:
        """Start a pop at every source that has none; the first answer is used, the other pops go on."""
        sources = await self._sources()
        first = next(self._turn) % len(sources)
        for source in sources[first:] + sources[:first]:
            if source not in self._held:
                subscription = self._subscriptions[source.topic]
                work = self._running_pops().pop(source, subscription, most, hidden=hidden, hold=hold)
                self._held[source] = asyncio.create_task(work, name=f"pop of {source.topic}")

    def _collect(self) -> None:
        """Take what the finished pops brought; what comes after a failure waits for the next ``receive``."""
        for source, task in list(self._held.items()):
            if task.done():
                del self._held[source]
                if task.cancelled():
                    raise ClientClosed(self.name, "was closed")
                self._left += task.result()

    async def _sources(self) -> list[MessageQueue]:
        instance = self._running_instance()
        sources: list[MessageQueue] = []
        missing: RouteNotFound | None = None
        for topic in self._subscriptions:
            try:
                route = await instance.route(topic)
            except RouteNotFound as error:
                missing = error
                continue
            names = sorted({queue.broker_name for queue in route.subscribe_queues})
            sources += [MessageQueue(topic, name, ANY_QUEUE) for name in names]
        if not sources:
            raise missing or RouteNotFound(
                next(iter(self._subscriptions)), self.settings.name_servers, "no broker has readable queues"
            )
        return sources


def _popped(message: object) -> PoppedMessage:
    if not isinstance(message, PoppedMessage):
        raise ConfigurationError("message", message, "one that receive() gave")
    return message


async def _no_answer(_request: RemotingCommand, _address: str) -> RemotingCommand | None:
    return None
