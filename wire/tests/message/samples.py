"""A message and its record, laid out by hand from the field table."""

from __future__ import annotations

from typing import Any

from wire.message.message_id import pack_host
from wire.message.record import OutgoingMessage, build_record

CLIENT = pack_host("192.168.1.2", 50000)
BROKER = pack_host("127.0.0.1", 10911)
CLIENT_V6 = pack_host("2001:db8::1", 50000)


def message(**changes: Any) -> OutgoingMessage:
    fields: dict[str, Any] = {
        "topic": "TopicTest",
        "queue_id": 3,
        "flag": 7,
        "sys_flag": 0,
        "born_at_ms": 1_700_000_000_000,
        "born_host": CLIENT,
        "store_host": BROKER,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": b"Hello",
        "properties": b"TAGS\x01TagA\x02",
    }
    return OutgoingMessage(**{**fields, **changes})


# Laid out by hand from the field table: 88 bytes of head, 5 of body, 10 of topic, 2 + 10 of properties.
VECTOR = bytes.fromhex(
    "00000073 daa320a7 77d18982 00000003 00000007 0000000000000005 00000000000004d2 00000000"
    "0000018bcfe56800 c0a80102 0000c350 0000018bcfe56801 7f000001 00002a9f 00000000 0000000000000000 00000005"
    "48656c6c6f 09 546f70696354657374 000a 544147530154616741 02"
)


def record(**changes: Any) -> bytes:
    return build_record(message(**changes), 5, 1234, 1_700_000_000_001)


def patched(at: int, replacement: str, source: bytes = VECTOR) -> bytes:
    raw = bytes.fromhex(replacement)
    return source[:at] + raw + source[at + len(raw) :]
