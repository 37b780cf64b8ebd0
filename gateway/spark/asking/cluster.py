"""A RocketMQ cluster as the source sees it: routes, brokers, ends of queues.

A worker process keeps one object for each set of addresses and keys, and the next task finds the object again. A
connection that was not used for a minute is replaced by a new one.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from gateway.client.blocking.waiting import pause
from gateway.client.connect.answers import header_of, settings_of
from gateway.client.connect.credentials import Credentials
from gateway.client.connect.routes import TopicRoute, topic_route
from gateway.client.connect.settings import TlsSettings
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
from gateway.spark.asking.connection import BlockingConnection, open_connection, pull_request, request
from gateway.spark.table.records import record_starts
from wire.bodies.route import MASTER_ID, ClusterInfo, TopicRouteData
from wire.bodies.tools.statistics import KVTable
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
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)

IDLE_S: Final = 60.0
"""Seconds after which an unused connection is replaced: brokers close idle connections after 120 s."""
ROUTE_AGE_S: Final = 30.0
"""Seconds for which a route is used again, as in the Java client (``pollNameServerInterval``)."""
SAMPLE_COUNT: Final = 32
SAMPLE_GROUP: Final = "TOOLS_CONSUMER"
"""A group that every broker knows and for which brokers keep no offsets."""
STORE_ID: Final = "storeId"
"""The key of the store id in a broker's runtime information.

The store id tells a store from another one in its place. Apache RocketMQ has none.
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The way to reach a cluster, which travels to the workers; equal values share connections.

    :param name_servers: ``host:port`` each.
    :param tries: how often a question is asked before its failure counts.
    :param retry_s: seconds between two tries.
    """

    name_servers: tuple[str, ...]
    connect_timeout_s: float = 3.0
    request_timeout_s: float = 3.0
    tries: int = 3
    retry_s: float = 0.01
    keys: Credentials | None = None
    tls: TlsSettings | None = None
    address_map: tuple[tuple[str, str], ...] = ()


class Bounds(Protocol):
    """The part of a cluster that planning needs: where queues begin and end."""

    def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Return the readable queues of a topic; None if the topic does not exist."""

    def topics(self) -> tuple[str, ...]:
        """The names of all topics."""

    def brokers(self) -> frozenset[str]:
        """The names of the brokers that are registered at the name servers."""

    def begins(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The first offset that each queue still has."""

    def ends(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset after the last committed message of each queue."""

    def first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Return when the first message that each queue still has was stored, epoch milliseconds; −1 for none."""

    def at_time(
        self, queues: Sequence[MessageQueue], timestamp_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """Return each queue's first offset stored at a time (epoch milliseconds) or later; the end if there is none."""

    def store_ids(self, broker_names: Iterable[str], topic: str) -> dict[str, str]:
        """Return the id of each broker's store, for brokers that report one.

        A new store in its place has another id.
        """


def _offset_of(answer: RemotingCommand, address: str) -> int:
    """Return the offset in an answer; answers about the first, the last and a later offset have one form."""
    return header_of(GetMaxOffsetResponse, answer, address).offset


class Cluster:
    """Name servers and brokers over blocking connections, for one thread only."""

    def __init__(self, access: Access, connect: Callable[..., BlockingConnection] = open_connection) -> None:
        self.access = access
        self._connect = connect
        self._connections: dict[str, BlockingConnection] = {}
        self._routes: dict[str, tuple[float, TopicRoute | None]] = {}
        self._addresses: dict[str, str] = {}
        self._stores: dict[str, tuple[BlockingConnection, str]] = {}
        self._tls: ssl.SSLContext | None = tls_context(access.tls) if access.tls is not None else None
        self._sign = access.keys.signer().sign if access.keys is not None else None
        self._pause = pause

    # --- name servers ---------------------------------------------------------------------------------------

    def route(self, topic: str, *, fresh: bool = False) -> TopicRoute | None:
        """Return the route of a topic; None if no name server knows a route."""
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
        """Return the readable queues of a topic; None if no name server knows the topic."""
        route = self.route(topic, fresh=True)
        return None if route is None else route.subscribe_queues

    def topics(self) -> tuple[str, ...]:
        """The names of all topics, sorted."""
        found = self._from_name_servers(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, TopicList.parse)
        return tuple(sorted(found.topic_list))

    def brokers(self) -> frozenset[str]:
        """The names of all brokers."""
        found = self._from_name_servers(RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfo.parse).broker_addr_table
        for name, broker in found.items():
            if broker.broker_addrs:  # a broker whose topic is gone is in no route
                self._addresses.setdefault(name, _main_address(broker.broker_addrs))
        return frozenset(found)

    def _from_name_servers(self, code: int, parse: Callable[[bytes], T]) -> T:
        answer, address = self._ask_name_servers(code, None)
        self._expect_success(answer, address)
        return _parsed(parse, answer.body, address)

    def _ask_name_servers(self, code: int, header: Header | None) -> tuple[RemotingCommand, str]:
        """Return the first answer of a name server, and the server's address.

        :raises ConnectError: no server answered, and the last one could not be reached.
        :raises RequestTimeout: no server answered, and the last one took too long.
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
        """Return the connection to an address, and connect if there is none.

        :raises ConnectError: the connection failed.
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
        """Return the connection to a broker that has queues of a topic.

        :param fresh: whether to ask the name server where the broker is now.
        :raises BrokerNotFound: the topic's route does not name the broker.
        :raises ConnectError: the broker cannot be reached.
        """
        address = None if fresh else self._addresses.get(broker_name)
        if address is None:
            self.route(topic, fresh=True)
            address = self._addresses.get(broker_name)
            if address is None:
                raise BrokerNotFound(broker_name, MASTER_ID)
        return self.connection(address, broker_name)

    def forget(self, broker_name: str) -> None:
        """Close the broker's connection. The next call asks where the broker is, and connects again."""
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
        return self._numbers(
            queues,
            RequestCode.GET_MIN_OFFSET,
            lambda queue: GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id),
        )

    def ends(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Return the offset after each queue's last committed message: durable, if the broker can tell."""
        return self._numbers(
            queues,
            RequestCode.GET_MAX_OFFSET,
            lambda queue: GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, committed=True),
        )

    def first_stored(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Return when the first message that each queue still has was stored, epoch milliseconds; −1 for none."""
        return self._numbers(
            queues,
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            lambda queue: GetEarliestMsgStoretimeRequest(topic=queue.topic, queue_id=queue.queue_id),
            lambda answer, address: header_of(GetEarliestMsgStoretimeResponse, answer, address).timestamp,
        )

    def at_time(
        self, queues: Sequence[MessageQueue], timestamp_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        """Return each queue's first offset stored at a time (epoch milliseconds) or later; the end if there is none."""
        return self._numbers(
            queues,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            lambda queue: SearchOffsetRequest(
                topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms[queue], boundary_type="LOWER"
            ),
        )

    def store_ids(self, broker_names: Iterable[str], topic: str) -> dict[str, str]:
        """Return the id of each broker's store, without brokers that do not report one.

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
        """Return the settings of a broker that has queues of a topic; empty if the broker does not reveal them."""
        connection = self.broker(broker_name, topic)
        answer = connection.call(request(RequestCode.GET_BROKER_CONFIG), self.access.request_timeout_s)
        return settings_of(answer.body.decode(errors="replace")) if answer.code == ResponseCode.SUCCESS else {}

    def mean_bytes(self, queue: MessageQueue, offset: int) -> int:
        """Return the mean stored bytes of messages near an offset; 0 if there are none."""
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
        """Report a group's progress to the brokers."""
        self._numbers(
            tuple(offsets),
            RequestCode.UPDATE_CONSUMER_OFFSET,
            lambda queue: UpdateConsumerOffsetRequest(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offsets[queue]
            ),
            lambda *_: 0,
        )

    def _numbers(
        self,
        queues: Sequence[MessageQueue],
        code: RequestCode,
        header: Callable[[MessageQueue], Header],
        read: Callable[[RemotingCommand, str], int] = _offset_of,
    ) -> dict[MessageQueue, int]:
        """Return one number for each queue.

        All questions to a broker are sent at once, and again after a failure, ``Access.tries`` times at most.
        """
        found: dict[MessageQueue, int] = {}
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        for name, its_queues in by_broker.items():
            answers, address = self._ask_broker(name, its_queues, code, header)
            found.update({queue: read(answer, address) for queue, answer in zip(its_queues, answers, strict=True)})
        return found

    def _ask_broker(
        self, name: str, queues: list[MessageQueue], code: RequestCode, header: Callable[[MessageQueue], Header]
    ) -> tuple[list[RemotingCommand], str]:
        """Return the answer for each queue, and the address of the broker."""
        for tries_left in reversed(range(max(self.access.tries, 1))):
            try:
                connection = self.broker(name, queues[0].topic)
                commands = [request(code, header(queue)) for queue in queues]
                answers = connection.call_all(commands, self.access.request_timeout_s)
                for answer in answers:
                    self._expect_success(answer, connection.address)
                return answers, connection.address
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
    """Return the address of the master, or without a master the address of the first slave."""
    return addresses.get(MASTER_ID) or addresses[min(addresses)]


def _parsed(parse: Callable[[bytes], T], body: bytes, address: str) -> T:
    try:
        return parse(body)
    except BodyError as error:
        raise ProtocolError(address, str(error)) from error


_clusters: dict[tuple[int, Access], Cluster] = {}
MAX_CLUSTERS: Final = 16


def cluster_for(access: Access) -> Cluster:
    """Return this process's cluster for an access; a forked child gets its own."""
    key = os.getpid(), access
    cluster = _clusters.get(key)
    if cluster is None:
        if len(_clusters) >= MAX_CLUSTERS:
            _clusters.clear()
        if not access.name_servers:
            raise ConfigurationError("nameServer", "", "addresses like 'host:9876', separated by ';'")
        cluster = _clusters[key] = Cluster(access)
    return cluster
