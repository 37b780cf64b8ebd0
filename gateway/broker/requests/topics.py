"""Requests of tools, and of ``createTopic``, that make, change, delete and list topics.

Upstream: ``AdminBrokerProcessor``, version 5.3.3. A change is answered when it is on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from gateway.access.needs import topic_needs
from gateway.broker.awaiting import delete_queues, saved
from gateway.broker.desk import DeskRequests
from gateway.broker.requests.paging import page
from gateway.delivery.pop.receipts import RETRY_V1, RETRY_V2, is_of_another, is_pop_retry_topic, pop_retry_topic
from gateway.errors import RequestRefused
from gateway.metadata.attributes import changed_attributes
from gateway.metadata.names import check_topic_name
from gateway.remoting.declared import CLUSTER_GET, CREATE, DELETE, GET, SERVED, Size, needs, on_topic
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.long_lists import table_text
from gateway.remoting.requests import answers, answers_in_turns
from gateway.remoting.turns import Work
from wire.bodies.topics import MAX_QUEUES, CreateTopicList, TopicConfig, TopicConfigTable, TopicList
from wire.codes import RequestCode, ResponseCode
from wire.headers.topics import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetAllTopicConfigRequest,
    GetAllTopicConfigResponse,
    GetTopicConfigRequest,
)

MAX_TOPICS_PER_REQUEST = 10_000
HIGHEST_PERM = 7
FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


def _belongs(topic: str, *, to: str) -> bool:
    return topic == to or is_pop_retry_topic(topic, to)


class TopicRequests(DeskRequests):
    """Requests about topics."""

    @answers(RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopicRequest, needs(on_topic(CREATE)))
    async def create(self, _request: Request, header: CreateTopicRequest) -> Answer:
        """Create or change one topic."""
        self._check_name(header.topic)
        config = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=bool(header.order),
            attributes=self._attributes(header.topic, header.attributes or ""),
        )
        _check_config(config)
        self._desk.topics.put(config)
        await saved(self._desk.topics.persist, f"topic {header.topic}")
        return Answer()

    @answers(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, needs(in_body="Topic Create of each entry"))
    async def create_list(self, request: Request, _header: None) -> Answer:
        """Create or change several topics: all of them or, if one is wrong, none."""
        configs = CreateTopicList.parse(request.command.body).configs
        if not 0 < len(configs) <= MAX_TOPICS_PER_REQUEST:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"{len(configs)} topics in one request, allowed are 1 to {MAX_TOPICS_PER_REQUEST}",
            )
        wanted = []
        for config in configs:
            request.require(*topic_needs(config.topic_name, CREATE))
            self._check_name(config.topic_name)
            _check_config(config)
            wanted.append(replace(config, attributes=self._attributes(config.topic_name, config.attributes)))
        self._desk.topics.put_all(wanted)
        await saved(self._desk.topics.persist, f"{len(configs)} topics")
        return Answer()

    @answers(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest, needs(on_topic(DELETE)))
    async def delete(self, request: Request, header: DeleteTopicRequest) -> Answer:
        """Delete a topic with its messages and every group's offsets; a missing topic is no error.

        The pop retry topics that belong to this topic are deleted, too, but none that is another group's.
        """
        check_topic_name(header.topic)
        search = self._desk.offsets.groups_by_topic(partial(_belongs, to=header.topic))
        groups_by_topic = await self._desk.turns.run(search, request.channel, goes_on=True)
        groups = groups_by_topic.get(header.topic, [])
        config = self._desk.topics.get(header.topic)
        retries = [
            pop_retry_topic(header.topic, group, form)
            for group in groups
            for form in (RETRY_V1, RETRY_V2)
            if form == RETRY_V2 or not is_of_another(self._desk.groups, header.topic, group)
        ]
        deleted = [topic for topic in (header.topic, *retries) if self._desk.topics.delete(topic)]
        for retry in frozenset(deleted).difference((header.topic,)):
            for group in groups_by_topic.get(retry, ()):
                self._desk.offsets.remove(group, retry)
        if config is not None and header.topic in deleted:
            queues = max(config.read_queue_nums, config.write_queue_nums)
            readers = self._desk.consumers.readers_of_topic(header.topic)
            self._desk.offsets.forget_topic(header.topic, groups, readers, queues)
        gone = list(dict.fromkeys([*deleted, *self._left_behind(header.topic)]))
        for topic in gone.copy():
            gone += await self._desk.forget_topic(topic)
        await delete_queues(self._desk.store, gone, self._desk.in_thread)
        await saved(self._desk.offsets.persist_owed, f"deletion of the offsets of topic {header.topic}")
        await saved(self._desk.topics.persist, f"deletion of topic {header.topic}")
        return Answer()

    def _left_behind(self, deleted: str) -> list[str]:
        """Return a topic, and those of its pop retry topics whose queues an earlier request could not delete.

        The offsets of their groups are deleted already. A start makes a topic of queues without one, so queues of no
        topic wait for a deletion.
        """
        retries = [topic for topic in self._desk.store.retry_topics() if is_pop_retry_topic(topic, deleted)]
        return [topic for topic in (deleted, *retries) if self._desk.topics.is_gone(topic)]

    @answers_in_turns(RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigRequest, CLUSTER_GET, Size.LIST, slave=SERVED)
    def table(self, _request: Request, header: GetAllTopicConfigRequest) -> Work[Answer]:
        """Answer with all topics, or with a page of them."""
        table, version = self._desk.topics.table(), self._desk.topics.data_version
        names = page(table, header.topic_seq, header.max_topic_num)
        configs = {name: table[name] for name in names}
        answer = GetAllTopicConfigResponse(total_topic_num=len(table))
        members = ((name, config.to_json()) for name, config in configs.items())
        what, advice = f"configuration of {len(configs)} topics", "ask for pages (topicSeq and maxTopicNum)"
        text: Any = yield from table_text(what, members, advice=advice)
        return Answer(header=answer, body=TopicConfigTable(configs=text, data_version=version).build())

    @answers(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequest, needs(on_topic(GET)), slave=SERVED)
    def config(self, _request: Request, header: GetTopicConfigRequest) -> Answer:
        """Answer with one topic's configuration."""
        config = self._desk.topics.get(header.topic)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {header.topic}")
        return Answer(body=config.build())

    @answers(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, None, CLUSTER_GET, Size.LIST, slave=SERVED)
    def system_topics(self, _request: Request, _header: None) -> Answer:
        """Answer with the topics that belong to the broker itself."""
        return Answer(body=TopicList(self._desk.topics.system_topics()).build())

    def _attributes(self, topic: str, changes: str | Mapping[str, str]) -> dict[str, str]:
        """Return a topic's attributes after a change."""
        current = self._desk.topics.get(topic)
        return changed_attributes(
            {} if current is None else current.attributes,
            changes,
            is_new=current is None,
            mixed_allowed=self._desk.settings.enable_mixed_message_type,
        )

    def _check_name(self, topic: str) -> None:
        check_topic_name(topic)
        if self._desk.topics.is_system(topic):
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"The topic[{topic}] is conflict with system topic")


def _check_config(config: TopicConfig) -> None:
    """Refuse a configuration with a value out of range.

    :raises RequestRefused: INVALID_PARAMETER, with the value that is out of range.
    """
    for name, queues in (
        ("readQueueNums", config.read_queue_nums),
        ("writeQueueNums", config.write_queue_nums),
    ):
        if not 0 <= queues <= MAX_QUEUES:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{name} is {queues}, allowed are 0 to {MAX_QUEUES}")
    if not 0 <= config.perm <= HIGHEST_PERM:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"perm is {config.perm}, allowed are 0 to {HIGHEST_PERM}")
    if config.topic_filter_type not in FILTER_TYPES:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"topicFilterType is {config.topic_filter_type!r}, allowed are {' and '.join(FILTER_TYPES)}",
        )
