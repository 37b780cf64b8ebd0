"""The header of a proxy, in both versions: what it says, how it may be cut, and what is none."""

from __future__ import annotations

import random
import socket
import struct

import pytest

from wire.errors import RemoteError
from wire.proxy_header import (
    BINARY_BEGIN,
    MAX_HEADER_BYTES,
    MAX_TEXT_BYTES,
    ProxyHeader,
    ProxyHeaderError,
    may_begin_header,
    parse_proxy_header,
)

TLV = b"\x02\x00\x09mq.example" + b"\x04\x00\x00"
LONGEST = b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n"


def binary(addresses: bytes, command: int = 0x21, family: int = 0x11, more: bytes = b"") -> bytes:
    return BINARY_BEGIN + struct.pack(">BBH", command, family, len(addresses) + len(more)) + addresses + more


def tcp4(source: str = "192.0.2.9", port: int = 40_000, more: bytes = b"") -> bytes:
    return binary(socket.inet_aton(source) + socket.inet_aton("10.0.0.1") + struct.pack(">HH", port, 10_911), more=more)


def tcp6(source: str, more: bytes = b"") -> bytes:
    packed = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, "::1")
    return binary(packed + struct.pack(">HH", 7, 10_911), family=0x21, more=more)


GOOD: list[tuple[bytes, tuple[str, int] | None]] = [
    (b"PROXY TCP4 192.0.2.9 10.0.0.1 40000 10911\r\n", ("192.0.2.9", 40_000)),
    (b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", ("255.255.255.255", 65_535)),
    (b"PROXY TCP6 2001:DB8:0:0:0:0:0:9 ::1 1 2\r\n", ("2001:db8::9", 1)),
    (b"PROXY TCP6 ::ffff:192.0.2.9 ::1 1 2\r\n", ("192.0.2.9", 1)),
    (b"PROXY UNKNOWN\r\n", None),
    (LONGEST, None),
    (tcp4(), ("192.0.2.9", 40_000)),
    (tcp4(more=TLV), ("192.0.2.9", 40_000)),
    (tcp6("2001:db8::9"), ("2001:db8::9", 7)),
    (tcp6("::ffff:192.0.2.9", more=TLV), ("192.0.2.9", 7)),
    (binary(b"", command=0x20, family=0), None),
    (binary(TLV, command=0x20, family=0x11), None),
    (binary(b"", family=0), None),
    (binary(bytes(216), family=0x31), None),
    (binary(bytes(12), family=0x12), None),
    (binary(b"", command=0x20, family=0, more=bytes(MAX_HEADER_BYTES - 16)), None),
]


@pytest.mark.parametrize(("header", "source"), GOOD)
@pytest.mark.parametrize("after", [b"", b"\x00\x00\x01\x00frame", b"\x16\x03\x01", b"PROXY UNKNOWN\r\n"])
def test_a_whole_header_names_the_client_and_its_own_size(
    header: bytes, source: tuple[str, int] | None, after: bytes
) -> None:
    assert parse_proxy_header(header + after) == ProxyHeader(source, len(header))


@pytest.mark.parametrize(("header", "source"), GOOD)
def test_a_part_of_a_header_waits_for_more(header: bytes, source: tuple[str, int] | None) -> None:
    for size in range(1, len(header)):
        assert may_begin_header(header[:size])
        assert parse_proxy_header(header[:size]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY  TCP4 192.0.2.9 10.0.0.1 40000 10911\r\n",
        b"PROXY TCP4 192.0.2.9 10.0.0.1 40000\r\n",
        b"PROXY TCP4 192.0.2.9 10.0.0.1 40000 10911 \r\n",
        b"PROXY TCP4 192.0.2.09 10.0.0.1 40000 10911\r\n",
        b"PROXY TCP4 ::1 10.0.0.1 40000 10911\r\n",
        b"PROXY TCP4 192.0.2.9 localhost 40000 10911\r\n",
        b"PROXY TCP6 192.0.2.9 ::1 1 2\r\n",
        b"PROXY TCP4 192.0.2.9 10.0.0.1 65536 1\r\n",
        b"PROXY TCP4 192.0.2.9 10.0.0.1 -1 1\r\n",
        b"PROXY TCP4 192.0.2.9 10.0.0.1 +1 1\r\n",
        b"PROXY TCP4 192.0.2.9 10.0.0.1 01 1\r\n",
        b"PROXY TCP4 192.0.2.9 10.0.0.1 1 \xd9\xa1\r\n",
        b"PROXY UDP4 192.0.2.9 10.0.0.1 1 1\r\n",
        b"PROXY \r\n",
        b"PROXY TCP4 \xff\xfe\r\n",
        b"PROXY " + b"1" * MAX_TEXT_BYTES,
        b"PROXY UNKNOWN " + b"1" * (MAX_TEXT_BYTES - 14) + b"\r\n",
        b"PROXZ",
        b"proxy TCP4",
        b"\r\n\r\n\x00\r\nQUIX",
        b"\x00\x00\x01\x00",
        b"",
        binary(bytes(12), command=0x22),
        binary(bytes(12), command=0x11),
        binary(bytes(11)),
        binary(bytes(12), family=0x21),
        binary(b"", more=bytes(MAX_HEADER_BYTES - 15)),
        BINARY_BEGIN + b"\x21\x11\xff\xff",
    ],
)
def test_everything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyHeaderError):
        parse_proxy_header(data)


def test_a_header_that_is_too_long_is_refused_before_it_has_arrived() -> None:
    with pytest.raises(ProxyHeaderError, match=f"65551 bytes, the limit is {MAX_HEADER_BYTES}"):
        parse_proxy_header((BINARY_BEGIN + b"\x21\x11\xff\xff")[:16])
    with pytest.raises(ProxyHeaderError, match="without end"):
        parse_proxy_header(b"PROXY TCP4 " + b" " * (MAX_TEXT_BYTES - 11))


@pytest.mark.parametrize("seed", range(200))
def test_garbage_is_a_header_or_waits_or_is_refused_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    header, _ = chance.choice(GOOD)
    changed = bytearray(header)
    for _ in range(chance.randint(1, 4)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    try:
        found = parse_proxy_header(bytes(changed))
    except RemoteError:
        return
    assert found is None or 0 < found.size <= max(len(header), MAX_HEADER_BYTES)
