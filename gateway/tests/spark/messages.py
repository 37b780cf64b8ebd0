"""Records as a broker stores them, for readers to be tested with."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from wire.message.flags import SysFlag
from wire.message.message_id import pack_host
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record

HOST = pack_host("10.0.0.7", 10911)
CLIENT = pack_host("10.0.0.9", 40001)
STORED_AT_MS = 1_700_000_000_000


def record(
    offset: int,
    body: bytes = b"body",
    properties: Mapping[str, str] | bytes = {"TAGS": "paid", "UNIQ_KEY": "ID"},
    *,
    topic: str = "orders",
    queue_id: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    born_host: bytes = CLIENT,
    store_host: bytes = HOST,
    stored_at_ms: int | None = None,
) -> bytes:
    """One record; by default every one is stored a millisecond after the one before it."""
    raw = properties if isinstance(properties, bytes) else build_properties(properties)
    at_ms = STORED_AT_MS + offset if stored_at_ms is None else stored_at_ms
    outgoing = OutgoingMessage(topic, queue_id, flag, sys_flag, at_ms - 5, born_host, store_host, 2, 0, body, raw)
    return build_record(outgoing, offset, 1_000 * offset, at_ms)


def compressed(offset: int, body: bytes) -> bytes:
    """A record whose body travels as a zlib stream."""
    return record(offset, zlib.compress(body), sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB)


def damaged(offset: int, body: bytes = b"body") -> bytes:
    """A record whose body is not what its checksum says."""
    raw = bytearray(record(offset, body))
    raw[raw.index(body)] ^= 0xFF
    return bytes(raw)
