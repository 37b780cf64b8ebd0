"""Asks a broker which queues of a topic this client consumes, and whether it pulls or pops them (400).

For push consumers that leave sharing to the brokers (``client_rebalance=False``). Upstream: ``tryQueryAssignment`` of
``RebalanceImpl``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.client.errors import BrokerError
from gateway.client.message_queue import MessageQueue
from wire.bodies.pop import POP, QueryAssignmentRequest, QueryAssignmentResponse
from wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from gateway.client.aio.instance import ClientInstance
    from gateway.client.routes import TopicRoute

_log = logging.getLogger(__name__)


class NotSharedByBrokers(Exception):
    """The brokers of a topic do not share queues out: its clients do."""


class BrokerAssignments:
    """The assignments of one consumer.

    :param strategy_name: how queues that are pulled are shared out; brokers know AVG and AVG_BY_CIRCLE.
    """

    def __init__(self, instance: ClientInstance, group: str, strategy_name: str) -> None:
        self._instance = instance
        self._group = group
        self._strategy_name = strategy_name
        self._shared_by_clients: set[str] = set()

    async def of(self, topic: str, route: TopicRoute) -> dict[MessageQueue, bool] | None:
        """The queues of this client and whether each is popped; None when the broker cannot say yet.

        :raises NotSharedByBrokers: ask the group instead; remembered for this topic, as upstream does.
        :raises RocketMQError: no answer, or a refusal.
        """
        if topic in self._shared_by_clients:
            raise NotSharedByBrokers(topic)
        name = self._instance.random.choice(list(route.brokers))
        body = QueryAssignmentRequest(topic, self._group, self._instance.client_id, self._strategy_name).build()
        try:
            answer = await self._instance.ask(name, RequestCode.QUERY_ASSIGNMENT, body=body)
        except BrokerError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            _log.info("group %s: the members share the queues of %s: %s", self._group, topic, error)
            self._shared_by_clients.add(topic)
            raise NotSharedByBrokers(topic) from error
        found = QueryAssignmentResponse.parse(answer.body).message_queue_assignments if answer.body else None
        if found is None:
            return None
        queues = ((each.message_queue, each.mode == POP) for each in found)
        return {MessageQueue(queue.topic, queue.broker_name, queue.queue_id): popped for queue, popped in queues}
