"""Groups: create, delete, list, their configuration, their connected clients and subscriptions."""

from __future__ import annotations

import builtins
from typing import Any

from msgspec.structs import replace

from gateway.client.admin.admin_calls import AdminCalls, json_of
from gateway.client.connect.answers import body_of
from gateway.client.errors import BrokerError
from gateway.client.names import check_group
from wire.bodies.consumers import ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTableInfo
from wire.bodies.subscriptions import (
    QuerySubscriptionAnswer,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from wire.bodies.tools.statistics import GroupList
from wire.bodies.topics import TopicList
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import ConsumeMessageDirectlyResultRequest, GetConsumerRunningInfoRequest
from wire.headers.groups import (
    DeleteSubscriptionGroupRequest,
    GetAllProducerInfoRequest,
    GetAllSubscriptionGroupRequest,
    GetConsumerConnectionListRequest,
    GetProducerConnectionListRequest,
    GetSubscriptionGroupConfigRequest,
)
from wire.headers.topics import (
    QuerySubscriptionByConsumerRequest,
    QueryTopicConsumeByWhoRequest,
    QueryTopicsByConsumerRequest,
)

_NOT_CONNECTED = (ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE)
FORWARDED_TIMEOUT_S = 15.0
"""The seconds to wait for a request that a broker passes on to a client; the broker waits 10 s for the client."""


class AdminGroups:
    """Requests about groups of consumers and producers."""

    def __init__(self, calls: AdminCalls) -> None:
        self._calls = calls

    async def create(self, config: SubscriptionGroupConfig | str, *, cluster: str | None = None) -> None:
        """Create a consumer group, or change it, on all masters (of a cluster).

        :param config: the configuration, or only the name of the group for the defaults.
        :raises MessageRefused: the name is not the name of a group.
        """
        wanted = SubscriptionGroupConfig(config) if isinstance(config, str) else config
        check_group(wanted.group_name)
        body = replace(wanted, group_name=self._calls.wire(wanted.group_name)).build()
        masters = await self._calls.masters(cluster)
        await self._calls.ask_each(masters, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    async def delete(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group. Deleting a group that does not exist is not an error.

        The topics ``%RETRY%group`` and ``%DLQ%group`` stay, since they may hold messages.

        :param clean_offsets: True deletes the group's offsets, too; otherwise a new group of this name continues there.
        """
        header = DeleteSubscriptionGroupRequest(
            group_name=self._calls.wire(group), clean_offset=clean_offsets, remove_offset=clean_offsets
        )
        await self._calls.ask_each(await self._calls.masters(cluster), RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def list(self, *, cluster: str | None = None) -> builtins.list[str]:
        """Return the names of all consumer groups (of the namespace), sorted, including system groups."""
        code, header = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GetAllSubscriptionGroupRequest()
        tables = await self._calls.bodies(SubscriptionGroupTable, await self._calls.masters(cluster), code, header)
        return self._calls.inside(group for table in tables.values() for group in table.configs)

    async def config(self, group: str) -> dict[str, SubscriptionGroupConfig]:
        """Return the configuration of a consumer group by broker name, for the brokers that know the group."""
        found = await self._calls.bodies(
            SubscriptionGroupConfig,
            await self._calls.masters(),
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
            GetSubscriptionGroupConfigRequest(group=self._calls.wire(group)),
            or_code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        )
        plain = self._calls.plain
        return {name: replace(config, group_name=plain(config.group_name)) for name, config in found.items()}

    async def of_topic(self, topic: str) -> builtins.list[str]:
        """Return the groups that consume a topic: connected groups, and groups with offsets in the topic."""
        topic = self._calls.wire(topic)
        masters = await self._calls.masters_of(topic)
        header = QueryTopicConsumeByWhoRequest(topic=topic)
        lists = await self._calls.bodies(GroupList, masters, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        return sorted({self._calls.plain(group) for groups in lists.values() for group in groups.group_list})

    async def topics(self, group: str) -> builtins.list[str]:
        """Return the topics in which a group has offsets."""
        header = QueryTopicsByConsumerRequest(group=self._calls.wire(group))
        masters = await self._calls.masters()
        lists = await self._calls.bodies(TopicList, masters, RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
        return sorted({self._calls.plain(topic) for topics in lists.values() for topic in topics.topic_list})

    async def consumers(self, group: str) -> ConsumerConnection | None:
        """Return the connected clients of a consumer group and their subscriptions; None without a connected client."""
        header = GetConsumerConnectionListRequest(consumer_group=self._calls.wire(group))
        for address in (await self._calls.masters()).values():
            answer = await self._calls.ask(
                address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header, expect=_NOT_CONNECTED
            )
            if answer.code == ResponseCode.SUCCESS:
                return body_of(ConsumerConnection, answer, address)  # each client is connected to every broker
        return None

    async def producers(self, group: str) -> ProducerConnection:
        """Return the connected clients of a producer group, of all brokers."""
        header = GetProducerConnectionListRequest(producer_group=self._calls.wire(group))
        found = {}
        for address in (await self._calls.masters()).values():
            answer = await self._calls.ask(
                address,
                RequestCode.GET_PRODUCER_CONNECTION_LIST,
                header,
                expect=(ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR),  # the latter for a group without clients
            )
            if answer.code == ResponseCode.SUCCESS:
                connections = body_of(ProducerConnection, answer, address).connections
                found.update({connection.client_id: connection for connection in connections})
        return ProducerConnection(tuple(found.values()))

    async def all_producers(self) -> dict[str, builtins.list[ProducerInfo]]:
        """Return the connected producers of all brokers by group; a producer with two brokers is listed twice."""
        found: dict[str, builtins.list[ProducerInfo]] = {}
        for address in (await self._calls.masters()).values():
            answer = await self._calls.ask(address, RequestCode.GET_ALL_PRODUCER_INFO, GetAllProducerInfoRequest())
            for group, clients in body_of(ProducerTableInfo, answer, address).groups.items():
                found.setdefault(group, []).extend(clients)
        return found

    async def running_info(self, group: str, client_id: str, *, jstack: bool = False) -> dict[str, Any]:
        """Return the report of one client about its present work (upstream ``ConsumerRunningInfo``).

        The broker must pass the request on: Apache RocketMQ and this gateway do. On one processor a Java client of 5.x
        may stop for 5 s for each of its queues before it answers (``docs/requests-to-clients.md``).

        :raises BrokerError: the broker does not pass the request on, or no such client is connected.
        """
        header = GetConsumerRunningInfoRequest(
            consumer_group=self._calls.wire(group), client_id=client_id, jstack_enable=jstack
        )
        return await self._forwarded(RequestCode.GET_CONSUMER_RUNNING_INFO, header)

    async def consume_directly(self, group: str, client_id: str, offset_msg_id: str, topic: str) -> dict[str, Any]:
        """Let one client consume one message now, and return the result (upstream ``ConsumeMessageDirectlyResult``).

        The broker must pass the request on: Apache RocketMQ and this gateway do. On one processor a Java client handles
        nothing else while its listener has the message (``docs/requests-to-clients.md``).

        :raises BrokerError: the broker does not pass the request on, or no such client is connected.
        """
        header = ConsumeMessageDirectlyResultRequest(
            consumer_group=self._calls.wire(group),
            client_id=client_id,
            msg_id=offset_msg_id,
            topic=self._calls.wire(topic),
        )
        return await self._forwarded(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)

    async def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return the subscription of a group to a topic, as far as brokers remember it; otherwise None.

        :raises BrokerError: the broker does not answer this request.
        """
        topic = self._calls.wire(topic)
        header = QuerySubscriptionByConsumerRequest(group=self._calls.wire(group), topic=topic)
        for address in (await self._calls.masters_of(topic)).values():
            answer = await self._calls.ask(address, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
            found = body_of(QuerySubscriptionAnswer, answer, address).subscription
            if found is not None:
                return found
        return None

    async def _forwarded(
        self, code: RequestCode, header: GetConsumerRunningInfoRequest | ConsumeMessageDirectlyResultRequest
    ) -> dict[str, Any]:
        """Return the answer of a client, through the first broker that knows the client."""
        refusal: BrokerError | None = None
        for address in (await self._calls.masters()).values():
            try:
                return json_of(await self._calls.ask(address, code, header, timeout=FORWARDED_TIMEOUT_S), address)
            except BrokerError as error:
                refusal = error
        assert refusal is not None, "there is at least one master"
        raise refusal
