"""The way into the master's port for slaves: a gateway tells it to slaves that speak TLS or have keys of their own.

A master of Apache RocketMQ does not know the question. Its port is plain and asks for nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.errors import GatewayError
from gateway.replication.slave.asking import ask
from gateway.replication.surroundings import Call
from gateway.settings import Address, Settings
from wire.codes import RequestCode, ResponseCode
from wire.headers.admin import EnterReplicaRequest, EnterReplicaResponse
from wire.headers.declare import parse_header
from wire.replication.entry import build_entry


class WayIn(NamedTuple):
    """The way into a port for slaves."""

    with_tls: bool = False
    first_bytes: bytes = b""
    """The bytes that prove who connects; none where no proof is wanted."""


def asks(settings: Settings) -> bool:
    """Return whether a slave has anything that a port for slaves could want: TLS, or keys for a token."""
    return settings.calls_with_tls or bool(settings.inner_client_authentication_credentials)


async def way_in(master: Address, settings: Settings, call: Call) -> WayIn:
    """Ask the master how its port for slaves is entered.

    :raises GatewayError: the master does not answer, or refuses.
    """
    if not asks(settings):
        return WayIn()
    header = EnterReplicaRequest(broker_name=settings.broker_name, broker_id=settings.broker_id)
    code = RequestCode.GATEWAY_ENTER_REPLICA
    answer = await ask(call, master, code, header, unless=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    if answer.code != ResponseCode.SUCCESS:
        return WayIn()
    told = parse_header(EnterReplicaResponse, answer.ext_fields)
    return WayIn(told.tls and settings.calls_with_tls, b"" if told.token is None else _entry_with(told.token))


def _entry_with(token: str) -> bytes:
    try:
        return build_entry(bytes.fromhex(token))
    except ValueError:
        raise GatewayError("the master's token is none: it is no hexadecimal number") from None
