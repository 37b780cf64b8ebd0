"""Reading answers: what a server gets wrong is its error, told with its address."""

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
    """The header of an answer.

    :param address: whose answer it is.
    :raises ProtocolError: it cannot be read.
    """
    try:
        return read_header(cls, answer)
    except RemoteError as error:
        raise ProtocolError(address, f"the header of an answer cannot be read: {error}") from error


def body_of(cls: type[J], answer: RemotingCommand, address: str) -> J:
    """The body of an answer.

    :raises ProtocolError: it cannot be read.
    """
    try:
        return cls.parse(answer.body)
    except RemoteError as error:
        raise ProtocolError(address, f"the body of an answer cannot be read: {error}") from error


def settings_of(text: str) -> dict[str, str]:
    """The settings that a broker answers GET_BROKER_CONFIG with, a ``name=value`` in each line."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}
