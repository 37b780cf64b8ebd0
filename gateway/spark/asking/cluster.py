"""A RocketMQ cluster as the source sees it: routes, brokers, ends of queues.

One object for each set of addresses and keys lives in a worker process and is found again by the next task; what it
connected to and did not use for a minute is connected anew.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from gateway.client.blocking.waiting import pause
from gateway.client.connect.answers import header_of, settings_of
from gateway.client.connect.routes import TopicRoute, topic_route
from gateway.client.connect.settings import TlsSettings
from gateway.client.connect.signing import RequestSigner
from gateway.client.connect.tls import tls_context
from gateway.client.errors import (
    BrokerNotFound,
    ConfigurationError,
    ConnectError,
    ProtocolError,
    RequestTimeout,
    RocketMQError,
    broker_error,
)
from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.connection import BlockingConnection, open_connection, request
from gateway.spark.asking.pull_request import pull_request
from gateway.spark.table.records import record_starts
from wire.bodies.kv_table import KVTable
from wire.bodies.route import MASTER_ID, ClusterInfo, TopicRouteData
from wire.bodies.topics import TopicList
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.errors import BodyError, RecordError
from wire.headers.declare import Header
from wire.headers.name_server import GetRouteInfoRequest
from wire.headers.offsets import (
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    SearchOffsetRequest,
    SearchOffsetResponse,
    UpdateConsumerOffsetRequest,
)

IDLE_S: Final = 60.0
"""A connection not used for so long is not trusted: brokers close idle ones after 120 s."""
ROUTE_AGE_S: Final = 30.0
"""How long a route is believed, as in the Java client (``pollNameServerInterval``)."""
SAMPLE_COUNT: Final = 32
SAMPLE_GROUP: Final = "TOOLS_CONSUMER"
"""A group that every broker knows; no offsets are kept for it."""
STORE_ID: Final = "storeId"
"""In a broker's runtime information: what tells one store from another in its place. Apache RocketMQ has none."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a cluster is reached; equal ones share connections. It travels to the workers.

    :param name_servers: ``host:port`` each.
    :param tries: how often a question is asked before its failure counts; ``retry_s`` apart.
    """

    name_servers: tuple[str, ...]
    connect_timeout_s: float = 3.0
    request_timeout_s: float = 3.0
    tries: int = 3
    retry_s: float = 0.01
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: TlsSettings | None = None
    address_map: tuple[tuple[str, str], ...] = ()


class Bounds(Protocol):
    """Where queues begin and end: what planning needs of a cluster."""

    def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """The readable queues of a topic, None when there is no such topic."""

    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""

    def brokers(self) -> frozenset[str]:
        """The names of the brokers that are registered at the name servers."""

    def begins(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The first offset that each queue still has."""

    def ends(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset after the last committed message of each queue."""

    def first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """When the first message that each queue still has was stored, epoch milliseconds; −1 where there is none."""

    def at_time(
        self, queues: Sequence[MessageQueue], timestamp_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """The first offset stored at a time or later, the end where there is none."""

    def store_ids(self, broker_names: Iterable[str], topic: str) -> dict[str, str]:
        """What tells the store of each broker from another one in its place, where brokers say."""


class Cluster:
    """Name servers and brokers over blocking connections. Not for several threads."""

    def __init__(self, access: Access, connect: Callable[..., BlockingConnection] = open_connection) -> None:
        self.access = access
        self._connect = connect
        self._connections: dict[str, BlockingConnection] = {}
        self._routes: dict[str, tuple[float, TopicRoute | None]] = {}
        self._addresses: dict[str, str] = {}
        self._stores: dict[str, tuple[BlockingConnection, str]] = {}
        self._tls: ssl.SSLContext | None = tls_context(access.tls) if access.tls is not None else None
        signer = (
            RequestSigner(access.access_key, access.secret_key, access.security_token)
            if access.access_key is not None and access.secret_key is not None
            else None
        )
        self._sign = signer.sign if signer is not None else None
        self._pause = pause

    # --- name servers ---------------------------------------------------------------------------------------

    def route(self, topic: str, *, fresh: bool = False) -> TopicRoute | None:
        """The route of a topic, None when no name server knows one."""
        known = self._routes.get(topic)
        if known is not None and not fresh and time.monotonic() - known[0] < ROUTE_AGE_S:
            return known[1]
        header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        answer, address = self._ask_name_servers(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        route = None
        if answer.code != ResponseCode.TOPIC_NOT_EXIST:
            self._expect_success(answer, address)
            route = topic_route(topic, _parsed(TopicRouteData.parse, answer.body, address))
            for name, brokers in route.brokers.items():
                if brokers:
                    self._addresses[name] = _main_address(brokers)
        self._routes[topic] = time.monotonic(), route
        return route

    def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """The readable queues of a topic, None when no name server knows it."""
        route = self.route(topic, fresh=True)
        return None if route is None else route.subscribe_queues

    def topics(self) -> tuple[str, ...]:
        """The names of all topics, sorted."""
        answer, address = self._ask_name_servers(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None)
        self._expect_success(answer, address)
        return tuple(sorted(_parsed(TopicList.parse, answer.body, address).topic_list))

    def brokers(self) -> frozenset[str]:
        """The names of all brokers."""
        answer, address = self._ask_name_servers(RequestCode.GET_BROKER_CLUSTER_INFO, None)
        self._expect_success(answer, address)
        found = _parsed(ClusterInfo.parse, answer.body, address).broker_addr_table
        for name, broker in found.items():
            if broker.broker_addrs:  # a broker whose topic is gone is in no route
                self._addresses.setdefault(name, _main_address(broker.broker_addrs))
        return frozenset(found)

    def _ask_name_servers(self, code: int, header: Header | None) -> tuple[RemotingCommand, str]:
        """The answer of the first one that gives one.

        :raises ConnectError: none could be reached; ``RequestTimeout``: the last one did not answer.
        """
        failure: RocketMQError | None = None
        for turn in range(max(self.access.tries, 1)):
            if turn:
                self._pause(self.access.retry_s)
            for address in self.access.name_servers:
                try:
                    return self.connection(address).call(request(code, header), self.access.request_timeout_s), address
                except (ConnectError, RequestTimeout) as error:
                    failure = error
        assert failure is not None, "there is at least one name server"
        raise failure

    # --- brokers --------------------------------------------------------------------------------------------

    def connection(self, address: str, advertised_by: str | None = None) -> BlockingConnection:
        """The connection to an address, made when there is none.

        :raises ConnectError: there is none.
        """
        connection = self._connections.get(address)
        if connection is not None:
            if connection.is_open and time.monotonic() - connection.used_at < IDLE_S:
                return connection
            connection.close()
        connection = self._connections[address] = self._connect(
            dict(self.access.address_map).get(address, address),
            timeout_s=self.access.connect_timeout_s,
            tls=self._tls,
            sign=self._sign,
            advertised_by=advertised_by,
        )
        return connection

    def broker(self, broker_name: str, topic: str, *, fresh: bool = False) -> BlockingConnection:
        """The connection to a broker that has queues of a topic.

        :param fresh: ask the name server where it is now.
        :raises BrokerNotFound: the topic's route does not name it; ``ConnectError``: it cannot be reached.
        """
        address = None if fresh else self._addresses.get(broker_name)
        if address is None:
            self.route(topic, fresh=True)
            address = self._addresses.get(broker_name)
            if address is None:
                raise BrokerNotFound(broker_name, MASTER_ID)
        return self.connection(address, broker_name)

    def forget(self, broker_name: str) -> None:
        """Use a new connection, and ask where the broker is, the next time."""
        address = self._addresses.pop(broker_name, None)
        connection = self._connections.pop(address, None) if address is not None else None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- queues ---------------------------------------------------------------------------------------------

    def begins(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The first offset that each queue still has."""
        return self._offsets(
            queues,
            lambda queue: request(
                RequestCode.GET_MIN_OFFSET, GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
            ),
            lambda answer, address: header_of(GetMinOffsetResponse, answer, address).offset,
        )

    def ends(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset after the last message of each queue that is committed: durable, where the broker can tell."""
        return self._offsets(
            queues,
            lambda queue: request(
                RequestCode.GET_MAX_OFFSET,
                GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, committed=True),
            ),
            lambda answer, address: header_of(GetMaxOffsetResponse, answer, address).offset,
        )

    def first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """When the first message that each queue still has was stored; −1 where there is none."""
        return self._offsets(
            queues,
            lambda queue: request(
                RequestCode.GET_EARLIEST_MSG_STORETIME,
                GetEarliestMsgStoretimeRequest(topic=queue.topic, queue_id=queue.queue_id),
            ),
            lambda answer, address: header_of(GetEarliestMsgStoretimeResponse, answer, address).timestamp,
        )

    def at_time(
        self, queues: Sequence[MessageQueue], timestamp_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """The first offset that was stored at a time or later; the end where there is none."""
        return self._offsets(
            queues,
            lambda queue: request(
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
                SearchOffsetRequest(
                    topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms[queue], boundary_type="LOWER"
                ),
            ),
            lambda answer, address: header_of(SearchOffsetResponse, answer, address).offset,
        )

    def store_ids(self, broker_names: Iterable[str], topic: str) -> dict[str, str]:
        """What tells the store of each broker from another one in its place; brokers that do not say are left out.

        A broker is asked once for each connection: a process keeps its store, and a connection ends with its process.
        """
        found: dict[str, str] = {}
        for name in broker_names:
            connection = self.broker(name, topic)
            known = self._stores.get(name)
            if known is None or known[0] is not connection:
                answer = connection.call(request(RequestCode.GET_BROKER_RUNTIME_INFO), self.access.request_timeout_s)
                if answer.code != ResponseCode.SUCCESS:
                    continue
                store_id = _parsed(KVTable.parse, answer.body, name).table.get(STORE_ID, "")
                known = self._stores[name] = connection, store_id
            if known[1]:
                found[name] = known[1]
        return found

    def settings(self, broker_name: str, topic: str) -> dict[str, str]:
        """Return the settings of a broker that has queues of a topic, none if the broker does not tell them."""
        connection = self.broker(broker_name, topic)
        answer = connection.call(request(RequestCode.GET_BROKER_CONFIG), self.access.request_timeout_s)
        return settings_of(answer.body.decode(errors="replace")) if answer.code == ResponseCode.SUCCESS else {}

    def mean_bytes(self, queue: MessageQueue, offset: int) -> int:
        """The bytes of a message near an offset, with all that is stored of it; 0 when nothing is there."""
        command = pull_request(SAMPLE_GROUP, queue, offset, SAMPLE_COUNT)
        answer = self.broker(queue.broker_name, queue.topic).call(command, self.access.request_timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            return 0
        try:
            count = len(record_starts(answer.body))
        except RecordError as error:
            raise ProtocolError(queue.broker_name, f"its records cannot be read: {error}") from error
        return len(answer.body) // count if count else 0

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Tell the brokers how far a group is."""
        self._offsets(
            tuple(offsets),
            lambda queue: request(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                UpdateConsumerOffsetRequest(
                    consumer_group=group,
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    commit_offset=offsets[queue],
                ),
            ),
            lambda *_: 0,
        )

    def _offsets(
        self,
        queues: Sequence[MessageQueue],
        make: Callable[[MessageQueue], RemotingCommand],
        read: Callable[[RemotingCommand, str], int],
    ) -> dict[MessageQueue, int]:
        """One number for each queue; all questions to a broker go out together, and once more after a failure."""
        found: dict[MessageQueue, int] = {}
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        for name, its_queues in by_broker.items():
            found.update(zip(its_queues, self._ask_broker(name, its_queues, make, read), strict=True))
        return found

    def _ask_broker(
        self,
        name: str,
        queues: list[MessageQueue],
        make: Callable[[MessageQueue], RemotingCommand],
        read: Callable[[RemotingCommand, str], int],
    ) -> list[int]:
        for tries_left in reversed(range(max(self.access.tries, 1))):
            try:
                connection = self.broker(name, queues[0].topic)
                answers = connection.call_all([make(queue) for queue in queues], self.access.request_timeout_s)
                for answer in answers:
                    self._expect_success(answer, connection.address)
                return [read(answer, connection.address) for answer in answers]
            except (ConnectError, RequestTimeout, BrokerNotFound) as error:
                self.forget(name)
                if not tries_left:
                    raise error
                self._pause(self.access.retry_s)
        raise AssertionError("the last try returns or raises")

    def _expect_success(self, answer: RemotingCommand, address: str) -> None:
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark, address)


def _main_address(addresses: Mapping[int, str]) -> str:
    """Of a master; where there is none, of the first slave."""
    return addresses.get(MASTER_ID) or addresses[min(addresses)]


def _parsed(parse: Callable[[bytes], T], body: bytes, address: str) -> T:
    try:
        return parse(body)
    except BodyError as error:
        raise ProtocolError(address, str(error)) from error


_clusters: dict[tuple[int, Access], Cluster] = {}
MAX_CLUSTERS: Final = 16


def cluster_for(access: Access) -> Cluster:
    """The cluster of this process for some way to reach it; a forked child gets its own."""
    key = os.getpid(), access
    cluster = _clusters.get(key)
    if cluster is None:
        if len(_clusters) >= MAX_CLUSTERS:
            _clusters.clear()
        if not access.name_servers:
            raise ConfigurationError("nameServer", "", "addresses like 'host:9876', separated by ';'")
        cluster = _clusters[key] = Cluster(access)
    return cluster
