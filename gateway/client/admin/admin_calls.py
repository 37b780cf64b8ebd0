"""The requests of the admin client's parts: to one broker by address, to all masters, or to a name server.

An unexpected answer becomes a ``BrokerError``; an unreadable answer becomes a ``ProtocolError``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.client.connect.answers import body_of
from gateway.client.errors import ConfigurationError, ProtocolError, RouteNotFound, broker_error
from gateway.client.names import with_namespace, without_namespace
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
    """The requests of an admin client.

    :param instance: returns the client instance; raises if the client does not run.
    :param namespace: the namespace of the names that applications use; empty for no namespace.
    """

    def __init__(self, instance: Callable[[], ClientInstance], namespace: str = "") -> None:
        self._instance = instance
        self.namespace = namespace

    def wire(self, name: str) -> str:
        """Return the name of a topic or group as brokers know it."""
        return with_namespace(self.namespace, name)

    def plain(self, name: str) -> str:
        """Return the name of a topic or group as applications know it."""
        return without_namespace(self.namespace, name)

    def inside(self, names: Iterable[str]) -> list[str]:
        """Return those names that are in the namespace, sorted, as applications know them.

        :param names: topics or groups as brokers know them.
        """
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
        """Return the answer of one server.

        :param timeout: seconds; None: ``request_timeout`` of the settings.
        :raises BrokerError: the code of the answer is not in ``expect``.
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
        """Ask all brokers at once, and return the answers by broker name. The first error ends the call.

        :param brokers: the addresses by broker name.
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
        """Ask all brokers as ``ask_each`` does, and return the bodies of the answers by broker name.

        :param or_code: a further code that is expected; a broker that answers with this code is left out.
        :raises ProtocolError: a body cannot be read.
        """
        answers = await self.ask_each(brokers, code, header, expect=(ResponseCode.SUCCESS, or_code))
        return {
            name: body_of(cls, answer, brokers[name])
            for name, answer in answers.items()
            if answer.code == ResponseCode.SUCCESS
        }

    async def ask_name_server(self, code: RequestCode, header: Header | None = None) -> RemotingCommand:
        """Return the answer of the first name server that answers.

        :raises BrokerError: the code of the answer is not SUCCESS.
        """
        answer, address = await self._instance().name_servers.request(code, header)
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark, address)
        return answer

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of all name servers."""
        return self._instance().name_servers.addresses

    @property
    def now_ms(self) -> int:
        """The time of the client's wall clock, in milliseconds since the epoch."""
        return self._instance().clock()

    async def cluster(self) -> ClusterInfo:
        """Return all brokers that the name servers know."""
        answer = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        info = body_of(ClusterInfo, answer, "a name server")
        self._note_addresses(info.broker_addr_table.values())
        return info

    async def masters(self, cluster: str | None = None, broker_name: str | None = None) -> dict[str, str]:
        """Return the masters' addresses by broker name.

        :raises ConfigurationError: the cluster or broker does not exist, or has no master.
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
        """Return the name server's answer about the brokers of a topic.

        :raises RouteNotFound: the name servers do not know the topic.
        """
        data = await self._instance().name_servers.route_data(topic)
        if data is None:
            raise RouteNotFound(topic, self.name_servers, "they do not know it")
        self._note_addresses(data.broker_datas)
        return data

    async def master(self, broker_name: str) -> str:
        """Return the address of a broker's master.

        :raises ConfigurationError: the broker does not exist, or has no master.
        """
        return (await self.masters(broker_name=broker_name))[broker_name]

    async def masters_of(self, topic: str) -> dict[str, str]:
        """Return the masters' addresses by broker name, for the brokers that have a topic.

        :raises RouteNotFound: the topic is not known, or none of its brokers has a master.
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
        """Return the address of the master of one broker that has a topic.

        :raises ConfigurationError: the broker does not have the topic.
        """
        masters = await self.masters_of(topic)
        if broker_name not in masters:
            raise ConfigurationError("broker_name", broker_name, f"one that has topic {topic}: {', '.join(masters)}")
        return masters[broker_name]

    def _note_addresses(self, brokers: Iterable[BrokerData]) -> None:
        """Note the broker of each address, so that an error about an address can name the broker that gave it."""
        advertised = self._instance().remoting.advertised
        for broker in brokers:
            advertised.update(dict.fromkeys(broker.broker_addrs.values(), broker.broker_name))


def json_of(answer: RemotingCommand, address: str) -> dict[str, Any]:
    """Return the body of an answer as a JSON object.

    :raises ProtocolError: the body is not a JSON object.
    """
    try:
        value = JsonObject.read_json(answer.body)
    except RemoteError as error:
        raise ProtocolError(address, f"the body of an answer cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError(address, "the body of an answer is not a JSON object")
    return value
