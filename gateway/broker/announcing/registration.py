"""The registration with the name servers: which topics this broker serves, and at which address.

A broker registers at the start, then every ``registerNameServerPeriod``, and at once when a topic changes. A name
server that does not answer is tried again sooner, with one log line for all its failures. When a connection closes, the
name server has forgotten the broker, and the broker registers again after ``FIRST_RETRY_S``. At the stop the broker
unregisters. The name server of the same process is called directly. Upstream: ``BrokerOuterAPI.registerBrokerAll``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.internet.interfaces import IDelayedCall

from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.saved.saved_table import KnownTexts
from gateway.reactor.interface import TimeSource
from gateway.reactor.thread_result import thread_result
from gateway.remoting.channel import Channel
from gateway.remoting.client import RemotingClient
from gateway.remoting.long_lists import MAX_LIST_BYTES
from gateway.remoting.pending import CallFailed
from gateway.settings import Address, Advertised, BrokerSettings
from gateway.telemetry.logs import EventLog
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.route import ClusterInfo, TopicRouteData
from wire.bodies.topics import DataVersion, TopicConfig
from wire.codes import RequestCode, ResponseCode, response_code_name
from wire.errors import RemoteError
from wire.headers.declare import parse_header
from wire.headers.name_server import (
    GetRouteInfoRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnRegisterBrokerRequest,
)
from wire.message.flags import Permission

log = EventLog("registration")

FIRST_RETRY_S = 1.0
"""Seconds until the first attempt after a failure; each further failure doubles the time, up to the period."""
GOODBYE_TIMEOUT_S = 3.0
CRC_MASK = 0x7FFFFFFF
"""The mask that drops the sign bit, as Java's ``UtilAll.crc32`` does. Never change it."""


class TopicTable(Protocol):
    """The topics, as far as registration needs them; ``gateway.metadata.topics.Topics`` is a ``TopicTable``."""

    @property
    def data_version(self) -> DataVersion:
        """The version of the topics, which rises with every change."""

    def table(self) -> Mapping[str, TopicConfig]:
        """Return all topics by name."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every change."""


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's announcement at one moment; the broker's permission limits the permissions of ``topics``."""

    cluster: str
    broker_name: str
    broker_id: int
    advertised: Advertised
    listen_port: int
    ha_port: int | None = None
    topics: Mapping[str, TopicConfig]
    data_version: DataVersion

    @property
    def port(self) -> int:
        """The port in routes."""
        return self.listen_port if self.advertised.port is None else self.advertised.port

    def address(self, reached_at: str) -> str:
        """Return the address for a name server that we reach from our address ``reached_at``."""
        return str(Address(self.advertised.host or reached_at, self.port))

    def ha_address(self, reached_at: str) -> str:
        """Return the address from which slaves copy: by custom the next port, even if none may copy.

        The field is required.
        """
        return str(Address(self.advertised.host or reached_at, self.port + 1 if self.ha_port is None else self.ha_port))


def announced_topics(topics: Mapping[str, TopicConfig], broker_permission: int) -> dict[str, TopicConfig]:
    """Return the topics without permissions that the broker lacks, and without queues that are written but never read.

    A send to such a queue is refused, and a producer that takes turns would be refused three times in a row.
    """
    announced = {
        name: config
        if config.write_queue_nums <= config.read_queue_nums
        else replace(config, write_queue_nums=config.read_queue_nums)
        for name, config in topics.items()
    }
    if broker_permission & Permission.READ_WRITE == Permission.READ_WRITE:
        return announced
    return {name: replace(config, perm=config.perm & broker_permission) for name, config in announced.items()}


def build_registration(
    announcement: Announcement, reached_at: str, *, compressed: bool, body: bytes | None = None
) -> tuple[RegisterBrokerRequest, bytes]:
    """Build the header and the body of REGISTER_BROKER.

    :param body: the body that was built before for the same topics; None to build the body.
    """
    if body is None:
        topics = RegisterBrokerBody(data_version=announcement.data_version, topic_config_table=announcement.topics)
        body = topics.build(compressed)
    header = RegisterBrokerRequest(
        broker_name=announcement.broker_name,
        broker_addr=announcement.address(reached_at),
        cluster_name=announcement.cluster,
        ha_server_addr=announcement.ha_address(reached_at),
        broker_id=announcement.broker_id,
        compressed=compressed,
        body_crc32=zlib.crc32(body) & CRC_MASK,
    )
    return header, body


def readable_queues(route: TopicRouteData) -> dict[str, int]:
    """Return the queues of a route that consumers see: the number of read queues by broker name."""
    return {
        queues.broker_name: queues.read_queue_nums
        for queues in route.queue_datas
        if queues.perm & Permission.READ and queues.read_queue_nums > 0
    }


class NameServerLink(Protocol):
    """One name server: a ``RemoteNameServer``, or the name server of this process (``DirectRegistration``).

    The user of a link sets ``lost``, which is called when the name server has forgotten the broker.
    """

    lost: Callable[[], None]
    master: tuple[str, str] | None
    """The addresses of the master for requests and for its log, as the last answer to a slave named them."""

    @property
    def name(self) -> str:
        """The name of the name server in log lines."""

    async def register(self, announcement: Announcement, /) -> str | None:
        """Register the broker; return the reason if the name server refuses.

        :raises CallFailed: the name server does not answer.
        """

    async def unregister(self, announcement: Announcement, /) -> None:
        """Unregister the broker.

        :raises CallFailed: the name server does not answer.
        """

    async def read_queues(self, topic: str, /) -> Mapping[str, int] | None:
        """Return the readable queues of a topic by broker name, None if the name server does not know the topic.

        :raises CallFailed: the name server does not answer.
        """

    async def members(self, cluster: str, broker_name: str, /) -> Mapping[int, str]:
        """Return the brokers of a name by id, with their addresses; none if the name server does not know the name.

        :raises CallFailed: the name server does not answer.
        """


class RemoteNameServer:
    """A name server of another process, ours or Apache's.

    :param in_thread: runs the work that makes the body, which takes a second for a hundred thousand topics. The default
        runs the work at once, for tests.
    :param on_reached: called with our address from which we reach the name server, whenever that address changes.
    """

    def __init__(
        self,
        address: Address,
        client: RemotingClient,
        settings: BrokerSettings,
        in_thread: InThread = in_this_thread,
        on_reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.name = str(address)
        self.lost: Callable[[], None] = _nothing
        self.master: tuple[str, str] | None = None
        self._on_reached = on_reached
        self._reached_at = ""
        self._watched: Channel | None = None
        self._texts = KnownTexts(None)
        self._built: tuple[DataVersion, bytes, bool] | None = None
        self._in_thread = in_thread
        self._address = address
        self._client = client
        self._settings = settings

    async def register(self, announcement: Announcement) -> str | None:
        """Send REGISTER_BROKER; without ``forceRegister`` only if the name server has another data version."""
        channel = await self._client.channel(self._address)
        reached_at = channel.local[0]
        if reached_at != self._reached_at:
            self._reached_at = reached_at
            self._on_reached(reached_at)
        if not self._settings.force_register and not await self._has_changed(announcement, reached_at):
            return None
        body, compressed = await thread_result(
            self._in_thread, lambda: self._body(announcement, self._settings.compressed_register)
        )
        header, body = build_registration(announcement, reached_at, compressed=compressed, body=body)
        answer = await channel.call(
            RequestCode.REGISTER_BROKER, header, body, self._settings.register_broker_timeout_ms / 1_000
        )
        if answer.code != ResponseCode.SUCCESS:
            return f"{response_code_name(answer.code)}: {answer.remark}"
        places = parse_header(RegisterBrokerResponse, answer.ext_fields)
        if places.master_addr and places.ha_server_addr:
            self.master = places.master_addr, places.ha_server_addr
        if channel is not self._watched:
            self._watched = channel
            channel.on_close(lambda _: self.lost())
        return None

    def _body(self, announcement: Announcement, compressed: bool) -> tuple[bytes, bool]:
        """Make the body with all topics, and return whether it is compressed; runs in a thread, one call at a time.

        A body that would be too long for a frame is compressed in any case.
        """
        version, topics = announcement.data_version, announcement.topics
        if self._built is None or self._built[0] != version:
            table = topics if compressed else self._texts.of(topics)
            body = RegisterBrokerBody(version, table).build(compressed)
            if len(body) > MAX_LIST_BYTES:
                compressed, body = True, RegisterBrokerBody(version, topics).build(True)
            self._built = version, body, compressed
        return self._built[1:]

    async def unregister(self, announcement: Announcement) -> None:
        """Send UNREGISTER_BROKER."""
        channel = await self._client.channel(self._address)
        header = UnRegisterBrokerRequest(
            broker_name=announcement.broker_name,
            broker_addr=announcement.address(channel.local[0]),
            cluster_name=announcement.cluster,
            broker_id=announcement.broker_id,
        )
        await channel.call(RequestCode.UNREGISTER_BROKER, header, timeout_s=GOODBYE_TIMEOUT_S)

    async def read_queues(self, topic: str) -> Mapping[str, int] | None:
        """Send GET_ROUTEINFO_BY_TOPIC."""
        answer = await self._client.call(
            self._address, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=topic)
        )
        return readable_queues(TopicRouteData.parse(answer.body)) if answer.code == ResponseCode.SUCCESS else None

    async def members(self, _cluster: str, broker_name: str) -> Mapping[int, str]:
        """Send GET_BROKER_CLUSTER_INFO, which name servers of all generations answer."""
        answer = await self._client.call(self._address, RequestCode.GET_BROKER_CLUSTER_INFO)
        if answer.code != ResponseCode.SUCCESS:
            return {}
        found = ClusterInfo.parse(answer.body).broker_addr_table.get(broker_name)
        return {} if found is None else found.broker_addrs

    async def _has_changed(self, announcement: Announcement, reached_at: str) -> bool:
        header = QueryDataVersionRequest(
            broker_name=announcement.broker_name,
            broker_addr=announcement.address(reached_at),
            cluster_name=announcement.cluster,
            broker_id=announcement.broker_id,
        )
        body = announcement.data_version.build()
        answer = await self._client.call(self._address, RequestCode.QUERY_DATA_VERSION, header, body)
        if answer.code != ResponseCode.SUCCESS:
            return True
        return parse_header(QueryDataVersionResponse, answer.ext_fields).changed


class NameServerRegistration(Service):
    """Keeps all name servers informed while it runs.

    :param listen_port: returns the broker's port, and is called at each registration: with port 0 in the settings the
        port is known late.
    :param ha_port: returns the port for slaves; None if none may copy.
    """

    def __init__(
        self,
        *,
        name_servers: Sequence[NameServerLink],
        topics: TopicTable,
        settings: BrokerSettings,
        listen_port: Callable[[], int],
        ha_port: Callable[[], int | None] = lambda: None,
        reactor: TimeSource,
    ) -> None:
        self._ha_port = ha_port
        self._topics = topics
        self._settings = settings
        self._listen_port = listen_port
        self._reactor = reactor
        period_s = settings.register_name_server_period_ms / 1_000
        self._sides = [_Side(link, self.announcement, reactor, period_s) for link in name_servers]
        self._soon: IDelayedCall | None = None
        topics.on_change(self.register_soon)

    def announcement(self) -> Announcement:
        """Return the broker's announcement as it is now."""
        settings = self._settings
        return Announcement(
            cluster=settings.broker_cluster_name,
            broker_name=settings.broker_name,
            broker_id=settings.broker_id,
            advertised=settings.advertised,
            listen_port=self._listen_port(),
            ha_port=self._ha_port(),
            topics=announced_topics(self._topics.table(), settings.broker_permission),
            data_version=self._topics.data_version,
        )

    def attempted(self) -> Deferred[None]:
        """Return a Deferred that fires after one attempt at each name server, whatever the answers."""
        first = DeferredList([side.attempted for side in self._sides], consumeErrors=True)
        return first.addCallback(lambda _: None)

    def register_soon(self) -> None:
        """Register everywhere at the end of this reactor turn; several calls in one turn count as one."""
        if self.running and self._soon is None:
            self._soon = self._reactor.callLater(0, self._register_now)

    async def read_queues(self, topic: str) -> Mapping[str, int] | None:
        """Return the readable queues of a topic by broker name, from the first name server that knows the topic.

        None if no name server knows the topic.
        """
        for side in self._sides:
            try:
                queues = await side.link.read_queues(topic)
            except (CallFailed, RemoteError):
                continue
            if queues is not None:
                return queues
        return None

    @property
    def master(self) -> tuple[str, str] | None:
        """The addresses of the master for requests and for its log; None as long as no name server named them."""
        return next((side.link.master for side in self._sides if side.link.master is not None), None)

    async def members(self) -> Mapping[int, str] | None:
        """Return the brokers of our name by id, with their addresses; None if no name server answers."""
        found: dict[int, str] = {}
        answered = False
        for side in self._sides:
            try:
                found |= await side.link.members(self._settings.broker_cluster_name, self._settings.broker_name)
                answered = True
            except (CallFailed, RemoteError):
                continue
        return found if answered else None

    def startService(self) -> None:  # noqa: N802 (Twisted's name)
        """Register everywhere; the name server of this process knows the broker when this method returns."""
        super().startService()  # type: ignore[no-untyped-call]
        for side in self._sides:
            side.register()

    def stopService(self) -> Deferred[None]:  # noqa: N802 (Twisted's name)
        """Unregister everywhere; fires when every name server has answered or could not be reached."""
        super().stopService()  # type: ignore[no-untyped-call]
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        return DeferredList([side.stop() for side in self._sides]).addCallback(lambda _: None)

    def _register_now(self) -> None:
        self._soon = None
        for side in self._sides:
            side.register()


class _Side:
    """One name server: the attempt under way, the next attempt, and the number of failures."""

    def __init__(
        self,
        link: NameServerLink,
        announcement: Callable[[], Announcement],
        reactor: TimeSource,
        period_s: float,
    ) -> None:
        self.link = link
        self._announcement = announcement
        self._reactor = reactor
        self._period_s = period_s
        self._next: IDelayedCall | None = None
        self._under_way = False
        self._again = False
        self._failures = 0
        self._told: Announcement | None = None
        self._stopped = False
        self.attempted: Deferred[None] = Deferred()
        link.lost = self._lost

    def register(self) -> None:
        """Start an attempt; if one is under way, start another after it."""
        if self._under_way:
            self._again = True
            return
        self._stopped = False
        self._cancel_next()
        self._under_way = True
        ensureDeferred(self._attempt())

    def stop(self) -> Deferred[None]:
        """End the attempts and unregister."""
        self._stopped = True
        self._cancel_next()
        return ensureDeferred(self._goodbye())

    async def _attempt(self) -> None:
        try:
            announcement = self._announcement()
            refusal = await self.link.register(announcement)
        except (CallFailed, RemoteError) as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - a service loop: one failure must not end the registrations
            log.error("registration failed", failure=error, name_server=self.link.name)
            self._failures += 1
        else:
            self._failed(refusal) if refusal is not None else self._succeeded(announcement)
        self._under_way = False
        if not self.attempted.called:
            self.attempted.callback(None)
        self._plan_next()

    def _failed(self, reason: str) -> None:
        self._failures += 1
        if self._failures == 1:
            log.warning("not registered", name_server=self.link.name, reason=reason)

    def _succeeded(self, announcement: Announcement) -> None:
        if self._failures or self._told is None:
            log.info("registered", name_server=self.link.name, failures_before=self._failures)
        self._failures = 0
        self._told = announcement

    def _lost(self) -> None:
        """Register again after ``FIRST_RETRY_S``.

        The name server closed the connection or died, and so no longer knows the broker.
        """
        if not self._stopped and not self._under_way:
            log.warning("name server lost", name_server=self.link.name)
            self._cancel_next()
            self._next = self._reactor.callLater(FIRST_RETRY_S, self.register)

    def _plan_next(self) -> None:
        if self._stopped:
            return
        again, self._again = self._again, False
        if again and not self._failures:
            delay_s = 0.0
        elif self._failures:
            delay_s = min(FIRST_RETRY_S * 2.0 ** min(self._failures - 1, 16), self._period_s)
        else:
            delay_s = self._period_s
        self._next = self._reactor.callLater(delay_s, self.register)

    async def _goodbye(self) -> None:
        told, self._told = self._told, None
        if told is None:
            return
        try:
            await self.link.unregister(told)
        except CallFailed as error:
            log.info("goodbye not heard", name_server=self.link.name, error=str(error))

    def _cancel_next(self) -> None:
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next = None


def _nothing() -> None:
    """Do nothing: the ``lost`` of a link until its user sets another."""
