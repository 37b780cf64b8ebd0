"""A blocking connection that signs, for what is made and looked at before, beside and after the fuzzer."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from gateway.tests.fuzz.accounts.party import Member, signature
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame

PATIENCE_S = 30.0


class Asking:
    """One connection to one server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENCE_S)
        self._connection = Connection()
        self._opaque = 0

    def ask(
        self, member: Member, code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> RemotingCommand:
        """Ask as an account, and wait for the answer.

        :raises OSError: the server has closed, or no answer came.
        """
        self._opaque += 1
        signed = {**(fields or {}), "AccessKey": member.name}
        signed["Signature"] = signature(member.secret, signed, body)
        self._socket.sendall(build_frame(RemotingCommand(code, opaque=self._opaque, ext_fields=signed, body=body)))
        while True:
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError("closed by the server")
            for command in self._connection.receive_data(data):
                if command.is_response and command.opaque == self._opaque:
                    return command

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
