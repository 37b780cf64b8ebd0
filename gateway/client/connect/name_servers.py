"""The name servers of a client: one server is asked until it fails, then the next.

The first server is chosen at random, so that clients spread over the servers (upstream ``NettyRemotingClient``).
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Final

from gateway.client.connect.remoting import Remoting
from gateway.client.connect.settings import ClientSettings
from gateway.client.errors import (
    ConfigurationError,
    ConnectError,
    NotANameServer,
    ProtocolError,
    RequestTimeout,
    RocketMQError,
    broker_error,
)
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.errors import BodyError
from wire.headers.declare import Header
from wire.headers.name_server import GetRouteInfoRequest

if TYPE_CHECKING:
    from wire.bodies.route import TopicRouteData

_log = logging.getLogger(__name__)

_KNOWN_TO_EACH: Final = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
)
"""The requests that every name server answers, and no broker."""


class NameServers:
    """Asks the name servers of the settings.

    :raises ConfigurationError: the settings have no address.
    """

    def __init__(self, remoting: Remoting, settings: ClientSettings, choice: random.Random) -> None:
        addresses = settings.name_servers
        if not addresses:
            raise ConfigurationError("namesrv", "", "the addresses of name servers, or set NAMESRV_ADDR")
        self.addresses = addresses
        self._remoting = remoting
        self._timeout = settings.request_timeout
        self._current = choice.randrange(len(addresses))

    async def request(self, code: int, header: Header | None = None) -> tuple[RemotingCommand, str]:
        """Return the first answer of a name server, whatever its code, and the address of that server.

        :raises ConnectError, RequestTimeout, ProtocolError, NotANameServer: all servers failed, the last one in this
            way.
        """
        failure: RocketMQError | None = None
        for _ in self.addresses:
            address = self.addresses[self._current]
            try:
                return await self._ask(address, code, header), address
            except (ConnectError, NotANameServer, ProtocolError, RequestTimeout) as error:
                failure = error
                if self.addresses[self._current] == address:
                    self._current = (self._current + 1) % len(self.addresses)
                if len(self.addresses) > 1:
                    _log.warning("name server %s failed, taking the next one: %s", address, error)
        assert failure is not None, "there is at least one name server"
        raise failure

    async def _ask(self, address: str, code: int, header: Header | None) -> RemotingCommand:
        answer = await self._remoting.request(address, code, header, timeout=self._timeout)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and code in _KNOWN_TO_EACH:
            raise NotANameServer(answer.code, answer.remark, address)
        return answer

    async def route_data(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic, None if the name server does not know the topic.

        :raises ConnectError, RequestTimeout: all name servers failed, the last one in this way.
        :raises BrokerError: the name server refused, or its answer cannot be read.
        """
        header = GetRouteInfoRequest(topic=topic, accept_standard_json_only=True)
        answer, address = await self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise broker_error(answer.code, answer.remark, address)
        from wire.bodies.route import TopicRouteData  # with the first route, not with the import

        try:
            return TopicRouteData.parse(answer.body)
        except BodyError as error:
            remark = f"its route of {topic!r} cannot be read: {error}"
            raise broker_error(ResponseCode.SYSTEM_ERROR, remark, address) from error
