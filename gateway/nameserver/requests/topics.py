"""Topic lists for tools, and the changes that tools make to topics.

Upstream: the topic half of ``DefaultRequestProcessor`` (name server).
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.errors import RequestRefused
from gateway.metadata.names import check_topic_name
from gateway.nameserver.registration_reader import RegistrationReader
from gateway.nameserver.route_table import RouteTable
from gateway.remoting.declared import CLUSTER_GET, CLUSTER_UPDATE, DELETE, GET, Size, needs, on_cluster, on_topic
from gateway.remoting.dispatch import Answer, Outcome, Request
from gateway.remoting.long_lists import list_text
from gateway.remoting.requests import Requests, answers, answers_in_turns
from gateway.remoting.turns import Turns, Work
from gateway.settings import NameServerSettings
from gateway.telemetry.logs import EventLog
from wire.bodies.route import AddedQueues, QueueData
from wire.bodies.topics import TopicList
from wire.codes import RequestCode, ResponseCode
from wire.headers.name_server import (
    AddWritePermOfBrokerRequest,
    AddWritePermOfBrokerResponse,
    DeleteTopicFromNamesrvRequest,
    GetTopicsByClusterRequest,
    RegisterTopicRequest,
    WipeWritePermOfBrokerRequest,
    WipeWritePermOfBrokerResponse,
)
from wire.message.flags import TopicFlag

log = EventLog("nameserver")


class RouteTopicRequests(Requests):
    """The requests for topic lists (206, 224, 304, 311–313), topic changes (216, 217) and permissions (205, 327).

    :param reader: the reader of registrations; a registration that came before a change does not undo the change.
    """

    def __init__(
        self, *, routes: RouteTable, reader: RegistrationReader, settings: NameServerSettings, turns: Turns
    ) -> None:
        self._routes = routes
        self._reader = reader
        self.turns = turns
        self._settings = settings

    @answers_in_turns(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, CLUSTER_GET, Size.LIST)
    def all_topics(self, _request: Request, _header: None) -> Work[Answer]:
        """Answer with the names of all topics."""
        if not self._settings.enable_all_topic_list:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "disable (enableAllTopicList)")
        return (yield from _topic_list(self._routes.topics()))

    @answers_in_turns(
        RequestCode.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequest, needs(on_cluster(GET, "cluster")), Size.LIST
    )
    def topics_of_cluster(self, _request: Request, header: GetTopicsByClusterRequest) -> Work[Answer]:
        """Answer with the topics that the brokers of one cluster serve."""
        return self._listed(self._routes.topics_of_cluster(header.cluster))

    @answers_in_turns(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, CLUSTER_GET, Size.LIST)
    def system_topics(self, request: Request, _header: None) -> Work[Answer]:
        """Answer with the names of clusters and brokers, and with the address of one broker for further questions."""
        topics, address = self._routes.system_topics(request.channel.local[0])
        return (yield from _topic_list(topics, address))

    @answers_in_turns(RequestCode.GET_UNIT_TOPIC_LIST, None, CLUSTER_GET, Size.LIST)
    def unit_topics(self, _request: Request, _header: None) -> Work[Answer]:
        """Answer with the topics that have the unit flag."""
        return self._listed(self._routes.topics_with_flags(TopicFlag.UNIT))

    @answers_in_turns(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, None, CLUSTER_GET, Size.LIST)
    def unit_subscription_topics(self, _request: Request, _header: None) -> Work[Answer]:
        """Answer with the topics that have unit subscriptions."""
        return self._listed(self._routes.topics_with_flags(TopicFlag.UNIT_SUBSCRIPTION))

    @answers_in_turns(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, None, CLUSTER_GET, Size.LIST)
    def unit_subscription_only_topics(self, _request: Request, _header: None) -> Work[Answer]:
        """Answer with the topics that have unit subscriptions but not the unit flag."""
        return self._listed(self._routes.topics_with_flags(TopicFlag.UNIT_SUBSCRIPTION, TopicFlag.UNIT))

    def _listed(self, topics: Work[list[str]]) -> Work[Answer]:
        if not self._settings.enable_topic_list:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "disable (enableTopicList)")
        return (yield from _topic_list((yield from topics)))

    @answers(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest, needs(on_topic(DELETE)))
    def delete_topic(self, request: Request, header: DeleteTopicFromNamesrvRequest) -> Outcome:
        """Forget a topic; an unknown topic is not an error."""
        return self._reader.in_order(request, lambda: self._delete_topic(request, header))

    def _delete_topic(self, request: Request, header: DeleteTopicFromNamesrvRequest) -> Answer:
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        log.info("topic deleted", topic=header.topic, remote=request.channel.remote_text)
        return Answer()

    @answers(RequestCode.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequest, CLUSTER_UPDATE)
    def register_topic(self, request: Request, header: RegisterTopicRequest) -> Outcome:
        """Add the queues of one topic before its broker registers the next time."""
        check_topic_name(header.topic)
        queues = AddedQueues.parse(request.command.body).queue_datas
        return self._reader.in_order(request, lambda: self._add_queues(header.topic, queues))

    def _add_queues(self, topic: str, queues: Sequence[QueueData]) -> Answer:
        refusal = self._routes.add_queues(topic, queues)
        if refusal is not None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, refusal)
        return Answer()

    @answers(RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequest, CLUSTER_UPDATE)
    def wipe_permission(self, request: Request, header: WipeWritePermOfBrokerRequest) -> Outcome:
        """Take the write permission from a broker, so that producers avoid the broker."""
        return self._reader.in_order(request, lambda: self._wipe_permission(request, header))

    def _wipe_permission(self, request: Request, header: WipeWritePermOfBrokerRequest) -> Answer:
        count = self._routes.wipe_write_permission(header.broker_name)
        log.info("write permission wiped", broker=header.broker_name, topics=count, remote=request.channel.remote_text)
        return Answer(header=WipeWritePermOfBrokerResponse(wipe_topic_count=count))

    @answers(RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerRequest, CLUSTER_UPDATE)
    def add_permission(self, request: Request, header: AddWritePermOfBrokerRequest) -> Outcome:
        """Give the write permission back to a broker, so that producers use the broker again."""
        return self._reader.in_order(request, lambda: self._add_permission(request, header))

    def _add_permission(self, request: Request, header: AddWritePermOfBrokerRequest) -> Answer:
        count = self._routes.add_write_permission(header.broker_name)
        log.info("write permission added", broker=header.broker_name, topics=count, remote=request.channel.remote_text)
        return Answer(header=AddWritePermOfBrokerResponse(add_topic_count=count))


def _topic_list(topics: list[str], address: str | None = None) -> Work[Answer]:
    advice = f"they are {len(topics)} topics, ask for those of a cluster or for single routes"
    text = yield from list_text("list of topics", topics, advice=advice)
    return Answer(body=TopicList(topic_list=text, broker_addr=address).build())
