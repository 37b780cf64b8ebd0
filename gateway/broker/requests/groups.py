"""Requests of tools that make, change, delete and list subscription groups.

Upstream: ``AdminBrokerProcessor``, version 5.3.3. A change is answered when it is on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gateway.broker.awaiting import saved
from gateway.broker.desk import DeskRequests
from gateway.broker.requests.paging import page
from gateway.errors import RequestRefused
from gateway.metadata.attributes import GROUP_ATTRIBUTES, changed_attributes
from gateway.metadata.names import check_group_name
from gateway.remoting.declared import CLUSTER_GET, CREATE, DELETE, GET, SERVED, Kind, Need, Size, needs, on_group
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import table_text
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import Work
from wire.bodies.subscriptions import SubscriptionGroupConfig, SubscriptionGroupList, SubscriptionGroupTable
from wire.codes import RequestCode, ResponseCode
from wire.headers.groups import (
    DeleteSubscriptionGroupRequest,
    GetAllSubscriptionGroupRequest,
    GetAllSubscriptionGroupResponse,
    GetSubscriptionGroupConfigRequest,
)

MAX_GROUPS_PER_REQUEST = 10_000
MAX_RETRY_QUEUES = 1_024


class GroupRequests(DeskRequests):
    """Requests about subscription groups."""

    @answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, needs(in_body="Group Create"))
    async def create(self, request: Request, _header: None) -> Answer:
        """Create or change one group."""
        return await self._put(request, [SubscriptionGroupConfig.parse(request.command.body)])

    @answers(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, needs(in_body="Group Create of each entry"))
    async def create_list(self, request: Request, _header: None) -> Answer:
        """Create or change several groups: all of them or, if one is wrong, none."""
        return await self._put(request, SubscriptionGroupList.parse(request.command.body).configs)

    @answers(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptionGroupRequest, needs(on_group(DELETE, "groupName")))
    async def delete(self, request: Request, header: DeleteSubscriptionGroupRequest) -> Answer:
        """Delete a group, and its offsets if the request asks for that; a missing group is no error."""
        check_group_name(header.group_name)
        cleans = header.clean_offset or header.remove_offset
        if cleans:
            removal = self._desk.offsets.remove_group(header.group_name)
            await self._desk.turns.run(removal, request.channel, goes_on=True)
        self._desk.groups.delete(header.group_name)
        if cleans:
            await saved(self._desk.offsets.persist_owed, f"deletion of the offsets of group {header.group_name}")
        await saved(self._desk.groups.persist, f"deletion of group {header.group_name}")
        return Answer()

    @answers_in_turns(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        GetAllSubscriptionGroupRequest,
        CLUSTER_GET,
        Size.LIST,
        slave=SERVED,
    )
    def table(self, _request: Request, header: GetAllSubscriptionGroupRequest) -> Work[Answer]:
        """Answer with all groups, or with a page of them."""
        table, version = self._desk.groups.table(), self._desk.groups.data_version
        total = len(table)
        configs = {name: table[name] for name in page(table, header.group_seq, header.max_group_num)}
        members = ((name, config.to_json()) for name, config in configs.items())
        what, advice = f"configuration of {len(configs)} groups", "ask for pages (groupSeq and maxGroupNum)"
        text: Any = yield from table_text(what, members, advice=advice)
        forbidden = {group: dict(topics) for group, topics in self._desk.groups.forbidden().items()}
        forbidden_text: Any = yield from table_text("forbidden topics of groups", sorted(forbidden.items()))
        body = SubscriptionGroupTable(configs=text, data_version=version, forbidden_table=forbidden_text)
        return Answer(header=GetAllSubscriptionGroupResponse(total_group_num=total), body=body.build())

    @answers(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        GetSubscriptionGroupConfigRequest,
        needs(on_group(GET, "group")),
        slave=SERVED,
    )
    def config(self, _request: Request, header: GetSubscriptionGroupConfigRequest) -> Answer:
        """Answer with one group's configuration; a missing group is created where automatic creation is allowed."""
        config = self._desk.groups.find(header.group)
        if config is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. group: {header.group}"
            )
        return Answer(body=config.build())

    async def _put(self, request: Request, configs: Sequence[SubscriptionGroupConfig]) -> Answer:
        if not 0 < len(configs) <= MAX_GROUPS_PER_REQUEST:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"{len(configs)} groups in one request, allowed are 1 to {MAX_GROUPS_PER_REQUEST}",
            )
        wanted = []
        for config in configs:
            request.require(Need(Kind.GROUP, config.group_name, CREATE))
            _check(config)
            current = self._desk.groups.get(config.group_name)
            attributes = changed_attributes(
                {} if current is None else current.attributes,
                config.attributes,
                is_new=current is None,
                known=GROUP_ATTRIBUTES,
            )
            wanted.append(replace(config, attributes=attributes))
        self._desk.groups.put_all(wanted)
        await saved(self._desk.groups.persist, "subscription group " + ", ".join(c.group_name for c in configs[:5]))
        return Answer()


def _check(config: SubscriptionGroupConfig) -> None:
    check_group_name(config.group_name)
    if not 0 <= config.retry_queue_nums <= MAX_RETRY_QUEUES:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"retryQueueNums is {config.retry_queue_nums}, allowed are 0 to {MAX_RETRY_QUEUES}",
        )
