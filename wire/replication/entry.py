"""The first bytes of a gateway on the port for slaves of a gateway that checks accounts: who connects, and the proof.

    slave → master    a mark, and the token that the master gave to this slave before

The words of a protocol follow at once. No other first bytes begin with that of the mark: a report or a phase would be
negative, and a handshake of TLS begins with 0x16. The caller judges the token.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wire.errors import FrameError
from wire.fixed_layout import FixedLayout, octets

MARK: Final = b"\xffRMQGWHA"
"""The first bytes of an entry; never change."""
TOKEN_BYTES: Final = 32
ENTRY: Final = FixedLayout("entry of a replica", mark=octets(len(MARK)), token=octets(TOKEN_BYTES))


class Entered(NamedTuple):
    """The first bytes of a connection."""

    token: bytes | None
    """The token; None if the connection begins without an entry."""
    rest: bytes
    """The bytes after the entry: those of the protocol."""


def build_entry(token: bytes) -> bytes:
    """Return the bytes of an entry.

    :raises FrameError: the token has another length.
    """
    if len(token) != TOKEN_BYTES:
        raise FrameError(f"a token has {TOKEN_BYTES} bytes, not {len(token)}")
    return ENTRY.pack(MARK, token)


class EntryReader:
    """The master's receiving half of a connection until its slave has entered."""

    __slots__ = ("_partial",)

    def __init__(self) -> None:
        self._partial = b""

    def receive_data(self, data: bytes) -> Entered | None:
        """Take the bytes of one read; return the entry, or None as long as it is not whole.

        :raises FrameError: the bytes begin as an entry does and are none.
        """
        data = self._partial + data
        if not data:
            return None
        if data[0] != MARK[0]:
            return Entered(None, data)
        if not MARK.startswith(data[: len(MARK)]):
            raise FrameError("a replica begins with bytes that are no entry")
        if len(data) < ENTRY.size:
            self._partial = data
            return None
        _, token = ENTRY.unpack_from(data)
        return Entered(token, data[ENTRY.size :])
