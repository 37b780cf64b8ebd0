"""The header of the PROXY protocol: a proxy tells in front of a connection's bytes whose connection it passes on.

Version 1 is a line of text, version 2 is binary (haproxy.org, ``doc/proxy-protocol.txt``). No frame begins with the
first byte of either: as a length it would be 208 MiB or more. Whether to believe a sender is for the caller to know.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Final, NamedTuple

from wire.errors import RemoteError

TEXT_BEGIN: Final = b"PROXY "
TEXT_END: Final = b"\r\n"
MAX_TEXT_BYTES: Final = 107
"""The longest header of version 1, with its end; never change."""
BINARY_BEGIN: Final = b"\r\n\r\n\x00\r\nQUIT\n"
MAX_HEADER_BYTES: Final = 4_096
"""The longest header of version 2; what proxies add (TLVs) takes some hundred bytes."""
MAX_PORT: Final = 65_535

_HEAD: Final = Struct(">12sBBH")
_LOCAL, _PASSED_ON = 0x20, 0x21
"""Version 2 with the command: the proxy's own connection (a health check), or one that it passes on."""
_ADDRESSES: Final[dict[int, tuple[type[IPv4Address | IPv6Address], Struct]]] = {
    0x11: (IPv4Address, Struct(">4s4sHH")),
    0x21: (IPv6Address, Struct(">16s16sHH")),
}
"""TCP over IPv4 and IPv6; other families name nobody who could be here."""
_TEXT_FIELDS: Final = 6


class ProxyHeaderError(RemoteError):
    """Bytes that began like a header and are none."""


class ProxyHeader(NamedTuple):
    """A whole header.

    ``source`` is the address and port of the client; None: the connection is the proxy's own, or its client is unknown.
    """

    source: tuple[str, int] | None
    size: int
    """The bytes of the header; what follows belongs to the client."""


def may_begin_header(data: bytes) -> bool:
    """Return whether bytes are the begin of a header, or may become one."""
    return bool(data) and any(data.startswith(begin) or begin.startswith(data) for begin in (TEXT_BEGIN, BINARY_BEGIN))


def parse_proxy_header(data: bytes) -> ProxyHeader | None:
    """Return the header in front of bytes for which ``may_begin_header`` is true; None if more bytes are needed.

    :raises ProxyHeaderError: the bytes can become no header.
    """
    if not may_begin_header(data):
        raise ProxyHeaderError(f"no PROXY header: {data[:16]!r}")
    return _parse_text(data) if data[0] == TEXT_BEGIN[0] else _parse_binary(data)


def _parse_text(data: bytes) -> ProxyHeader | None:
    end = data.find(TEXT_END, 0, MAX_TEXT_BYTES)
    if end < 0:
        if len(data) >= MAX_TEXT_BYTES:
            raise ProxyHeaderError(f"PROXY header of version 1 without end in {MAX_TEXT_BYTES} bytes")
        return None
    line, size = data[:end], end + len(TEXT_END)
    fields = line.decode("ascii", "replace").split(" ")
    family = fields[1]
    if family == "UNKNOWN":
        return ProxyHeader(None, size)
    if family not in ("TCP4", "TCP6") or len(fields) != _TEXT_FIELDS:
        raise ProxyHeaderError(f"PROXY header of version 1 names no TCP connection: {line!r}")
    of_family = IPv4Address if family == "TCP4" else IPv6Address
    try:
        source, _ = (of_family(text) for text in fields[2:4])
    except ValueError:
        raise ProxyHeaderError(f"PROXY header of version 1 with an address that is not {family}: {line!r}") from None
    port, _ = (_port(text, line) for text in fields[4:])
    return ProxyHeader((_host(source), port), size)


def _parse_binary(data: bytes) -> ProxyHeader | None:
    if len(data) < _HEAD.size:
        return None
    _, command, family, length = _HEAD.unpack_from(data)
    if command not in (_LOCAL, _PASSED_ON):
        raise ProxyHeaderError(f"PROXY header with version and command {command:#04x}, expected 0x20 or 0x21")
    size = _HEAD.size + length
    if size > MAX_HEADER_BYTES:
        raise ProxyHeaderError(f"PROXY header of {size} bytes, the limit is {MAX_HEADER_BYTES}")
    if len(data) < size:
        return None
    if command == _LOCAL or family not in _ADDRESSES:
        return ProxyHeader(None, size)
    of_family, layout = _ADDRESSES[family]
    if length < layout.size:
        raise ProxyHeaderError(f"PROXY header with {length} bytes of addresses, its family has {layout.size}")
    packed, _, port, _ = layout.unpack_from(data, _HEAD.size)
    return ProxyHeader((_host(of_family(packed)), port), size)


def _port(text: str, line: bytes) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PORT)) else -1
    if not 0 <= number <= MAX_PORT or str(number) != text:
        raise ProxyHeaderError(f"PROXY header of version 1 with {text!r} as a port: {line!r}")
    return number


def _host(address: IPv4Address | IPv6Address) -> str:
    """Return the text of an address, without an IPv6 zone; of IPv4 within IPv6 the IPv4 address."""
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else str(address).partition("%")[0]
    return str(address)
