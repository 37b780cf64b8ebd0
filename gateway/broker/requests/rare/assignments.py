"""QUERY_ASSIGNMENT: the broker tells a client which queues to consume, and whether to pull or to pop.

Upstream: ``QueryAssignmentProcessor``. The queues are those of the whole cluster, as the name servers know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.access.needs import consumer_needs
from gateway.broker.awaiting import saved
from gateway.broker.desk import Desk, DeskRequests
from gateway.delivery.assignment import OrderedQueues, assigned, assigned_for_pop
from gateway.errors import RequestRefused
from gateway.remoting.declared import CLUSTER_GET, GET, SERVED, SUB, UPDATE, Size, needs
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import list_text, table_of_texts, table_text
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import Work
from wire.bodies.heartbeat import MessageModel
from wire.bodies.message_queue import MessageQueue
from wire.bodies.pop import (
    MODES,
    POP,
    PULL,
    MessageQueueAssignment,
    MessageRequestMode,
    MessageRequestModes,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
)
from wire.bodies.route import MAX_ROUTE_QUEUES
from wire.codes import RequestCode, ResponseCode
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX


class Assignments(DeskRequests):
    """Answers QUERY_ASSIGNMENT (400), SET_MESSAGE_REQUEST_MODE (401) and GET_ALL_MESSAGE_REQUEST_MODE (402)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._broker_name = desk.settings.broker_name
        self._default_mode = desk.settings.default_message_request_mode
        self._default_share = desk.settings.default_pop_share_queue_num
        self._balances = desk.settings.server_load_balancer_enable

    @answers(RequestCode.QUERY_ASSIGNMENT, None, needs(in_body="Group Sub/Get and Topic Sub/Get"), slave=SERVED)
    async def query(self, request: Request, _header: None) -> Answer:
        """Answer with the queues of one client; with no queues if the broker cannot say.

        A client that gets no queues keeps those that it has.
        """
        asked = QueryAssignmentRequest.parse(request.command.body)
        request.require(*consumer_needs(asked.consumer_group, [asked.topic], SUB | GET))
        mode = self._mode(asked.topic, asked.consumer_group)
        queues = await self._queues(asked.topic)
        return await self._desk.turns.run(self._answer(asked, mode, queues), request.channel)

    def _answer(
        self, asked: QueryAssignmentRequest, mode: MessageRequestMode, queues: OrderedQueues | None
    ) -> Work[Answer]:
        mine = None if queues is None else self._assigned(asked, mode, queues)
        if mine is None:
            return Answer(body=QueryAssignmentResponse().build())
        assignments = (MessageQueueAssignment(queue, mode.mode).to_json() for queue in mine)
        text: Any = yield from list_text(f"queues of topic {asked.topic}", assignments)
        return Answer(body=QueryAssignmentResponse(text).build())

    def _mode(self, topic: str, group: str) -> MessageRequestMode:
        mode = self._desk.modes.get(topic, group)
        if mode is not None:
            return mode
        kind = PULL if topic.startswith(RETRY_TOPIC_PREFIX) else self._default_mode
        return MessageRequestMode(topic, group, kind, self._default_share)

    async def _queues(self, topic: str) -> OrderedQueues | None:
        table = await self._desk.read_queues(topic)
        if table is None:
            config = self._desk.topics.get(topic)
            if config is None:
                return None
            table = {self._broker_name: config.read_queue_nums}
        total = sum(max(count, 0) for count in table.values())
        if total > MAX_ROUTE_QUEUES:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"topic {topic} has {total} queues on {len(table)} brokers, the limit is {MAX_ROUTE_QUEUES}",
            )
        return OrderedQueues(topic, table)

    def _assigned(
        self, asked: QueryAssignmentRequest, mode: MessageRequestMode, queues: OrderedQueues
    ) -> Sequence[MessageQueue] | None:
        if asked.message_model == MessageModel.BROADCASTING or not self._balances:
            return queues
        clients = self._desk.consumers.client_ids(asked.consumer_group)
        if mode.mode == POP:
            return assigned_for_pop(asked.strategy_name, clients, asked.client_id, queues, mode.pop_share_queue_num)
        return assigned(asked.strategy_name, clients, asked.client_id, queues)

    @answers(RequestCode.SET_MESSAGE_REQUEST_MODE, None, needs(in_body="Group Update and Topic Update"))
    async def set_mode(self, request: Request, _header: None) -> Answer:
        """Set how a group consumes a topic from now on; clients learn the mode with their next query."""
        mode = MessageRequestMode.parse(request.command.body)
        request.require(*consumer_needs(mode.consumer_group, [mode.topic], UPDATE))
        if mode.topic.startswith(RETRY_TOPIC_PREFIX):
            raise RequestRefused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._desk.topics.get(mode.topic) is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
        if self._desk.groups.find(mode.consumer_group) is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{mode.consumer_group}] does not exist"
            )
        if mode.mode not in MODES:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"mode is {mode.mode[:32]!r}, not PULL or POP")
        self._desk.modes.put(mode)
        await saved(self._desk.modes.persist, f"request mode of group {mode.consumer_group}")
        return Answer()

    @answers_in_turns(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, None, CLUSTER_GET, Size.LIST, slave=SERVED)
    def all_modes(self, _request: Request, _header: None) -> Work[Answer]:
        """Answer with every mode that was set."""
        what, modes = "all request modes", self._desk.modes.all()
        tables = ((topic, table_text(what, _of_topic(modes.get(topic, {})))) for topic in sorted(modes))
        text: Any = yield from table_of_texts(what, tables)
        return Answer(body=MessageRequestModes(text).build())


def _of_topic(modes: Mapping[str, MessageRequestMode]) -> list[tuple[str, dict[str, Any]]]:
    return [(group, mode.to_json()) for group, mode in sorted(modes.items())]
