"""Asks a broker which queues of a topic this client consumes, and whether the client pulls or pops them (400).

For push consumers that leave the sharing of queues to the brokers (``client_rebalance=False``). Upstream:
``tryQueryAssignment`` of ``RebalanceImpl``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.client.connect.answers import body_of
from gateway.client.errors import BrokerError
from gateway.client.message_queue import MessageQueue
from wire.bodies.pop import POP, QueryAssignmentRequest, QueryAssignmentResponse
from wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from gateway.client.connect.routes import TopicRoute

_log = logging.getLogger(__name__)


class BrokerAssignments:
    """The assignments of one consumer, as a broker makes them.

    :param strategy_name: the way in which the broker shares out pulled queues; brokers know AVG and AVG_BY_CIRCLE.
    """

    def __init__(self, instance: ClientInstance, group: str, strategy_name: str) -> None:
        self._instance = instance
        self._group = group
        self._strategy_name = strategy_name
        self._left_to_members: set[str] = set()

    def are_left_to_members(self, topic: str) -> bool:
        """Return whether the brokers of a topic do not share out its queues, so that the members must, as upstream."""
        return topic in self._left_to_members

    async def of(self, topic: str, route: TopicRoute) -> dict[MessageQueue, bool] | None:
        """Return the queues of this client in a topic, with True for a queue that is popped.

        Return None if the broker cannot answer yet, or never can.

        :raises RocketMQError: the broker did not answer, or refused.
        """
        names = list(route.brokers)
        if not names:
            return None
        name = self._instance.random.choice(names)
        body = QueryAssignmentRequest(topic, self._group, self._instance.client_id, self._strategy_name).build()
        try:
            answer = await self._instance.ask(name, RequestCode.QUERY_ASSIGNMENT, body=body)
        except BrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            _log.info("group %s: the members share the queues of %s: %s", self._group, topic, error)
            self._left_to_members.add(topic)
            return None
        if not answer.body:
            return None
        found = body_of(QueryAssignmentResponse, answer, f"broker {name}").message_queue_assignments
        if found is None:
            return None
        return {
            MessageQueue(topic, each.message_queue.broker_name, each.message_queue.queue_id): each.mode == POP
            for each in found
            if each.message_queue.topic == topic  # nobody would give up one of another topic
        }
