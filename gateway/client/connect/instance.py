"""The background work of a client: routes, heartbeats, answers to requests of brokers.

Every producer, consumer and admin client has an instance of its own, with its own connections and client id.
Upstream shares one ``MQClientInstance`` in a process, which causes surprises if instance names are equal.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import random as randomness
from collections.abc import Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.client.clock import Milliseconds, wall_clock_ms
from gateway.client.connect.local_address import local_address
from gateway.client.connect.member import Member
from gateway.client.connect.name_servers import NameServers
from gateway.client.connect.remoting import Remoting
from gateway.client.connect.routes import TopicRoute, topic_route
from gateway.client.connect.settings import ClientSettings
from gateway.client.errors import BrokerNotFound, ClientClosed, RocketMQError, RouteNotFound, broker_error
from wire.codes import MASTER_ID, RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.headers.groups import UnregisterClientRequest

if TYPE_CHECKING:
    from wire.signature import RequestSigner

_log = logging.getLogger(__name__)

T = TypeVar("T")

_instance_numbers: Final = itertools.count(1)
_UNREGISTER_TIMEOUT: Final = 1.0


class ClientInstance:
    """The connections, routes and members of one client.

    :param random: source of jitter, and of the choice of the first name server.
    """

    def __init__(self, settings: ClientSettings, *, random: randomness.Random | None = None) -> None:
        self.settings = settings
        self.clock: Milliseconds = wall_clock_ms
        self.random = random or randomness.Random()  # noqa: S311 - jitter and turns, no secrets
        self.client_ip = settings.client_ip or local_address()
        self.client_id = _client_id(settings, self.client_ip)
        self.broker_versions: dict[str, int] = {}
        """The version (``MQVersion`` number) in each broker's last answer to a heartbeat, by address."""
        sign = _signer(settings)
        self.remoting = Remoting(settings, asked=self._asked, jitter=self.random, sign=sign.sign if sign else None)
        self.remoting.connected = self._connected
        self.remoting.lost = self._lost
        self.name_servers = NameServers(self.remoting, settings, self.random)
        self._members: list[Member] = []
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._queries: dict[str, asyncio.Task[TopicRoute | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._known_addresses: set[str] = set()
        self._missing: set[str] = set()
        self._is_closed = False
        self._started = False
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop on which the instance was started."""

    async def start(self) -> None:
        """Start to poll routes and to send heartbeats. Connections are made later, when they are needed."""
        if self._started:
            return
        self._started = True
        self.loop = asyncio.get_running_loop()
        self.spawn(self._poll_forever(), name="route polling")
        self.spawn(self._heartbeat_forever(), name="heartbeats")

    async def close(self) -> None:
        """Remove all members, end spawned tasks, close the connections. Idempotent."""
        if self._is_closed:
            return
        for member in list(self._members):
            await self.leave(member)
        await self.drop()

    async def drop(self) -> None:
        """End spawned tasks and close the connections, without a word to any server."""
        self._is_closed = True
        tasks = [*self._tasks, *self._queries.values()]
        for task in tasks:
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not asyncio.current_task()), return_exceptions=True)
        await self.remoting.close()

    # --- routes ---------------------------------------------------------------------------------------------

    async def route(
        self, topic: str, refresh: bool = False, *, template: str | None = None, template_queues: int = 4
    ) -> TopicRoute:
        """Return the route of a topic, from memory unless ``refresh``.

        :param template: for producers: the topic whose route stands for the route of a topic that does not exist yet.
        :param template_queues: how many queues a topic made from the template will have on each broker.
        :raises RouteNotFound: no name server knows the topic; ``ConnectError``, ``RequestTimeout``: no server could be
            asked.
        """
        if not refresh:
            known = self._routes.get(topic)
            if known is not None:
                return known
        route = await self._query(topic)
        if route is not None:
            return route
        if template is not None:
            data = await self.name_servers.route_data(template)
            if data is not None:
                route = topic_route(topic, data, most_queues=template_queues)
                self._keep_route(route)
                return route
        reason = "they know neither it nor the template " + template if template else "they do not know it"
        raise RouteNotFound(topic, self.name_servers.addresses, reason)

    def known_route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic if the route is in memory, otherwise None; for hot paths."""
        return self._routes.get(topic)

    def address_of(self, broker_name: str) -> str:
        """Return the address ``host:port`` of a broker's master.

        :raises BrokerNotFound: no known route has the master.
        """
        address = self._brokers.get(broker_name, _NOWHERE).get(MASTER_ID)
        if address is None:
            raise BrokerNotFound(broker_name, MASTER_ID)
        return address

    def broker_addresses(self, broker_name: str) -> Mapping[int, str]:
        """Return all known addresses of a broker name by broker id; empty if none is known."""
        return self._brokers.get(broker_name, _NOWHERE)

    def master_addresses(self) -> dict[str, str]:
        """Return the addresses of all known masters by broker name."""
        return {name: ids[MASTER_ID] for name, ids in self._brokers.items() if MASTER_ID in ids}

    def route_failed(self, topic: str, error: RocketMQError) -> None:
        """Log that a route is missing and will be asked for again; for a topic that does not exist, log only once."""
        if not isinstance(error, RouteNotFound):
            _log.warning("the route of topic %s is asked for again: %s", topic, error)
        elif topic not in self._missing:
            self._missing.add(topic)
            servers = ", ".join(error.name_servers)
            _log.warning("no route for topic %s at %s: %s. It is asked for again", topic, servers, error.reason)

    # --- requests -------------------------------------------------------------------------------------------

    async def ask(
        self,
        broker_name: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
        expect: int | Collection[int] = ResponseCode.SUCCESS,
    ) -> RemotingCommand:
        """Ask a broker by name, and return its answer if the answer's code is expected.

        :param timeout: seconds; None: ``request_timeout`` of the settings.
        :param expect: the code or codes that are returned.
        :raises BrokerError: the answer has any other code.
        :raises BrokerNotFound, ConnectError, RequestTimeout: there was no answer.
        """
        address = self.address_of(broker_name)
        return await self.ask_address(address, code, header, body, timeout=timeout, expect=expect)

    async def ask_address(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
        expect: int | Collection[int] = ResponseCode.SUCCESS,
    ) -> RemotingCommand:
        """Ask like ``ask``, but at an address ``host:port``."""
        if self._is_closed:
            raise ClientClosed(f"client {self.client_id}", "is closed")
        wait = self.settings.request_timeout if timeout is None else timeout
        answer = await self.remoting.request(address, code, header, body, timeout=wait)
        if answer.code == expect or (not isinstance(expect, int) and answer.code in expect):
            return answer
        raise broker_error(answer.code, answer.remark, address)

    # --- members --------------------------------------------------------------------------------------------

    def join(self, member: Member) -> None:
        """Add a producer or consumer: its routes are kept up to date, heartbeats name it, and it answers requests.

        A heartbeat is sent at once to the known brokers. A caller that needs the brokers' answers awaits ``heartbeat``.
        """
        self._members.append(member)
        if self._known_addresses or self._brokers:
            self.spawn(self.heartbeat(), name="heartbeat at join")

    async def leave(self, member: Member) -> None:
        """Remove a member, and report that to the brokers (35).

        A broker that cannot be reached forgets the member after two minutes.
        """
        if member not in self._members:
            return
        self._members.remove(member)
        header = UnregisterClientRequest(
            client_id=self.client_id,
            producer_group=member.group if member.producer_data() is not None else None,
            consumer_group=member.group if member.consumer_data() is not None else None,
        )
        if header.producer_group is None and header.consumer_group is None:
            return
        connected = [address for address in self._known_addresses if self.remoting.open_connection(address) is not None]
        await asyncio.gather(*(self._unregister(address, header, member.group) for address in connected))

    async def _unregister(self, address: str, header: UnregisterClientRequest, group: str) -> None:
        try:
            await self.remoting.request(address, RequestCode.UNREGISTER_CLIENT, header, timeout=_UNREGISTER_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - that broker forgets the member by itself
            _log.debug("a broker was not told that group %s leaves: %s", group, error)

    async def heartbeat(self) -> None:
        """Send a heartbeat with all members to all known brokers, and wait for the answers; failures are logged."""
        producers = tuple(group for member in self._members if (group := member.producer_data()) is not None)
        consumers = tuple(data for member in self._members if (data := member.consumer_data()) is not None)
        if not producers and not consumers:
            return
        from wire.bodies.heartbeat import HeartbeatData  # with the first heartbeat, not with the import

        body = HeartbeatData(self.client_id, producers, consumers).build()
        addresses = {
            address
            for ids in self._brokers.values()
            for broker_id, address in ids.items()
            if consumers or broker_id == MASTER_ID
        }
        await asyncio.gather(*(self._heartbeat_to(address, body) for address in addresses))

    def _connected(self, address: str) -> None:
        """Send a heartbeat at once: with the old connection, the broker forgot this client."""
        if address in self.broker_versions and not self._is_closed:
            self.spawn(self.heartbeat(), name="heartbeat to a broker that is back")

    def _lost(self, address: str) -> None:
        """Reconnect to a broker that knew this client.

        Without a connection the broker cannot ask about transactions, and cannot report changes of a group.
        """
        if address in self.broker_versions and not self._is_closed:
            self.spawn(self._reconnect(address), name=f"reconnect to {address}")

    # --- tasks ----------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str = "") -> asyncio.Task[T]:
        """Run a coroutine as a task; the task is cancelled at ``close``, and its errors are logged."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    # --- inside ---------------------------------------------------------------------------------------------

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("%s of client %s failed", task.get_name(), self.client_id, exc_info=error)

    async def _query(self, topic: str) -> TopicRoute | None:
        """Ask the name servers for a route; callers that want the same topic at the same time share one request."""
        if self._is_closed:
            raise ClientClosed(f"client {self.client_id}", "is closed")
        task = self._queries.get(topic)
        if task is None:
            task = asyncio.create_task(self._query_now(topic), name=f"route of {topic}")
            self._queries[topic] = task
            task.add_done_callback(lambda done: self._query_ended(topic, done))
        return await asyncio.shield(task)

    async def _query_now(self, topic: str) -> TopicRoute | None:
        data = await self.name_servers.route_data(topic)
        if data is None:
            return None
        route = topic_route(topic, data)
        self._keep_route(route)
        return route

    def _query_ended(self, topic: str, task: asyncio.Task[TopicRoute | None]) -> None:
        self._queries.pop(topic, None)
        if not task.cancelled():
            task.exception()  # looked at by who waits; asyncio would warn when all of them are gone

    def _keep_route(self, route: TopicRoute) -> None:
        known = self._routes.get(route.topic)
        self._routes[route.topic] = route
        if route.topic in self._missing:
            self._missing.remove(route.topic)
            _log.info("topic %s has a route now", route.topic)
        if known == route:
            return
        self._find_brokers()
        for member in list(self._members):
            if route.topic in member.topics():
                member.route_changed(route.topic, route)

    def _find_brokers(self) -> None:
        """Collect the brokers of all routes, and send a heartbeat if there are new brokers."""
        brokers: dict[str, dict[int, str]] = {}
        for route in self._routes.values():
            for name, ids in route.brokers.items():
                brokers.setdefault(name, {}).update(ids)
        self._brokers = brokers
        addresses = {address: name for name, ids in brokers.items() for address in ids.values()}
        self.remoting.advertised = addresses
        new = addresses.keys() - self._known_addresses
        self._known_addresses = set(addresses)
        if new and self._members and not self._is_closed:
            self.spawn(self.heartbeat(), name="heartbeat to new brokers")

    async def _heartbeat_to(self, address: str, body: bytes) -> None:
        timeout = self.settings.request_timeout
        try:
            answer = await self.remoting.request(address, RequestCode.HEART_BEAT, None, body, timeout=timeout)
        except RocketMQError as error:
            _log.warning("heartbeat of %s failed: %s", self.client_id, error)
            return
        if answer.code == ResponseCode.SUCCESS:
            self.broker_versions[address] = answer.version
        else:
            refusal = broker_error(answer.code, answer.remark, address)
            _log.warning("heartbeat of %s was refused: %s", self.client_id, refusal)

    async def _reconnect(self, address: str) -> None:
        """Try to connect until the broker is back, or until the next regular heartbeat tries.

        The first attempt waits a moment, because the new connection may break again.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.heartbeat_broker_interval):
                is_back = False
                while not is_back:
                    await asyncio.sleep(self.settings.reconnect_backoff_max * self.random.uniform(0.5, 1.0))
                    with contextlib.suppress(RocketMQError):
                        await self.remoting.connect(address, self.settings.connect_timeout)
                        is_back = True  # and ``_connected`` has greeted it

    async def _heartbeat_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.heartbeat_broker_interval)
            await self.heartbeat()

    async def _poll_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.poll_name_server_interval)
            for topic in {topic for member in self._members for topic in member.topics()}:
                try:
                    await self._query(topic)
                except RocketMQError as error:
                    _log.warning("the route of topic %s stays as it was: %s", topic, error)

    async def _asked(self, command: RemotingCommand, address: str) -> RemotingCommand | None:
        for member in self._members:
            answer = member.answers().get(command.code)
            if answer is not None:
                return await answer(command, address)
        _log.debug("%s asks for %d, which nobody here answers", address, command.code)
        remark = f"this client does not answer request {command.code}"
        return command.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


_NOWHERE: Final[Mapping[int, str]] = {}


def _client_id(settings: ClientSettings, ip: str) -> str:
    instance = settings.instance_name or f"{os.getpid()}#{next(_instance_numbers)}"
    return f"{ip}@{instance}" + (f"@{settings.unit_name}" if settings.unit_name else "")


def _signer(settings: ClientSettings) -> RequestSigner | None:
    if settings.access_key is None and settings.credentials_file is None:
        return None
    from gateway.client.connect.credentials import signer_of  # few sign, and all would load hashes

    return signer_of(settings)
