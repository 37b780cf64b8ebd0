"""TLS of the fuzzer's connections: handshakes that break, renegotiations, and bytes that no TLS would send."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from OpenSSL import SSL

MAX_BYTES: Final = 1 << 16
VERSIONS: Final = (SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION)


class Encryption:
    """One side of one connection; its bytes are carried by whoever uses it.

    :param random: chooses the version.
    """

    def __init__(self, random: Random) -> None:
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        version = random.choice(VERSIONS)
        context.set_min_proto_version(version)
        context.set_max_proto_version(version)
        self._may_renegotiate = version == SSL.TLS1_2_VERSION
        self._connection = SSL.Connection(context)
        self._connection.set_connect_state()

    async def handshake(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Go on until it is done.

        :raises OSError: the server has closed, or sent what is no TLS.
        """
        while not self._is_done():
            writer.write(self._made())
            data = await reader.read(MAX_BYTES)
            if not data:
                raise ConnectionResetError("closed within the handshake")
            self._connection.bio_write(data)
        writer.write(self._made())

    def begun(self) -> bytes:
        """Return the hello of a handshake."""
        self._is_done()
        return self._made()

    def seal(self, data: bytes) -> bytes:
        """Return the encrypted form of bytes."""
        with suppress(SSL.Error):
            self._connection.sendall(data)
        return self._made()

    def unseal(self, data: bytes) -> bytes:
        """Return what encrypted bytes hold.

        :raises OSError: they are no TLS, or its end.
        """
        self._connection.bio_write(data)
        found = b""
        try:
            while True:
                found += self._connection.recv(MAX_BYTES)
        except SSL.WantReadError:
            return found
        except SSL.Error as error:
            if found:
                return found
            raise ConnectionResetError(f"the end of TLS: {error}") from error

    def renegotiation(self) -> bytes:
        """Return the begin of another handshake within the connection; nothing with TLS 1.3, which has none."""
        if self._may_renegotiate:
            with suppress(SSL.Error):
                self._connection.renegotiate()
                self._is_done()
        return self._made()

    def _is_done(self) -> bool:
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return False
        except SSL.Error as error:
            raise ConnectionResetError(f"no TLS: {error}") from error
        return True

    def _made(self) -> bytes:
        made = b""
        with suppress(SSL.WantReadError):
            while True:
                made += self._connection.bio_read(MAX_BYTES)
        return made


def faulty(made: bytes, random: Random) -> bytes:
    """Return bytes of TLS that were changed, cut, repeated, or replaced by others that look alike."""
    kind = random.randrange(8)
    if kind == 0:
        return made[: random.randrange(len(made) + 1)]
    if kind == 1 and made:
        changed = bytearray(made)
        for _ in range(random.randint(1, 5)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        return bytes(changed)
    if kind == 2:
        return made + made
    if kind == 3:
        return made + random.randbytes(random.randint(1, 20_000))
    if kind == 4:
        return record(random.choice((20, 21, 22, 23, 24, 255)), random.randbytes(random.randint(0, 100)))
    if kind == 5:
        return record(22, b"") * random.randint(1, 50) + made
    if kind == 6:
        return record(20, b"\x01") * random.randint(1, 50) + made
    return b"\x16\x03\x01\xff\xff" + random.randbytes(random.choice((10, 70_000)))


def record(kind: int, content: bytes) -> bytes:
    """Return a record that is not encrypted."""
    return bytes((kind, 3, 3)) + len(content).to_bytes(2, "big") + content
