"""Topic lists for tools, and the changes that tools make to topics.

Upstream: the topic half of ``DefaultRequestProcessor`` (name server).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred

from gateway.errors import RequestRefused
from gateway.metadata.names import check_topic_name
from gateway.nameserver.registration_reader import RegistrationReader
from gateway.nameserver.route_table import RouteTable
from gateway.remoting.declared import Right, Size
from gateway.remoting.dispatch import Answer, Dispatch, Outcome, Request
from gateway.remoting.long_lists import list_text
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


class RouteTopicRequests:
    """The requests for topic lists (206, 224, 304, 311–313), topic changes (216, 217) and permissions (205, 327).

    :param reader: the reader of registrations; a registration that came before a change does not undo the change.
    """

    def __init__(
        self, *, routes: RouteTable, reader: RegistrationReader, settings: NameServerSettings, turns: Turns
    ) -> None:
        self._routes = routes
        self._reader = reader
        self._turns = turns
        self._settings = settings

    def register(self, dispatch: Dispatch) -> None:
        """Register the request codes that this class answers."""
        codes = RequestCode
        dispatch.answers(codes.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, self.all_topics, Right.ADMIN, Size.LIST)
        dispatch.answers(
            codes.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequest, self.topics_of_cluster, Right.ADMIN, Size.LIST
        )
        dispatch.answers(codes.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, self.system_topics, Right.ADMIN, Size.LIST)
        dispatch.answers(codes.GET_UNIT_TOPIC_LIST, None, self.unit_topics, Right.ADMIN, Size.LIST)
        dispatch.answers(codes.GET_HAS_UNIT_SUB_TOPIC_LIST, None, self.unit_subscription_topics, Right.ADMIN, Size.LIST)
        dispatch.answers(
            codes.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, None, self.unit_subscription_only_topics, Right.ADMIN, Size.LIST
        )
        dispatch.answers(codes.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequest, self.delete_topic, Right.ADMIN)
        dispatch.answers(codes.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequest, self.register_topic, Right.ADMIN)
        dispatch.answers(
            codes.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequest, self.wipe_permission, Right.ADMIN
        )
        dispatch.answers(codes.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerRequest, self.add_permission, Right.ADMIN)

    def all_topics(self, request: Request, _header: None) -> Deferred[Answer]:
        """Answer with the names of all topics."""
        if not self._settings.enable_all_topic_list:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "disable (enableAllTopicList)")
        return self._turns.run(_topic_list(self._routes.topics), request.channel)

    def topics_of_cluster(self, request: Request, header: GetTopicsByClusterRequest) -> Deferred[Answer]:
        """Answer with the topics that the brokers of one cluster serve."""
        self._check_lists_enabled()
        return self._turns.run(_found(self._routes.topics_of_cluster(header.cluster)), request.channel)

    def system_topics(self, request: Request, _header: None) -> Deferred[Answer]:
        """Answer with the names of clusters and brokers, and with the address of one broker for further questions."""
        reached_at = request.channel.local[0]
        return self._turns.run(_system_topics(self._routes, reached_at), request.channel)

    def unit_topics(self, request: Request, _header: None) -> Deferred[Answer]:
        """Answer with the topics that have the unit flag."""
        self._check_lists_enabled()
        return self._turns.run(_found(self._routes.topics_with_flags(TopicFlag.UNIT)), request.channel)

    def unit_subscription_topics(self, request: Request, _header: None) -> Deferred[Answer]:
        """Answer with the topics that have unit subscriptions."""
        self._check_lists_enabled()
        return self._turns.run(_found(self._routes.topics_with_flags(TopicFlag.UNIT_SUBSCRIPTION)), request.channel)

    def unit_subscription_only_topics(self, request: Request, _header: None) -> Deferred[Answer]:
        """Answer with the topics that have unit subscriptions but not the unit flag."""
        self._check_lists_enabled()
        return self._turns.run(
            _found(self._routes.topics_with_flags(TopicFlag.UNIT_SUBSCRIPTION, TopicFlag.UNIT)), request.channel
        )

    def delete_topic(self, request: Request, header: DeleteTopicFromNamesrvRequest) -> Outcome:
        """Forget a topic; an unknown topic is not an error."""
        return self._reader.in_order(request, lambda: self._delete_topic(request, header))

    def _delete_topic(self, request: Request, header: DeleteTopicFromNamesrvRequest) -> Answer:
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        log.info("topic deleted", topic=header.topic, remote=request.channel.remote_text)
        return Answer()

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

    def wipe_permission(self, request: Request, header: WipeWritePermOfBrokerRequest) -> Outcome:
        """Take the write permission from a broker, so that producers avoid the broker."""
        return self._reader.in_order(request, lambda: self._wipe_permission(request, header))

    def _wipe_permission(self, request: Request, header: WipeWritePermOfBrokerRequest) -> Answer:
        count = self._routes.wipe_write_permission(header.broker_name)
        log.info(
            "write permission wiped",
            broker=header.broker_name,
            topics=count,
            remote=request.channel.remote_text,
        )
        return Answer(header=WipeWritePermOfBrokerResponse(wipe_topic_count=count))

    def add_permission(self, request: Request, header: AddWritePermOfBrokerRequest) -> Outcome:
        """Give the write permission back to a broker, so that producers use the broker again."""
        return self._reader.in_order(request, lambda: self._add_permission(request, header))

    def _add_permission(self, request: Request, header: AddWritePermOfBrokerRequest) -> Answer:
        count = self._routes.add_write_permission(header.broker_name)
        log.info(
            "write permission added",
            broker=header.broker_name,
            topics=count,
            remote=request.channel.remote_text,
        )
        return Answer(header=AddWritePermOfBrokerResponse(add_topic_count=count))

    def _check_lists_enabled(self) -> None:
        if not self._settings.enable_topic_list:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "disable (enableTopicList)")


def _found(topics: Work[list[str]]) -> Work[Answer]:
    found = yield from topics
    return (yield from _topic_list(lambda: found))


def _system_topics(routes: RouteTable, reached_at: str) -> Work[Answer]:
    topics, address = routes.system_topics(reached_at)
    return (yield from _topic_list(lambda: topics, address))


def _topic_list(known: Callable[[], list[str]], address: str | None = None) -> Work[Answer]:
    topics = known()
    advice = f"they are {len(topics)} topics, ask for those of a cluster or for single routes"
    text = yield from list_text("list of topics", topics, advice=advice)
    return Answer(body=TopicList(topic_list=text, broker_addr=address).build())
