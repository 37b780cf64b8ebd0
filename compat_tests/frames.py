"""Frames made and taken apart without `wire`, so that a mistake there cannot hide itself from these tests."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import ssl
import struct
from dataclasses import dataclass, field
from typing import Any

GET_ROUTE = 105
UPDATE_BROKER_CONFIG = 25
GET_FIGURES = 28
SEND_V2 = 310
END_TRANSACTION = 37


@dataclass(slots=True)
class Frame:
    """One command with a JSON header."""

    header: dict[str, Any]
    body: bytes = b""
    fields: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.fields = dict(self.header.get("extFields") or {})

    @property
    def code(self) -> int:
        return int(self.header["code"])

    @property
    def remark(self) -> str:
        return str(self.header.get("remark") or "")

    def pack(self) -> bytes:
        header = json.dumps({**self.header, "extFields": self.fields}).encode()
        return struct.pack(">II", 4 + len(header) + len(self.body), len(header)) + header + self.body


def request(code: int, fields: dict[str, str] | None = None, body: bytes = b"", *, opaque: int = 1) -> Frame:
    """A request as a Java client of version 5.3.3 would number it."""
    return Frame(
        {
            "code": code,
            "extFields": fields or {},
            "flag": 0,
            "language": "JAVA",
            "opaque": opaque,
            "version": 479,
        },
        body,
    )


def signed(frame: Frame, access_key: str, secret_key: str) -> Frame:
    """Sign a request with the keys of an account, as stock clients do."""
    fields = {**frame.fields, "AccessKey": access_key}
    fields.pop("Signature", None)
    content = "".join(fields[name] for name in sorted(fields)).encode() + frame.body
    fields["Signature"] = base64.b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()
    frame.fields = fields
    return frame


def read(connection: socket.socket) -> Frame | None:
    """The next frame; None when the peer closed the connection. TimeoutError by the socket's own timeout."""
    head = read_exactly(connection, 8)
    if head is None:
        return None
    length, mark = struct.unpack(">II", head)
    assert mark >> 24 == 0, "not a JSON header"
    rest = read_exactly(connection, length - 4)
    if rest is None:
        return None
    header_bytes = mark & 0xFFFFFF
    return Frame(json.loads(rest[:header_bytes]), rest[header_bytes:])


def read_exactly(connection: socket.socket, count: int) -> bytes | None:
    """Return exactly this number of bytes; None if the connection ends before."""
    data = b""
    while len(data) < count:
        try:
            piece = connection.recv(min(count - len(data), 1 << 16))
        except ConnectionResetError:
            return None
        if not piece:
            return None
        data += piece
    return data


def ask(address: tuple[str, int], asked: Frame, *, timeout_s: float = 10.0, encrypted: bool = False) -> Frame | None:
    """Send one request on a connection of its own and return the answer; None when it is closed instead."""
    with socket.create_connection(address, timeout=timeout_s) as plain:
        connection = _trusting().wrap_socket(plain) if encrypted else plain
        with connection:
            connection.sendall(asked.pack())
            return read(connection)


def _trusting() -> ssl.SSLContext:
    """What speaks TLS with any server."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
