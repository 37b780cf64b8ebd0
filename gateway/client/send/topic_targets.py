"""The queues of one topic that a sender may choose from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from gateway.client.connect.routes import TopicRoute
from gateway.client.errors import ConfigurationError, RouteNotFound
from gateway.client.message import Message
from gateway.client.message_queue import MessageQueue
from gateway.client.send.queue_choice import QueueTurns, queue_by_key
from gateway.client.send.sending import SendOptions, SendTarget


class TopicTargets:
    """Chooses a target for each message to one topic.

    :param topic: the name without the namespace.
    :param route: the name server's answer.
    :param name_servers: the addresses of the name servers, for errors.
    :param start: the number at which the turns start.
    :param allowed: returns whether a broker may be used now; None: all brokers may be used.
    :raises RouteNotFound: the topic has no queue that can be written.
    """

    __slots__ = ("_allowed", "_by_queue", "_targets", "_turns", "next_in_turn", "public_queues", "route")

    def __init__(
        self,
        topic: str,
        route: TopicRoute,
        name_servers: Sequence[str],
        *,
        start: int,
        allowed: Callable[[str], bool] | None,
    ) -> None:
        if not route.publish_queues:
            reason = "it has no writable queue on a broker with a master (perm without write, or masters are down)"
            raise RouteNotFound(route.topic, name_servers, reason)
        self.route = route
        self._targets = [
            SendTarget(queue, queue._replace(topic=topic), route.address(queue.broker_name) or "")
            for queue in route.publish_queues
        ]
        self.public_queues = tuple(target.public_queue for target in self._targets)
        """The queues without the namespace, as applications know the queues."""
        self._by_queue = dict(zip(self.public_queues, self._targets, strict=True))
        self._turns = QueueTurns(route.publish_queues, start)
        self._allowed = allowed
        first = start % len(self._targets)
        self.next_in_turn: Callable[[], SendTarget] | None = None
        """A function that returns the next target for a message that may go to any queue; None: ``choose`` decides."""
        if allowed is None:
            self.next_in_turn = itertools.cycle(self._targets[first:] + self._targets[:first]).__next__

    def choose(self, message: Message, options: SendOptions, failed_broker: str | None) -> SendTarget:
        """Return the target of a message.

        :param failed_broker: a broker that is avoided if there is another broker.
        :raises ConfigurationError: the queue from the options or from the selector is not a queue of the topic.
        """
        if options.queue is not None:
            return self._target_of(options.queue, "queue")
        if options.selector is not None:
            return self._target_of(options.selector(self.public_queues, message), "selector")
        if message.sharding_key:
            return self._by_queue[queue_by_key(self.public_queues, message.sharding_key)]
        if self._allowed is not None:
            return self._targets[self._turns.next_allowed(self._allowed, failed_broker)]
        if self.next_in_turn is not None and failed_broker is None:
            return self.next_in_turn()
        return self._targets[self._turns.next_away_from(failed_broker)]

    def _target_of(self, queue: MessageQueue, key: str) -> SendTarget:
        target = self._by_queue.get(queue)
        if target is None:
            raise ConfigurationError(key, queue, "one of the writable queues of the topic: publish_queues() lists them")
        return target
