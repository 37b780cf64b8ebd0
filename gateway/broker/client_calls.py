"""Questions of tools that only a client can answer, passed on to it.

Upstream: ``Broker2Client`` and ``AdminBrokerProcessor.callConsumer``. A client that is not there, is too old or stays
silent becomes a refusal that the tool shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.errors import RequestRefused
from gateway.remoting.pending import CallFailed, CallTimeout
from wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from gateway.membership.clients import ConnectedClient
    from gateway.membership.consumers import Consumers
    from wire.command import RemotingCommand
    from wire.headers.declare import Header

RUNNING_INFO_SINCE_VERSION = 62
"""V3_1_8_SNAPSHOT: the first client with GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY."""
CALL_TIMEOUT_S = 10.0
"""How long a client may take, as upstream: it may write a thread dump or run the user's listener meanwhile."""


def find_consumer(consumers: Consumers, group: str, client_id: str, *, since_version: int) -> ConnectedClient:
    """The newest living connection of a group's client.

    :param since_version: the client version (``MQVersion``) that first understood the question.
    :raises RequestRefused: SYSTEM_ERROR: it is not online, or too old.
    """
    for client in reversed(members_of(consumers, group)):
        if client.client_id == client_id:
            check_version(client, since_version)
            return client
    raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")


def members_of(consumers: Consumers, group: str) -> list[ConnectedClient]:
    """The living connections of a group, in the order in which they joined."""
    connected = consumers.group(group)
    if connected is None:
        return []
    return [client for client in connected.members.values() if not client.channel.closed]


def check_version(client: ConnectedClient, since_version: int) -> None:
    """Let a client pass that is new enough.

    :raises RequestRefused: SYSTEM_ERROR.
    """
    if client.version < since_version:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"The Consumer <{client.client_id}> has version number {client.version}, too low for this request; "
            f"it needs {since_version} or later",
        )


async def ask_client(
    client: ConnectedClient, code: RequestCode, header: Header, body: bytes = b"", timeout_s: float = CALL_TIMEOUT_S
) -> RemotingCommand:
    """Ask a client and wait for its answer, whatever its code.

    :raises RequestRefused: CONSUME_MSG_TIMEOUT: it did not answer in time; SYSTEM_ERROR: it could not be asked.
    """
    try:
        return await client.channel.call(code, header, body, timeout_s)
    except CallTimeout as error:
        raise RequestRefused(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{client.client_id}> timed out: {error}"
        ) from error
    except CallFailed as error:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, f"invoke consumer <{client.client_id}> failed: {error}"
        ) from error
