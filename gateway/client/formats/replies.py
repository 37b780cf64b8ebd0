"""Request and reply: the properties of both, and a reply as the broker pushes it to the requester.

Upstream: ``MessageUtil``.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.client.errors import MessageRefused
from gateway.client.message import ReceivedMessage
from wire.command import RemotingCommand
from wire.errors import WireError
from wire.headers.declare import parse_header
from wire.headers.send import ReplyMessageRequest
from wire.message.message_id import pack_host
from wire.message.properties import PropertyName, parse_properties
from wire.message.record import MAGIC_V1, StoredMessage

REPLY_TYPE = "reply"
_NO_HOST = pack_host("0.0.0.0", 0)  # noqa: S104 - "unknown", nothing listens there


def request_properties(correlation_id: str, client_id: str, ttl_ms: int) -> dict[str, str]:
    """Return the properties that make a message a request."""
    return {
        PropertyName.CORRELATION_ID: correlation_id,
        PropertyName.REPLY_TO_CLIENT: client_id,
        PropertyName.TTL: str(ttl_ms),
    }


def reply_properties(request: ReceivedMessage) -> dict[str, str]:
    """Return the properties that make a message the reply to a request.

    :raises MessageRefused: the received message asks for no reply.
    """
    if not isinstance(request, ReceivedMessage):
        raise MessageRefused("request", f"is {type(request).__name__}, not the message that was received")
    properties = request.properties
    try:
        return {
            PropertyName.MSG_TYPE: REPLY_TYPE,
            PropertyName.CORRELATION_ID: properties[PropertyName.CORRELATION_ID],
            PropertyName.REPLY_TO_CLIENT: properties[PropertyName.REPLY_TO_CLIENT],
            PropertyName.TTL: properties.get(PropertyName.TTL, "3000"),
        }
    except KeyError as error:
        raise MessageRefused("request", f"has no property {error}: it was not sent by request()") from error


def reply_topic(request: ReceivedMessage) -> str:
    """Return the topic for the reply: the reply topic of the cluster that stored the request.

    :raises MessageRefused: the broker did not name its cluster.
    """
    cluster = request.properties.get(PropertyName.CLUSTER)
    if not cluster:
        raise MessageRefused("request", "has no property 'CLUSTER': the broker does not support request and reply")
    return f"{cluster}_REPLY_TOPIC"


def pushed_reply(command: RemotingCommand) -> tuple[str | None, ReceivedMessage]:
    """Return the correlation id and the message of a PUSH_REPLY_MESSAGE_TO_CLIENT (326).

    :raises FieldError: the header cannot be read.
    """
    header = parse_header(ReplyMessageRequest, command.ext_fields)
    properties = (header.properties or "").encode()
    property_map: Mapping[str, str] = parse_properties(properties)
    head = (
        0,
        MAGIC_V1,
        0,
        header.queue_id,
        header.flag,
        0,
        0,
        header.sys_flag,
        header.born_timestamp,
        _host(header.born_host),
        header.store_timestamp,
        _host(header.store_host),
        header.reconsume_times or 0,
        0,
        len(command.body),
    )
    record = StoredMessage(head, command.body, header.topic, properties, dict(property_map))
    return property_map.get(PropertyName.CORRELATION_ID), ReceivedMessage(record, "")


def _host(text: str) -> bytes:
    """Return the packed form of ``/127.0.0.1:1234``, as Java prints an address; any other text counts as unknown."""
    ip, _, port = text.rpartition("/")[2].rpartition(":")
    try:
        return pack_host(ip.strip("[]"), int(port))
    except (WireError, ValueError):
        return _NO_HOST
