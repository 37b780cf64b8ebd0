"""Topics: create, delete, list, their configuration, the contents of their queues, and their brokers."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from gateway.client.admin.admin_calls import AdminCalls
from gateway.client.admin.admin_results import DEFAULT_QUEUES, QueueStats
from gateway.client.connect.answers import body_of
from gateway.client.connect.routes import TopicRoute, topic_route
from gateway.client.errors import ConfigurationError, RequestTimeout, RouteNotFound
from gateway.client.message_queue import MessageQueue
from gateway.client.names import check_topic
from wire.bodies.tools.statistics import TopicStatsTable
from wire.bodies.topics import SINGLE_TAG, TopicConfig, TopicList
from wire.codes import RequestCode
from wire.headers.name_server import DeleteTopicFromNamesrvRequest, GetTopicsByClusterRequest
from wire.headers.topics import CreateTopicRequest, DeleteTopicRequest, GetTopicConfigRequest, GetTopicStatsInfoRequest
from wire.message.flags import Permission

TEMPLATE_TOPIC: Final = "TBW102"
ROUTE_PAUSE_S: Final = 0.05
"""The seconds between two checks whether the name servers know a new topic."""


class AdminTopics:
    """Requests about topics."""

    def __init__(self, calls: AdminCalls) -> None:
        self._calls = calls

    async def create(
        self,
        topic: str,
        *,
        queues: int = DEFAULT_QUEUES,
        write_queues: int | None = None,
        perm: int = Permission.READ_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker_name: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Create a topic or change it; return when clients can find the topic.

        :param queues: the number of queues to read from, on each broker.
        :param write_queues: the number of queues to write to, on each broker; None: the same number as ``queues``.
        :param perm: ``Permission.READ`` (4) and ``WRITE`` (2).
        :param attributes: attributes of 5.x, for example ``{"message.type": "FIFO"}``.
        :param cluster: the cluster whose brokers get the topic; None: the brokers of all clusters.
        :param broker_name: the only broker that gets the topic; None: all brokers.
        :param timeout: seconds to wait until the name server knows the topic.
        :raises MessageRefused: the name is not the name of a topic; ``ConfigurationError``: no queue to read from.
        :raises BrokerError: a broker refuses the topic.
        :raises RequestTimeout: the brokers have the topic, but the name server does not know it before the timeout.
        """
        check_topic(topic)
        if not isinstance(queues, int) or queues < 1:
            raise ConfigurationError("queues", queues, "a whole number of at least 1")
        header = CreateTopicRequest(
            topic=self._calls.wire(topic),
            default_topic=TEMPLATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=perm,
            topic_filter_type=SINGLE_TAG,
            topic_sys_flag=0,
            order=order,
            attributes=",".join(f"+{name}={value}" for name, value in (attributes or {}).items()) or None,
        )
        masters = await self._calls.masters(cluster, broker_name)
        await self._calls.ask_each(masters, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        try:
            async with asyncio.timeout(timeout):
                while not await self._is_routed(header, masters):
                    await asyncio.sleep(ROUTE_PAUSE_S)
        except TimeoutError:
            servers = ";".join(self._calls.name_servers)
            raise RequestTimeout(f"the route of new topic {topic}", servers, timeout) from None

    async def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic with its messages and the offsets of its queues, on all brokers and at all name servers.

        Deleting a topic that does not exist is not an error. Clients that use the topic get errors after their next
        renewal of routes.

        :raises BrokerError: a server refuses the deletion (of system topics).
        """
        topic = self._calls.wire(topic)
        masters = await self._calls.masters(cluster)
        await self._calls.ask_each(masters, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic=topic))
        for server in self._calls.name_servers:
            forget = DeleteTopicFromNamesrvRequest(topic=topic, cluster_name=cluster)
            await self._calls.ask(server, RequestCode.DELETE_TOPIC_IN_NAMESRV, forget)

    async def list(self, *, cluster: str | None = None) -> builtins.list[str]:
        """Return the names of all topics (of the namespace), sorted, including system topics.

        :param cluster: only the topics of this cluster; None: all topics.
        """
        if cluster is None:
            answer = await self._calls.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            header = GetTopicsByClusterRequest(cluster=cluster)
            answer = await self._calls.ask_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, header)
        return self._calls.inside(body_of(TopicList, answer, "a name server").topic_list)

    async def config(self, topic: str) -> dict[str, TopicConfig]:
        """Return the configuration of a topic by broker name.

        :raises RouteNotFound: no broker has the topic.
        """
        topic = self._calls.wire(topic)
        masters = await self._calls.masters_of(topic)
        header = GetTopicConfigRequest(topic=topic)
        found = await self._calls.bodies(TopicConfig, masters, RequestCode.GET_TOPIC_CONFIG, header)
        return {
            name: replace(config, topic_name=self._calls.plain(config.topic_name)) for name, config in found.items()
        }

    async def stats(self, topic: str) -> dict[MessageQueue, QueueStats]:
        """Return the offsets and the time of the last message by queue of a topic.

        :raises RouteNotFound: no broker has the topic.
        """
        topic = self._calls.wire(topic)
        masters = await self._calls.masters_of(topic)
        header = GetTopicStatsInfoRequest(topic=topic)
        tables = await self._calls.bodies(TopicStatsTable, masters, RequestCode.GET_TOPIC_STATS_INFO, header)
        return {
            MessageQueue(self._calls.plain(queue.topic), queue.broker_name, queue.queue_id): QueueStats(
                found.min_offset, found.max_offset, found.last_update_timestamp
            )
            for table in tables.values()
            for queue, found in table.offset_table.items()
        }

    async def route(self, topic: str) -> TopicRoute:
        """Return the queues of a topic and the addresses of its brokers.

        :raises RouteNotFound: no name server knows the topic.
        """
        return topic_route(topic, await self._calls.route(self._calls.wire(topic)))

    async def _is_routed(self, header: CreateTopicRequest, masters: Mapping[str, str]) -> bool:
        """Return whether the name server knows the topic with its new queues, on all brokers.

        Apache's broker announces every queue to write to. The gateway announces only queues that can also be read.
        """
        try:
            route = await self._calls.route(header.topic)
        except RouteNotFound:
            return False
        read, write = header.read_queue_nums, header.write_queue_nums
        wanted = (read, write), (read, min(read, write))
        known = {queues.broker_name: (queues.read_queue_nums, queues.write_queue_nums) for queues in route.queue_datas}
        return all(known.get(name) in wanted for name in masters)
