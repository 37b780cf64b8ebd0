"""The two message ids, both upper-case hex text.

    offset message id   address 4|16 · port int32 · commit log offset int64          32 or 56 characters
    unique key          address 4|16 · process id int16 · instance hash int32 ·
                        milliseconds since the start of the month int32 · counter int16   32 or 56 characters

The broker makes the first id from the place of a message. The producing client makes the second id, which applications
see. Nothing in an id tells which of the two kinds it is.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from wire.errors import LocalError, RemoteError
from wire.fixed_layout import FixedLayout, Int16ub, Int32sb, Int64sb
from wire.message.digits import write_hex

PORT_AND_OFFSET = FixedLayout("offset message id", port=Int32sb, commit_log_offset=Int64sb)
UNIQUE_KEY_HEAD = FixedLayout("unique key head", process_id=Int16ub, instance_hash=Int32sb)
UNIQUE_KEY_TAIL = FixedLayout("unique key tail", elapsed_ms=Int32sb, counter=Int16ub)

HOST_V4_BYTES: Final = 8
"""The bytes of a packed host with IPv4: its address (4 bytes) and its port (int32)."""
HOST_V6_BYTES: Final = 20
OFFSET_ID_V4_CHARS = 32
OFFSET_ID_V6_CHARS = 56

MAX_CACHED_HOSTS: Final = 64
"""The most brokers whose part of an id is remembered; the cache is emptied when it is full."""

_host_digits: Final[dict[bytes, bytes]] = {}
_offset: Final = PORT_AND_OFFSET.packer("commit_log_offset")
_port: Final = PORT_AND_OFFSET.packer("port")


def pack_host(ip: str, port: int) -> bytes:
    """Return an address and port as records keep them: 8 bytes for IPv4, 20 for IPv6.

    An IPv4 address mapped into IPv6 (``::ffff:a.b.c.d``, which a dual-stack socket reports) becomes IPv4.

    :raises LocalError: ``ip`` is not a literal address, or ``port`` is not in 0 … 65535.
    """
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError as error:
        raise LocalError(f"{ip[:64]!r} is not an IP address") from error
    if not 0 <= port <= 0xFFFF:
        raise LocalError(f"port {port} is not in 0 … 65535")
    mapped = address.ipv4_mapped if address.version == 6 else None
    return (mapped or address).packed + _port.pack(port)


def unpack_host(host: bytes) -> tuple[str, int]:
    """Return a packed host as address text and port.

    :raises RemoteError: the host is not 8 or 20 bytes long.
    """
    if len(host) not in (HOST_V4_BYTES, HOST_V6_BYTES):
        raise RemoteError(f"a host takes 8 or 20 bytes, not {len(host)}")
    (port,) = _port.unpack_from(host, len(host) - 4)
    return str(ip_address(bytes(host[:-4]))), port


def write_offset_message_id(writer: BytesWriter, store_host: bytes, commit_log_offset: i64) -> None:
    """Write the id of the message at ``commit_log_offset`` of the broker at ``store_host`` (packed)."""
    digits = _host_digits.get(store_host)
    if digits is None:
        if len(_host_digits) >= MAX_CACHED_HOSTS:
            _host_digits.clear()
        digits = _host_digits[store_host] = store_host.hex().upper().encode()
    writer.write(digits)
    write_hex(writer, commit_log_offset)


def build_offset_message_id(store_host: bytes, commit_log_offset: int) -> str:
    """Return the id of the message at ``commit_log_offset`` of the broker at ``store_host`` (packed)."""
    writer = BytesWriter()
    write_offset_message_id(writer, store_host, commit_log_offset)
    return writer.getvalue().decode()


def build_offset_message_ids(store_host: bytes, commit_log_offsets: Sequence[int]) -> bytes:
    """Return the ids of some messages of one broker, separated by commas, as the answer to a batch has them."""
    writer = BytesWriter()
    for commit_log_offset in commit_log_offsets:
        if len(writer):
            writer.write(b",")
        write_offset_message_id(writer, store_host, commit_log_offset)
    return writer.getvalue()


def parse_offset_message_id(text: str) -> tuple[bytes, int]:
    """Return the packed host and the commit log offset of an offset message id.

    :raises RemoteError: the text is not 32 or 56 hexadecimal characters, or the offset is negative.
    """
    if len(text) not in (OFFSET_ID_V4_CHARS, OFFSET_ID_V6_CHARS):
        raise RemoteError(f"message id has {len(text)} characters, not 32 or 56")
    try:
        raw = bytes.fromhex(text)
    except ValueError as error:
        raise RemoteError(f"message id {text!r} is not hexadecimal") from error
    if len(raw) * 2 != len(text):  # fromhex() skips white space
        raise RemoteError(f"message id {text!r} is not hexadecimal")
    (commit_log_offset,) = _offset.unpack_from(raw, len(raw) - 8)
    if commit_log_offset < 0:
        raise RemoteError(f"message id {text!r} names the negative offset {commit_log_offset}")
    return raw[:-8], commit_log_offset


class UniqueKeys:
    """A maker of unique keys, in the Java client's form, for messages that came without a key.

    :param ip: packed address, 4 or 16 bytes.
    :param process_id: a process id, of which the lower 16 bits are used.
    :param instance_hash: a signed 32-bit number that tells several makers in one process apart.
    :param elapsed_ms: returns the milliseconds since the start of the current month in local time.
    :param counter: first value of the counter, of which the lower 16 bits are used.
    """

    def __init__(
        self,
        *,
        ip: bytes,
        process_id: int,
        instance_hash: int,
        elapsed_ms: Callable[[], int],
        counter: int = 0,
    ) -> None:
        if len(ip) not in (4, 16):
            raise LocalError(f"an address takes 4 or 16 bytes, not {len(ip)}")
        self._head = ip + UNIQUE_KEY_HEAD.pack(process_id & 0xFFFF, instance_hash)
        self._elapsed_ms = elapsed_ms
        self._counter = counter

    def create_unique_key(self) -> str:
        """Return the next key: 32 characters with an IPv4 address, 56 with IPv6."""
        counter = self._counter
        self._counter = counter + 1
        tail = UNIQUE_KEY_TAIL.pack(self._elapsed_ms() & 0x7FFFFFFF, counter & 0xFFFF)
        return (self._head + tail).hex().upper()
