"""Keeps the queues of this client in step with the members of its group.

A rebalance runs every ``rebalance_interval``, at once when a broker reports a change, and after a second when
something failed. Every member sorts queues and client ids in the same way, so all members agree (upstream
``RebalanceImpl.rebalanceByTopic``). ``allocation.py`` has the strategies. The consumer itself takes and gives up
queues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from gateway.client.consume.pop.pop_queue import PopQueue
from gateway.client.consume.settings.consumer_settings import ConsumerSettings, MessageModel
from gateway.client.errors import ConfigurationError, RocketMQError, RouteNotFound
from wire.bodies.consumers import ConsumerListByGroup
from wire.codes import RequestCode, ResponseCode
from wire.errors import WireError
from wire.headers.groups import GetConsumerListByGroupRequest
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

if TYPE_CHECKING:
    from gateway.client.allocation import AllocationStrategy
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.connect.routes import TopicRoute
    from gateway.client.consume.process_queue import ProcessQueue
    from gateway.client.consume.sharing.assignments import BrokerAssignments
    from gateway.client.message_queue import MessageQueue

_log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Seconds until the next attempt if a rebalance could not do everything (upstream ``rebalance.minInterval``)."""

RETRY_TOPIC_LOOKS: Final = 5
"""The number of times that a missing route of a retry topic causes a new attempt after ``RETRY_S``."""


@dataclass(frozen=True, slots=True)
class QueueChanges:
    """The queues to give up and the queues to take, both sorted."""

    removed: tuple[MessageQueue, ...]
    added: tuple[MessageQueue, ...]

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)


def share_of(
    strategy: AllocationStrategy,
    group: str,
    client_id: str,
    queues: Collection[MessageQueue],
    client_ids: Collection[str],
) -> tuple[MessageQueue, ...]:
    """Return the queues of this client in one topic; none if there are no queues, or the client is not a member (yet).

    :raises ConfigurationError: the strategy returns queues that do not exist.
    """
    if not queues or client_id not in client_ids:
        return ()
    share = strategy(group, client_id, sorted(queues), sorted(client_ids))
    strange = set(share).difference(queues)
    if strange:
        raise ConfigurationError(
            f"the answer of allocation strategy {strategy.name} for group {group}",
            sorted(strange)[:3],
            "a choice among the queues it is given",
        )
    return tuple(sorted(set(share)))


def changes(current: Collection[MessageQueue], wanted: Collection[MessageQueue]) -> QueueChanges:
    """Return the changes from one set of queues to another."""
    have, want = set(current), set(wanted)
    return QueueChanges(tuple(sorted(have - want)), tuple(sorted(want - have)))


QueueState: TypeAlias = "ProcessQueue | PopQueue"
"""A queue that this client has, and pulls or pops."""


@dataclass(frozen=True, slots=True)
class QueueOwner:
    """The callbacks to the consumer when queues are shared out."""

    topics: Callable[[], Collection[str]]
    """Returns the topics that are subscribed to now."""
    take: Callable[[MessageQueue], Awaitable[ProcessQueue | None]]
    """Starts reading a queue; returns None if the queue is not available now."""
    give_up: Callable[[Collection[QueueState]], Awaitable[None]]
    """Stops reading queues."""
    take_popped: Callable[[MessageQueue], PopQueue | None] | None = None
    """Starts popping a queue, if the broker's assignment says so."""


class Rebalancing:
    """The assignment of one consumer.

    :param assignments: asked before the members of the group are; None: the members share the queues among themselves.
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

    def wake(self) -> None:
        """Start the next rebalance at once: members, routes or subscriptions have changed."""
        self._wanted.set()

    async def run(self) -> None:
        """Rebalance again and again; runs for ever."""
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
        """Rebalance every topic once; return False if something is left to do."""
        async with self._turn:
            topics = set(self._owner.topics())
            forgotten = [state for queue, state in self.assigned.items() if queue.topic not in topics]
            await self._drop(forgotten)
            results = [await self._rebalance_topic(topic) for topic in sorted(topics)]
            return all(results)

    async def drop_all(self) -> None:
        """Give up all queues, because the consumer ends."""
        async with self._turn:
            await self._drop(list(self.assigned.values()))

    async def _rebalance_topic(self, topic: str) -> bool:
        try:
            route = await self._instance.route(topic)
            wanted = await self._wanted_of(topic, route)
            if wanted is None:
                return False
            return await self._apply(topic, wanted)
        except RouteNotFound as error:
            if topic.startswith(RETRY_TOPIC_PREFIX):
                # Made by the broker at the first heartbeat, and told to the name server a little later, or not at all.
                self._retry_looks += 1
                return self._retry_looks > RETRY_TOPIC_LOOKS
            self._instance.route_failed(topic, error)
        except (RocketMQError, WireError) as error:
            _log.warning("group %s: topic %s is not rebalanced: %s", self._group, topic, error)
        return False

    async def _wanted_of(self, topic: str, route: TopicRoute) -> Mapping[MessageQueue, bool] | None:
        """Return the queues of this client in a topic, with True for a popped queue; None if they are not known now."""
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
        """Return the queues of this client in a topic, None if they are not known now."""
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
        """Return the members of the group, as a random broker of the topic lists them; None without a list."""
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
        current = {queue: state for queue, state in self.assigned.items() if queue.topic == topic}
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
            names = sorted(f"{queue.broker_name}:{queue.queue_id}" for queue in self.assigned if queue.topic == topic)
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
