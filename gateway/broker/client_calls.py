"""Questions that tools ask and only a client can answer: the broker passes them on to the client.

Upstream: ``Broker2Client`` and ``AdminBrokerProcessor.callConsumer``. If the client is not online, is too old or does
not answer, the tool gets a refusal with the reason.
"""

from __future__ import annotations

from gateway.errors import RequestRefused
from gateway.membership.clients import ConnectedClient
from gateway.membership.consumers import Consumers
from gateway.remoting.pending import CallFailed, CallTimeout
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header

RUNNING_INFO_SINCE_VERSION = 62
"""V3_1_8_SNAPSHOT: the first client with GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY."""
CALL_TIMEOUT_S = 10.0
"""Seconds that a client may take to answer, as upstream: it may write a thread dump or run the user's listener."""


def find_consumer(consumers: Consumers, group: str, client_id: str, *, since_version: int) -> ConnectedClient:
    """Return the newest open connection of a group's client.

    :param since_version: the first client version (``MQVersion``) that understands the question.
    :raises RequestRefused: SYSTEM_ERROR: the client is not online, or too old.
    """
    for client in reversed(members_of(consumers, group)):
        if client.client_id == client_id:
            check_version(client, since_version)
            return client
    raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")


def members_of(consumers: Consumers, group: str) -> list[ConnectedClient]:
    """Return the open connections of a group, in the order in which they joined."""
    connected = consumers.group(group)
    if connected is None:
        return []
    return [client for client in connected.members.values() if not client.channel.closed]


def check_version(client: ConnectedClient, since_version: int) -> None:
    """Refuse a client that is older than ``since_version``.

    :raises RequestRefused: SYSTEM_ERROR: the client is too old.
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
    """Ask a client and return its answer, whatever the answer's code.

    :raises RequestRefused: CONSUME_MSG_TIMEOUT: no answer within ``timeout_s`` seconds; SYSTEM_ERROR: the call failed.
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
