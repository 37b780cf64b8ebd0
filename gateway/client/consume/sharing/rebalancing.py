"""Keeps this client's queues in step with the members of its group.

Every ``rebalance_interval``, at once when a broker tells of a change, and after a second when something could not be
done. Which queues are whose is decided in ``allocation.py`` and ``rebalance.py``; taking and giving up a queue is the
consumer's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gateway.client.consume.pop.pop_queue import PopQueue
from gateway.client.consume.settings.consumer_settings import ConsumerSettings, MessageModel
from gateway.client.consume.sharing.rebalance import changes, share_of
from gateway.client.errors import RocketMQError, RouteNotFound
from gateway.client.namespaces import RETRY_PREFIX
from wire.bodies.consumers import ConsumerListByGroup
from wire.codes import RequestCode, ResponseCode
from wire.errors import WireError
from wire.headers.groups import GetConsumerListByGroupRequest

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.connect.routes import TopicRoute
    from gateway.client.consume.process_queue import ProcessQueue
    from gateway.client.consume.sharing.assignments import BrokerAssignments
    from gateway.client.message_queue import MessageQueue

_log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Seconds until the next attempt when not everything could be done (upstream ``rebalance.minInterval``)."""

RETRY_TOPIC_LOOKS: Final = 5
"""How often a retry topic without a route is looked for again so soon."""


class QueueState(Protocol):
    """A queue this client has: ``ProcessQueue`` when it is pulled, ``PopQueue`` when it is popped."""

    queue: MessageQueue

    @property
    def paused(self) -> bool:
        """Whether the application stopped it."""

    def drop(self) -> None:
        """Give it up."""

    def is_pull_expired(self, now: float) -> bool:
        """Whether its loop has stopped for no reason."""


@dataclass(frozen=True, slots=True)
class QueueOwner:
    """What a consumer says and does when queues are shared out."""

    topics: Callable[[], Collection[str]]
    """Returns what is subscribed to now."""
    take: Callable[[MessageQueue], Awaitable[ProcessQueue | None]]
    """Begins with a queue; None when it cannot be had now."""
    give_up: Callable[[Collection[QueueState]], Awaitable[None]]
    """Ends with queues."""
    take_popped: Callable[[MessageQueue], PopQueue | None] | None = None
    """Begins with a queue that the broker's assignments let pop."""


class Rebalancing:
    """The assignment of one consumer.

    :param assignments: asked before the group is; None: the members share among themselves.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        owner: QueueOwner,
        assignments: BrokerAssignments | None = None,
    ) -> None:
        self._instance = instance
        self._group = group
        self._settings = settings
        self._owner = owner
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()
        self._retry_looks = 0
        self._assignments = assignments
        self.assigned: dict[MessageQueue, QueueState] = {}

    def of_topic(self, topic: str) -> dict[MessageQueue, QueueState]:
        """The assigned queues of one topic."""
        return {queue: state for queue, state in self.assigned.items() if queue.topic == topic}

    def wake(self) -> None:
        """Look at once: members, routes or subscriptions have changed."""
        self._wanted.set()

    async def run(self) -> None:
        """Rebalance for ever."""
        while True:
            self._wanted.clear()
            is_settled = await self._try_to_rebalance()
            pause = self._settings.rebalance_interval if is_settled else RETRY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()

    async def _try_to_rebalance(self) -> bool:
        try:
            return await self.rebalance()
        except Exception:  # noqa: BLE001 - logged
            # An allocation of the application may raise anything, and later queues must be shared out all the same.
            _log.exception("group %s: rebalancing failed, again in %g s", self._group, RETRY_S)
            return False

    async def rebalance(self) -> bool:
        """Look once at every topic; False when something is left to be done."""
        async with self._turn:
            topics = set(self._owner.topics())
            forgotten = [state for queue, state in self.assigned.items() if queue.topic not in topics]
            await self._drop(forgotten)
            results = [await self._rebalance_topic(topic) for topic in sorted(topics)]
            return all(results)

    async def drop(self, states: Collection[QueueState]) -> None:
        """Give up some queues now; the next rebalance may take them again."""
        async with self._turn:
            await self._drop([state for state in states if self.assigned.get(state.queue) is state])

    async def drop_all(self) -> None:
        """Give up everything: the consumer ends."""
        await self.drop(list(self.assigned.values()))

    async def _rebalance_topic(self, topic: str) -> bool:
        try:
            route = await self._instance.route(topic)
            wanted = await self._wanted_of(topic, route)
            if wanted is None:
                return False
            return await self._apply(topic, wanted)
        except RouteNotFound as error:
            if topic.startswith(RETRY_PREFIX):
                # Made by the broker at the first heartbeat, and told to the name server a little later, or not at all.
                self._retry_looks += 1
                return self._retry_looks > RETRY_TOPIC_LOOKS
            self._instance.route_failed(topic, error)
        except (RocketMQError, WireError) as error:
            _log.warning("group %s: topic %s is not rebalanced: %s", self._group, topic, error)
        return False

    async def _wanted_of(self, topic: str, route: TopicRoute) -> Mapping[MessageQueue, bool] | None:
        """The queues of this client in a topic and whether each is popped; None when it cannot be said now."""
        assignments = self._assignments
        if assignments is not None and not assignments.are_left_to_members(topic):
            found = await assignments.of(topic, route)
            if not assignments.are_left_to_members(topic):
                if found is None:
                    await self._instance.heartbeat()  # the broker does not know this client yet
                return found
        share = await self._share(topic, route)
        return None if share is None else dict.fromkeys(share, False)

    async def _share(self, topic: str, route: TopicRoute) -> Collection[MessageQueue] | None:
        """The queues of this client in a topic; None when it cannot be said now."""
        queues = route.subscribe_queues
        if self._settings.message_model is MessageModel.BROADCASTING:
            return queues
        client_ids = await self._client_ids(route)
        client_id = self._instance.client_id
        if client_ids is None or client_id not in client_ids:
            await self._instance.heartbeat()
            client_ids = await self._client_ids(route)
        if client_ids is None or client_id not in client_ids:
            _log.warning("group %s: the broker of topic %s does not list this client yet", self._group, topic)
            return None
        return share_of(self._settings.allocation, self._group, client_id, queues, client_ids)

    async def _client_ids(self, route: TopicRoute) -> Collection[str] | None:
        """The members as any broker of the topic knows them."""
        header = GetConsumerListByGroupRequest(consumer_group=self._group)
        names = list(route.brokers)
        if not names:
            return None
        answer = await self._instance.ask(
            self._instance.random.choice(names),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            header,
            expect=(ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR),
        )
        return ConsumerListByGroup.parse(answer.body).client_ids if answer.code == ResponseCode.SUCCESS else None

    async def _apply(self, topic: str, wanted: Mapping[MessageQueue, bool]) -> bool:
        current = self.of_topic(topic)
        changed = {queue for queue, state in current.items() if isinstance(state, PopQueue) is not wanted.get(queue)}
        now = asyncio.get_running_loop().time()
        expired = [queue for queue, state in current.items() if state.is_pull_expired(now) and not state.paused]
        if expired:
            _log.warning("group %s: pulling of %s has stopped, the queues are taken anew", self._group, expired)
        plan = changes([queue for queue in current if queue not in expired and queue not in changed], wanted)
        await self._drop([current[queue] for queue in {*plan.removed, *expired, *changed}])
        is_settled = True
        for queue in plan.added:
            state = await self._begin(queue, is_popped=wanted[queue])
            if state is None:
                is_settled = False
            else:
                self.assigned[queue] = state
        if plan:
            names = sorted(f"{queue.broker_name}:{queue.queue_id}" for queue in self.of_topic(topic))
            _log.info("group %s: queues of %s are now %s", self._group, topic, ", ".join(names) or "none")
        return is_settled

    async def _begin(self, queue: MessageQueue, *, is_popped: bool) -> QueueState | None:
        if is_popped and self._owner.take_popped is not None:
            return self._owner.take_popped(queue)
        return await self._owner.take(queue)

    async def _drop(self, states: Collection[QueueState]) -> None:
        for state in states:
            state.drop()
            self.assigned.pop(state.queue, None)
        if states:
            await self._owner.give_up(states)


def member_topics(subscribed: Mapping[str, object], retry: str | None) -> set[str]:
    """The topics of a consumer with its retry topic."""
    return {*subscribed, retry} if retry is not None else set(subscribed)
