"""Requests of brokers: register, unregister, heartbeat, compare data versions, find their group.

Upstream: the broker half of ``DefaultRequestProcessor`` (name server). A broker is removed as soon as the connection
closes over which the broker registered.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gateway.clock import Milliseconds
from gateway.errors import RequestRefused
from gateway.metadata.names import topic_name_fault
from gateway.nameserver.addresses import BrokerAddress, seen_from
from gateway.nameserver.kv_config import ORDER_NAMESPACE, KvConfig
from gateway.nameserver.registration_reader import RegistrationReader
from gateway.nameserver.route_table import (
    DEFAULT_BROKER_TIMEOUT_MS,
    LiveBroker,
    Registered,
    Registration,
    RouteTable,
)
from gateway.remoting.channel import Channel
from gateway.remoting.declared import GET, UPDATE, Kind, Need, needs, on_cluster
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import Requests, answers
from gateway.remoting.turns import ENTRIES_PER_TURN, Work
from gateway.settings import NameServerSettings
from gateway.telemetry.logs import EventLog, Repeats
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.route import BrokerMemberGroup
from wire.bodies.tools.statistics import KVTable
from wire.bodies.topics import DataVersion, TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.headers.name_server import (
    BrokerHeartbeatRequest,
    GetBrokerMemberGroupRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnRegisterBrokerRequest,
)

log = EventLog("nameserver")

MAX_LOGGED_BROKERS = 20
"""The most log lines for brokers that are lost at once; container deployments have a few brokers on one connection."""
MAX_BROKER_NAME_CHARACTERS = 255
"""The most characters of a broker's or a cluster's name; a host name has at most 253."""
MAX_ADDRESS_CHARACTERS = 300
"""The most characters of ``host:port``."""
_KEEPS = needs(on_cluster(UPDATE, "clusterName"), in_body="Cluster Update of the cluster in which the broker is known")
CRC_MASK = 0x7FFFFFFF
"""The mask that drops the sign bit, as Java's ``UtilAll.crc32`` does. Never change this mask."""


class BrokerRequests(Requests):
    """The requests of brokers.

    :param reader: reads the bodies of registrations.
    :param read_address: returns what the table keeps for the address that a broker gives.
    """

    def __init__(
        self,
        *,
        routes: RouteTable,
        kv_config: KvConfig,
        reader: RegistrationReader,
        settings: NameServerSettings,
        clock_ms: Milliseconds,
        read_address: Callable[[str], BrokerAddress] = str,
    ) -> None:
        self._routes = routes
        self._kv_config = kv_config
        self._reader = reader
        self._settings = settings
        self._clock_ms = clock_ms
        self._address = read_address
        self._watched: dict[int, Channel] = {}
        self._told: dict[BrokerAddress, tuple[bytes, DataVersion]] = {}
        self._left_out = Repeats(clock_ms)

    @answers(RequestCode.REGISTER_BROKER, RegisterBrokerRequest, _KEEPS)
    async def register_broker(self, request: Request, header: RegisterBrokerRequest) -> Answer:
        """Take in a broker and its topics, but nothing of a broker that left while its registration was read."""
        _check_names(header)
        body = request.command.body
        if header.body_crc32 and zlib.crc32(body) & CRC_MASK != header.body_crc32 & CRC_MASK:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        address = self._address(header.broker_addr)
        self._require_theirs(request, header.cluster_name, header.broker_name, address)
        digest = _digest(header, request.command.version, body)
        version = self._repeated(address, digest)
        if version is not None:
            self._watch(request.channel)
            registration = self._registration(request, header, {}, version)
            registered = self._routes.register(registration, self._clock_ms())
        else:
            is_known = self._routes.heartbeat(address, self._clock_ms())  # it lives, even if it has to wait
            registration, registered = await self._reader.read(
                request,
                address,
                compressed=header.compressed,
                take_in=partial(self._take_in, request, header),
                is_known=is_known,
            )
        if registered.refusal is not None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, registered.refusal)
        if not registered.outdated:
            self._remember(address, digest, registration.data_version)
        if registered.is_new:
            log.info(
                "broker registered",
                broker=header.broker_name,
                broker_id=header.broker_id,
                address=header.broker_addr,
                cluster=header.cluster_name,
                topics=len(registration.topics),
            )
        return self._registered(request, registered)

    def _take_in(
        self, request: Request, header: RegisterBrokerRequest, told: RegisterBrokerBody
    ) -> Work[tuple[Registration, Registered]]:
        """Put a broker's registration into the table, many topics one piece at a time."""
        valid = yield from self._valid_topics(told.topic_config_table, header)
        self._watch(request.channel)  # it may close while topics are taken
        registration = self._registration(request, header, valid, told.data_version)
        registered = yield from self._routes.register_in_steps(registration, self._clock_ms())
        return registration, registered

    def _registration(
        self,
        request: Request,
        header: RegisterBrokerRequest,
        topics: Mapping[str, TopicConfig],
        version: DataVersion,
    ) -> Registration:
        return Registration(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=self._address(header.broker_addr),
            ha_address=header.ha_server_addr,
            topics=topics,
            data_version=version,
            timeout_ms=_timeout_ms(header.heartbeat_timeout_millis),
            channel_id=request.channel.id,
        )

    def _valid_topics(
        self, topics: Mapping[str, TopicConfig], header: RegisterBrokerRequest
    ) -> Work[Mapping[str, TopicConfig]]:
        """Return the topics that may be in a route.

        The names of the broker and of the cluster are valid names of topics here, even with dots.
        """
        faults = yield from _faults(topics, (header.broker_name, header.cluster_name))
        if not faults:
            return topics
        held_back = self._left_out.due(header.broker_name)
        if held_back is not None:
            first, reason = next(iter(faults.items()))
            log.warning(
                "topics of a registration left out",
                broker=header.broker_name,
                count=len(faults),
                first=first,
                reason=reason,
                held_back=held_back,
            )
        if len(topics) >= ENTRIES_PER_TURN:
            yield
        return {name: config for name, config in topics.items() if name not in faults}

    def _repeated(self, address: BrokerAddress, digest: bytes) -> DataVersion | None:
        """Return the version of the topics if the broker repeats its last registration; otherwise None.

        Repeated topics are in the table and need not be read. Brokers repeat everything every 30 s. Ten thousand topics
        would take half a second, in which nobody gets a route.
        """
        told, version = self._told.get(address, (b"", None))
        return version if told == digest and version == self._routes.data_version(address) else None

    def _remember(self, address: BrokerAddress, digest: bytes, version: DataVersion) -> None:
        if len(self._told) >= self._settings.nameserver_brokers_limit:
            self._told.clear()
        self._told[address] = digest, version

    @answers(RequestCode.UNREGISTER_BROKER, UnRegisterBrokerRequest, _KEEPS)
    def unregister_broker(self, request: Request, header: UnRegisterBrokerRequest) -> Answer:
        """Forget a broker; an unknown broker is not an error."""
        address = self._address(header.broker_addr)
        self._require_theirs(request, header.cluster_name, header.broker_name, address)
        self._reader.forget(address)
        known = self._routes.unregister(header.broker_name, header.broker_id, address)
        if known:
            log.info("broker unregistered", broker=header.broker_name, address=header.broker_addr)
        return Answer()

    @answers(RequestCode.QUERY_DATA_VERSION, QueryDataVersionRequest, needs(on_cluster(GET, "clusterName")))
    def query_data_version(self, request: Request, header: QueryDataVersionRequest) -> Answer:
        """Answer whether a broker has to send its topics again; if not, the request counts as a heartbeat."""
        theirs = DataVersion.parse(request.command.body)
        address = self._address(header.broker_addr)
        ours = self._routes.data_version(address)
        changed = ours != theirs
        if not changed:
            self._routes.heartbeat(address, self._clock_ms())
        body = b"" if ours is None else ours.build()
        return Answer(header=QueryDataVersionResponse(changed=changed), body=body)

    @answers(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatRequest, _KEEPS)
    def heartbeat(self, request: Request, header: BrokerHeartbeatRequest) -> Answer:
        """Note that a broker is alive; the request is mostly one-way."""
        address = self._address(header.broker_addr)
        self._require_theirs(request, header.cluster_name, header.broker_name, address)
        self._routes.heartbeat(address, self._clock_ms())
        return Answer()

    @answers(RequestCode.GET_BROKER_MEMBER_GROUP, GetBrokerMemberGroupRequest, needs(on_cluster(GET, "clusterName")))
    def member_group(self, request: Request, header: GetBrokerMemberGroupRequest) -> Answer:
        """Answer with the addresses of the brokers that share a name."""
        addresses = self._routes.group_addresses(header.cluster_name, header.broker_name, request.channel.local[0])
        group = BrokerMemberGroup(cluster=header.cluster_name, broker_name=header.broker_name, broker_addrs=addresses)
        return Answer(body=group.build())

    def _require_theirs(self, request: Request, named: str, broker_name: str, address: BrokerAddress) -> None:
        """Require Update of the clusters in which a broker is known, because the request may name another cluster.

        :raises RequestRefused: the sender lacks the right.
        """
        if request.caller is not None:
            for cluster in self._routes.clusters_of(broker_name, address) - {named}:
                request.require(Need(Kind.CLUSTER, cluster, UPDATE))

    def _registered(self, request: Request, registered: Registered) -> Answer:
        body = self._order_config() if self._settings.return_order_topic_config_to_broker else b""
        reached_at = request.channel.local[0]
        master, ha = registered.master_address, registered.master_ha_address
        header = RegisterBrokerResponse(
            ha_server_addr=None if ha is None else seen_from(ha, reached_at),
            master_addr=None if master is None else seen_from(master, reached_at),
        )
        return Answer(header=header, body=body)

    def _order_config(self) -> bytes:
        """Return the order configuration of all topics; empty if there is none, or if an answer has no room for all."""
        try:
            order = self._kv_config.namespace(ORDER_NAMESPACE)
        except RequestRefused as refusal:
            left_out = self._left_out.due(ORDER_NAMESPACE)
            if left_out is not None:
                log.warning("order configuration not told to brokers", reason=refusal.remark, left_out=left_out)
            return b""
        return b"" if order is None else KVTable(table=dict(order)).build()

    def _watch(self, channel: Channel) -> None:
        if channel.id not in self._watched:
            self._watched[channel.id] = channel
            channel.on_close(self._channel_closed)

    def _channel_closed(self, channel: Channel) -> None:
        del self._watched[channel.id]
        log_lost(self._routes.channel_closed(channel.id), "channel closed")


def log_lost(brokers: Sequence[LiveBroker], reason: str) -> None:
    """Write one log line for each lost broker, and a single line for all beyond the first ``MAX_LOGGED_BROKERS``."""
    for live in brokers[:MAX_LOGGED_BROKERS]:
        log.warning("broker lost", broker=live.broker_name, address=live.address, reason=reason)
    if len(brokers) > MAX_LOGGED_BROKERS:
        log.warning("more brokers lost", count=len(brokers) - MAX_LOGGED_BROKERS, reason=reason)


def _faults(topics: Mapping[str, TopicConfig], also_valid: Sequence[str]) -> Work[dict[str, str]]:
    """Return the faults of invalid topics, by topic name."""
    faults: dict[str, str] = {}
    for at, (name, config) in enumerate(topics.items(), start=1):
        fault = (None if name in also_valid else topic_name_fault(name)) or config.queues_fault
        if fault is not None:
            faults[name] = fault
        if at % ENTRIES_PER_TURN == 0:
            yield
    return faults


def _check_names(header: RegisterBrokerRequest) -> None:
    """Refuse names and addresses that are too long to be in every route."""
    for what, text, limit in (
        ("brokerName", header.broker_name, MAX_BROKER_NAME_CHARACTERS),
        ("clusterName", header.cluster_name, MAX_BROKER_NAME_CHARACTERS),
        ("brokerAddr", header.broker_addr, MAX_ADDRESS_CHARACTERS),
        ("haServerAddr", header.ha_server_addr, MAX_ADDRESS_CHARACTERS),
    ):
        if len(text) > limit:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{what} has {len(text)} characters, the limit is {limit}")


def _digest(header: RegisterBrokerRequest, version: int, body: bytes) -> bytes:
    """Return a digest of a registration without its connection and addresses."""
    place = f"{header.cluster_name}@{header.broker_name}@{header.broker_id}@{header.compressed}@{version}@"
    return hashlib.blake2b(place.encode() + body, digest_size=16).digest()


def _timeout_ms(asked: int | None) -> int:
    """Return ``heartbeatTimeoutMillis`` of 5.x if it is given and positive; otherwise the default."""
    return asked if asked is not None and asked > 0 else DEFAULT_BROKER_TIMEOUT_MS
