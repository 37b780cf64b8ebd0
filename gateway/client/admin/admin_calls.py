"""How the parts of the admin client ask: one broker by address, all masters, or a name server.

Answers other than expected become ``BrokerError``; whatever cannot be read becomes ``ProtocolError``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.client.connect.answers import body_of
from gateway.client.errors import ConfigurationError, ProtocolError, RouteNotFound, broker_error
from gateway.client.namespaces import with_namespace, without_namespace
from wire.bodies.declare import JsonObject
from wire.bodies.route import MASTER_ID, BrokerData, ClusterInfo, TopicRouteData
from wire.codes import RequestCode, ResponseCode
from wire.errors import RemoteError
from wire.headers.declare import Header

if TYPE_CHECKING:
    from gateway.client.connect.instance import ClientInstance
    from wire.command import RemotingCommand

J = TypeVar("J", bound=JsonObject)

_SUCCESS = frozenset((int(ResponseCode.SUCCESS),))


class AdminCalls:
    """Requests of an admin client.

    :param instance: gives the client instance; raises when the client does not run.
    :param namespace: of the names that applications use; empty for none.
    """

    def __init__(self, instance: Callable[[], ClientInstance], namespace: str = "") -> None:
        self._instance = instance
        self.namespace = namespace

    def wire(self, name: str) -> str:
        """The name of a topic or group as brokers know it."""
        return with_namespace(self.namespace, name)

    def plain(self, name: str) -> str:
        """The name of a topic or group as applications know it."""
        return without_namespace(self.namespace, name)

    def inside(self, names: Iterable[str]) -> list[str]:
        """Names of brokers that are in the namespace, as applications know them, sorted."""
        return sorted({self.plain(name) for name in names if self.wire(self.plain(name)) == name})

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        expect: Collection[int] = _SUCCESS,
        timeout: float | None = None,
    ) -> RemotingCommand:
        """The answer of one server.

        :param timeout: seconds; None: ``request_timeout`` of the settings.
        :raises BrokerError: its code is none of ``expect``.
        """
        return await self._instance().ask_address(address, code, header, body, timeout=timeout, expect=expect)

    async def ask_each(
        self,
        brokers: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        expect: Collection[int] = _SUCCESS,
    ) -> dict[str, RemotingCommand]:
        """Ask all brokers at once; the answers by broker name. The first error ends it.

        :param brokers: addresses by name.
        """
        answers = await asyncio.gather(
            *(self.ask(address, code, header, body, expect=expect) for address in brokers.values())
        )
        return dict(zip(brokers, answers, strict=True))

    async def bodies(
        self,
        cls: type[J],
        brokers: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        *,
        or_code: int = ResponseCode.SUCCESS,
    ) -> dict[str, J]:
        """As ``ask_each``, the bodies of the answers; a broker that answers ``or_code`` is left out.

        :raises ProtocolError: a body cannot be read.
        """
        answers = await self.ask_each(brokers, code, header, expect=(ResponseCode.SUCCESS, or_code))
        return {
            name: body_of(cls, answer, brokers[name])
            for name, answer in answers.items()
            if answer.code == ResponseCode.SUCCESS
        }

    async def ask_name_server(
        self, code: RequestCode, header: Header | None = None, *, expect: Collection[int] = _SUCCESS
    ) -> RemotingCommand:
        """The answer of the first name server that answers.

        :raises BrokerError: its code is none of ``expect``.
        """
        answer, address = await self._instance().name_servers.request(code, header)
        if answer.code not in expect:
            raise broker_error(answer.code, answer.remark, address)
        return answer

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of all name servers."""
        return self._instance().name_servers.addresses

    @property
    def now_ms(self) -> int:
        """The client's wall clock."""
        return self._instance().clock()

    async def cluster(self) -> ClusterInfo:
        """All brokers that the name servers know."""
        answer = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        info = body_of(ClusterInfo, answer, "a name server")
        self._note_addresses(info.broker_addr_table.values())
        return info

    async def masters(self, cluster: str | None = None, broker_name: str | None = None) -> dict[str, str]:
        """The masters' addresses by broker name.

        :raises ConfigurationError: no such cluster, or no such broker, or it has no master.
        """
        info = await self.cluster()
        if cluster is not None and cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise ConfigurationError("cluster", cluster, f"a cluster the name server knows: {known}")
        names = info.broker_addr_table if cluster is None else info.cluster_addr_table[cluster]
        found = {
            name: info.broker_addr_table[name].broker_addrs[MASTER_ID]
            for name in sorted(names)
            if name in info.broker_addr_table and MASTER_ID in info.broker_addr_table[name].broker_addrs
        }
        if broker_name is not None:
            found = {name: address for name, address in found.items() if name == broker_name}
        if not found:
            raise ConfigurationError(
                "broker_name" if broker_name else "namesrv",
                broker_name or ";".join(self.name_servers),
                "one that knows a broker with a master: none is registered"
                if broker_name is None
                else "the name of a broker with a master",
            )
        return found

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic is, as the name server answers.

        :raises RouteNotFound: it does not know.
        """
        data = await self._instance().name_servers.route_data(topic)
        if data is None:
            raise RouteNotFound(topic, self.name_servers, "they do not know it")
        self._note_addresses(data.broker_datas)
        return data

    async def masters_of(self, topic: str) -> dict[str, str]:
        """The masters' addresses by broker name, of the brokers that have a topic.

        :raises RouteNotFound: there are none.
        """
        route = await self.route(topic)
        found = {
            broker.broker_name: broker.broker_addrs[MASTER_ID]
            for broker in route.broker_datas
            if MASTER_ID in broker.broker_addrs
        }
        if not found:
            raise RouteNotFound(topic, self.name_servers, "none of its brokers has a master")
        return found

    async def address_of(self, topic: str, broker_name: str) -> str:
        """The address of the master of one broker that has a topic.

        :raises ConfigurationError: the topic is not on that broker.
        """
        masters = await self.masters_of(topic)
        if broker_name not in masters:
            raise ConfigurationError("broker_name", broker_name, f"one that has topic {topic}: {', '.join(masters)}")
        return masters[broker_name]

    def _note_addresses(self, brokers: Iterable[BrokerData]) -> None:
        """So that an error about an address says who gave it."""
        advertised = self._instance().remoting.advertised
        for broker in brokers:
            advertised.update(dict.fromkeys(broker.broker_addrs.values(), broker.broker_name))


def json_of(answer: RemotingCommand, address: str) -> dict[str, Any]:
    """The body of an answer as a JSON object.

    :raises ProtocolError: it is none.
    """
    try:
        value = JsonObject.read_json(answer.body)
    except RemoteError as error:
        raise ProtocolError(address, f"the body of an answer cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError(address, "the body of an answer is not a JSON object")
    return value
