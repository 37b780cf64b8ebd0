"""A stored message as a line of JSON."""

from __future__ import annotations

import base64
from typing import Any

from gateway.readable import moment_text
from wire.errors import RemoteError
from wire.message.flags import SysFlag, transaction_kind
from wire.message.message_id import unpack_host
from wire.message.record import StoredMessage
from wire.safe_text import safe_json

_KINDS = {
    SysFlag.TRANSACTION_NONE: None,
    SysFlag.TRANSACTION_PREPARED: "prepared",
    SysFlag.TRANSACTION_COMMIT: "commit",
    SysFlag.TRANSACTION_ROLLBACK: "rollback",
}


def record_values(message: StoredMessage) -> dict[str, Any]:
    """Return the members of the JSON object. ``body`` is text if it is UTF-8, otherwise there is ``body_base64``."""
    values: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "commit_log_offset": message.commit_log_offset,
        "size": message.total_size,
        "stored_at": moment_text(message.stored_at_ms),
        "stored_at_ms": message.stored_at_ms,
        "born_at": moment_text(message.born_at_ms),
        "born_at_ms": message.born_at_ms,
        "born_host": _host(message.born_host),
        "store_host": _host(message.store_host),
        "message_id": message.unique_key,
        "offset_message_id": message.offset_message_id,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "properties": message.property_map,
    }
    kind = _KINDS[transaction_kind(message.sys_flag)]
    if kind is not None:
        values["transaction"] = kind
        values["prepared_transaction_offset"] = message.prepared_transaction_offset
    if message.sys_flag & SysFlag.COMPRESSED:
        values["compressed"] = True
    try:
        values["body"] = message.body.decode()
    except UnicodeDecodeError:
        values["body_base64"] = base64.b64encode(message.body).decode()
    return values


def record_line(message: StoredMessage) -> str:
    """Return one line of JSON, without the line break."""
    return safe_json(record_values(message))


def _host(packed: bytes) -> str:
    try:
        address, port = unpack_host(packed)
    except RemoteError:
        return packed.hex()
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
