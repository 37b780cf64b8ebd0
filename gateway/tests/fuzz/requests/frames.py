"""The bytes of a request in both forms of header, whole or with a wrong frame."""

from __future__ import annotations

import struct
from random import Random
from typing import Any, Final

from gateway.tests.fuzz.requests.grammar import Asked, Pairs, json_text

OTHER_PROTOCOLS: Final = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"SSH-2.0-x\r\n",
    b"\x00" * 64,
    b"\xff" * 64,
    b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
)
_LANGUAGE_JAVA: Final = 0


def frame_of(asked: Asked) -> bytes:
    """The frame of a request, as its client would write it."""
    header = _binary_header(asked) if asked.is_binary else _json_header(asked)
    mark = len(header) | (1 << 24 if asked.is_binary else 0)
    return struct.pack(">II", 4 + len(header) + len(asked.body), mark) + header + asked.body


def spoiled(frame: bytes, random: Random) -> bytes:
    """A frame with something wrong in its own bytes, or bytes that are no frame."""
    kind = random.randrange(8)
    length, mark = struct.unpack_from(">II", frame)
    rest = frame[8:]
    if kind == 0:
        return frame[: random.randrange(len(frame))]
    if kind == 1:
        return (
            struct.pack(">II", random.choice((0, 3, 4, length - 1, length + 1, 2**24 + 1, 2**31, 2**32 - 1)), mark)
            + rest
        )
    if kind == 2:
        return struct.pack(">II", length, (mark & 0xFF000000) | random.choice((0, 1, length, 2**24 - 1))) + rest
    if kind == 3:
        return struct.pack(">II", length, (mark & 0xFFFFFF) | random.choice((1, 2, 127, 255)) << 24) + rest
    if kind == 4:
        return random.choice(OTHER_PROTOCOLS)
    if kind == 5:
        return random.randbytes(random.choice((1, 7, 8, 100, 5_000)))
    changed = bytearray(frame)
    for _ in range(random.randint(1, 5)):
        changed[random.randrange(8, len(changed))] = random.randrange(256)
    return bytes(changed)


def _json_header(asked: Asked) -> bytes:
    members: list[tuple[str, Any]] = [
        ("code", asked.code),
        ("extFields", Pairs(asked.fields)),
        ("flag", asked.flag),
        ("language", asked.language),
        ("opaque", asked.opaque),
        ("serializeTypeCurrentRPC", "JSON"),
        ("version", asked.version),
    ]
    return json_text(Pairs(members)).encode("utf-8", "surrogatepass")


def _binary_header(asked: Asked) -> bytes:
    fields = b"".join(
        struct.pack(">H", len(name) & 0xFFFF) + name + struct.pack(">I", len(value)) + value
        for name, value in ((_bytes(name), _bytes(value)) for name, value in asked.fields)
    )
    language = asked.language if isinstance(asked.language, int) else _LANGUAGE_JAVA
    head = struct.pack(
        ">HBHIIII",
        asked.code & 0xFFFF,
        language & 0xFF,
        asked.version & 0xFFFF,
        asked.opaque & 0xFFFFFFFF,
        asked.flag & 0xFFFFFFFF,
        0,
        len(fields),
    )
    return head + fields


def _bytes(value: Any) -> bytes:
    text = value if isinstance(value, str) else json_text(value)
    return text.encode("utf-8", "surrogatepass")
