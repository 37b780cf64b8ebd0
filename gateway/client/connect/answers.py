"""Reading answers: a mistake of a server raises ``ProtocolError`` with the server's address."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gateway.client.errors import ProtocolError
from wire.errors import RemoteError
from wire.headers.declare import Header, read_header

if TYPE_CHECKING:
    from wire.bodies.declare import JsonObject
    from wire.command import RemotingCommand

H = TypeVar("H", bound=Header)
J = TypeVar("J", bound="JsonObject")


def header_of(cls: type[H], answer: RemotingCommand, address: str) -> H:
    """Return the header of an answer.

    :param address: the server that answered.
    :raises ProtocolError: the header cannot be read.
    """
    try:
        return read_header(cls, answer)
    except RemoteError as error:
        raise ProtocolError(address, f"the header of an answer cannot be read: {error}") from error


def body_of(cls: type[J], answer: RemotingCommand, address: str) -> J:
    """Return the body of an answer.

    :raises ProtocolError: the body cannot be read.
    """
    try:
        return cls.parse(answer.body)
    except RemoteError as error:
        raise ProtocolError(address, f"the body of an answer cannot be read: {error}") from error


def settings_of(text: str) -> dict[str, str]:
    """Return the settings in an answer to GET_BROKER_CONFIG, which has a ``name=value`` in each line."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}
