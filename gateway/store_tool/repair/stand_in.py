"""Records that replace damaged ones, so that both brokers read over the damage.

The commit log is a chain of sizes: a damaged record cannot be left out, and a filler may only end a file. A consume
queue must stay dense. Apache's broker appends a unit where the last one ended, whatever offset a record names. For a
unit that leads nowhere, Apache's broker skips the rest of a log file.

A damaged message of a queue is thus replaced by a message with the same place and size, whose text says what happened.
Bytes of no queue, or of unknown content, are replaced by a record of the rolled back kind, which no queue and no index
shows. Consumers that subscribe to a tag never see a stand-in.
"""

from __future__ import annotations

from gateway.metadata.names import HALF_TOPIC, SCHEDULE_TOPIC
from gateway.store_tool.checks.queue_check import Place
from wire.message.flags import SysFlag
from wire.message.message_id import pack_host
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage, build_record, record_size

STAND_IN_TAG = "STORE_REPAIR_STAND_IN"
HIDDEN_TOPIC = "RMQ_SYS_STORE_REPAIR"
"""The topic of records that only fill space. No queue of this topic is ever made."""
MAX_HIDDEN_BYTES = 1 << 20
_HOST = pack_host("127.0.0.1", 0)
_TEXT = b"This message was damaged on disk; rocketmq-gateway store repair put this text in its place. "
_MAX_CHECKS = "2147483647"


def build_stand_in(place: Place, commit_log_offset: int, size: int, stored_at_ms: int) -> bytes:
    """Build a message of exactly ``size`` bytes for a queue.

    :param size: at least ``least_stand_in_bytes`` of the topic.
    """
    topic, queue_id, queue_offset = place
    for properties in _properties(topic, queue_id):
        message = _message(topic, queue_id, 0, properties, stored_at_ms)
        room = size - record_size(message)
        if room >= 0:
            message.body = _body(room)
            return build_record(message, queue_offset, commit_log_offset, stored_at_ms)
    raise AssertionError("the caller asked for the least size")


def least_stand_in_bytes(topic: str) -> int:
    """Return the smallest size of a topic's stand-in: that of a message without body and properties."""
    return record_size(_message(topic, 0, 0, b"", 0))


def good_stand_in_bytes(topic: str) -> int:
    """Return the size of a topic's stand-in with the tag and a sentence."""
    return record_size(_message(topic, 0, 0, _properties(topic, 0)[0], 0)) + len(_TEXT)


def build_hidden(commit_log_offset: int, size: int, stored_at_ms: int) -> bytes:
    """Build records that nothing shows, with ``size`` bytes in all; at least ``LEAST_HIDDEN_BYTES``."""
    parts = []
    while size:
        part = min(size, MAX_HIDDEN_BYTES)
        if 0 < size - part < LEAST_HIDDEN_BYTES:
            part -= LEAST_HIDDEN_BYTES
        message = _message(HIDDEN_TOPIC, 0, SysFlag.TRANSACTION_ROLLBACK, b"", stored_at_ms)
        message.body = bytes(part - record_size(message))
        parts.append(build_record(message, 0, commit_log_offset, stored_at_ms))
        commit_log_offset += part
        size -= part
    return b"".join(parts)


def _message(topic: str, queue_id: int, sys_flag: int, properties: bytes, stored_at_ms: int) -> OutgoingMessage:
    return OutgoingMessage(topic, queue_id, 0, sys_flag, stored_at_ms, _HOST, _HOST, 0, 0, b"", properties)


def _properties(topic: str, queue_id: int) -> list[bytes]:
    """Return properties from the best to none. The caller takes the first that fit."""
    needed: dict[str, str] = {}
    if topic == SCHEDULE_TOPIC:
        # Both brokers drop a delayed message whose real topic is this one, instead of trying it for ever.
        needed = {PropertyName.REAL_TOPIC: HALF_TOPIC, PropertyName.REAL_QID: "0"}
        needed[PropertyName.DELAY] = str(queue_id + 1)
    elif topic == HALF_TOPIC:
        needed = {PropertyName.TRANSACTION_CHECK_TIMES: _MAX_CHECKS}  # discarded at the first check
    tagged = {**needed, PropertyName.TAGS: STAND_IN_TAG}
    return [build_properties(tagged), build_properties(needed), b""]


def _body(size: int) -> bytes:
    return (_TEXT * (size // len(_TEXT) + 1))[:size] if size < len(_TEXT) else _TEXT.ljust(size)


LEAST_HIDDEN_BYTES = record_size(_message(HIDDEN_TOPIC, 0, SysFlag.TRANSACTION_ROLLBACK, b"", 0))
