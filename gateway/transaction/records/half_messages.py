"""The forms of a transactional message: half, final, discarded, resumed, and the body of a check.

Pure, after upstream's ``TransactionalMessageBridge`` and ``EndTransactionProcessor``. A half message is an ordinary
record of the half topic, so that the message gets a queue offset. Two properties name its real place.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC, MAX_GROUP_CHARACTERS
from gateway.schedule.redirect import MAX_QUEUE_ID_DIGITS, TIMER_PROPERTIES
from wire.message.flags import SysFlag, with_transaction_kind
from wire.message.properties import (
    MAX_PROPERTIES_BYTES,
    PropertyName,
    append_text,
    build_properties,
)
from wire.message.record import OutgoingMessage, StoredMessage, build_record, restated

HALF_QUEUE_ID: Final = 0
DISCARD_REASON: Final = "TRANSACTION_DISCARD_REASON"
"""The name of our property on a message in TRANS_CHECK_MAX_TIME_TOPIC: why the message was given up."""

_USUAL_QUEUE_IDS: Final = {str(queue_id): queue_id for queue_id in range(64)}
"""Queue ids by their text, for the number of queues that most topics do not exceed."""
_DELAYS: Final = frozenset({PropertyName.DELAY, *TIMER_PROPERTIES})
_REWRITTEN: Final = frozenset({PropertyName.TRANSACTION_CHECK_TIMES, PropertyName.TRAN_PREPARED_QUEUE_OFFSET})
_BROKERS_OWN: Final = frozenset(
    {
        PropertyName.REAL_TOPIC,
        PropertyName.REAL_QID,
        PropertyName.TRANSACTION_ID,
        PropertyName.TRANSACTION_CHECK_TIMES,
        PropertyName.TRAN_PREPARED_QUEUE_OFFSET,
        DISCARD_REASON,
    }
)
"""The properties that only a broker sets.

A client that forwards a received message sends them too, and they mean nothing there.
"""


def refuse_reason(properties: Mapping[str, str]) -> str | None:
    """Return, as a sentence, why a half message with these properties is refused; None if it is taken.

    Upstream takes a delayed half message and loses it: the send and the commit are answered with success, and the
    schedule service throws the message away.
    """
    delay = properties.get(PropertyName.DELAY, "")
    if delay.isdecimal() and delay.strip("0"):
        return f"a transactional message cannot be delayed: property {PropertyName.DELAY}={delay}"
    for name in TIMER_PROPERTIES:
        if name in properties:
            return f"a transactional message cannot be delayed: property {name}={properties[name]}"
    group = properties.get(PropertyName.PGROUP, "")
    if not group:
        return f"a transactional message needs its producer group: property {PropertyName.PGROUP} is missing"
    if len(group) > MAX_GROUP_CHARACTERS:
        return (
            f"a producer group has {MAX_GROUP_CHARACTERS} characters at most: "
            f"property {PropertyName.PGROUP} has {len(group)}"
        )
    if not group.isprintable():
        return f"a producer group has printable characters only: property {PropertyName.PGROUP}={group!r}"
    return None


def half_of(message: OutgoingMessage) -> OutgoingMessage:
    """Turn ``message`` into the half message that waits for the outcome, and return the same object.

    The object is reused because every transaction makes a half message, and the send path no longer needs the original.
    """
    raw = message.properties
    properties = message.property_map
    if not _BROKERS_OWN.isdisjoint(properties):
        for name in _BROKERS_OWN:
            properties.pop(name, None)
        raw = build_properties(properties)
    topic = properties[PropertyName.REAL_TOPIC] = message.topic
    queue_id = properties[PropertyName.REAL_QID] = str(message.queue_id)
    added = f"{PropertyName.REAL_TOPIC}\x01{topic}\x02{PropertyName.REAL_QID}\x01{queue_id}\x02"
    unique_key = properties.get(PropertyName.UNIQ_KEY)
    if unique_key:
        properties[PropertyName.TRANSACTION_ID] = unique_key
        added += f"{PropertyName.TRANSACTION_ID}\x01{unique_key}\x02"
    message.topic = HALF_TOPIC
    message.queue_id = HALF_QUEUE_ID
    message.sys_flag = with_transaction_kind(message.sys_flag, SysFlag.TRANSACTION_NONE)
    message.prepared_transaction_offset = 0
    message.properties = append_text(raw, added)
    return message


def real_place(properties: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the topic and queue id that a half message is meant for; None if its properties do not name them."""
    topic = properties.get(PropertyName.REAL_TOPIC)
    text = properties.get(PropertyName.REAL_QID, "")
    queue_id = _USUAL_QUEUE_IDS.get(text)
    if queue_id is None and text.isdecimal() and len(text) <= MAX_QUEUE_ID_DIGITS:
        queue_id = int(text)
    return None if not topic or queue_id is None else (topic, queue_id)


def is_rewritten(properties: Mapping[str, str]) -> bool:
    """Return whether a half message is a later copy: Apache RocketMQ wrote it again for a check, or it was resumed."""
    return not _REWRITTEN.isdisjoint(properties)


def final_of(half: StoredMessage) -> OutgoingMessage | None:
    """Return the message that consumers get after a commit; None if the half message has no real place.

    The final message keeps the property string of the half message, including REAL_TOPIC, as upstream does. Only a
    delay is removed, which a half message from an Apache RocketMQ directory may have.
    """
    properties = half.property_map
    place = real_place(properties)
    if place is None:
        return None
    raw = half.properties
    if not _DELAYS.isdisjoint(properties):
        properties = {name: value for name, value in properties.items() if name not in _DELAYS}
        raw = build_properties(properties)
    final = restated(half, place[0], place[1], raw, properties)
    final.sys_flag = with_transaction_kind(half.sys_flag, SysFlag.TRANSACTION_COMMIT)
    final.prepared_transaction_offset = half.commit_log_offset
    return final


def discarded_of(half: StoredMessage, checks: int, reason: str) -> OutgoingMessage:
    """Return the copy of a given-up half message for TRANS_CHECK_MAX_TIME_TOPIC.

    The number of checks and the reason are added if there is room. If the properties are full, the half message is
    still given up, but without them.
    """
    properties = {
        **half.property_map,
        PropertyName.TRANSACTION_CHECK_TIMES: str(checks),
        DISCARD_REASON: reason,
    }
    raw = build_properties(properties)
    if len(raw) > MAX_PROPERTIES_BYTES:
        raw, properties = half.properties, half.property_map
    return _moved(half, CHECK_MAX_TOPIC, raw, properties)


def resumed_of(discarded: StoredMessage) -> OutgoingMessage:
    """Return a new half message, made from a given-up one, whose checks start again."""
    properties = dict(discarded.property_map)
    properties.pop(DISCARD_REASON, None)
    properties[PropertyName.TRANSACTION_CHECK_TIMES] = "0"
    raw = build_properties(properties)
    if len(raw) > MAX_PROPERTIES_BYTES:
        del properties[PropertyName.TRANSACTION_CHECK_TIMES]
        raw = build_properties(properties)
    return _moved(discarded, HALF_TOPIC, raw, properties)


def check_body(half: StoredMessage) -> bytes | None:
    """Return the body of CHECK_TRANSACTION_STATE: the half message as one record that names its real place.

    None if the half message has no real place.
    """
    place = real_place(half.property_map)
    if place is None:
        return None
    message = _moved(half, place[0], half.properties, half.property_map)
    message.queue_id = place[1]
    return build_record(message, half.queue_offset, half.commit_log_offset, half.stored_at_ms)


def _moved(source: StoredMessage, topic: str, raw: bytes, properties: dict[str, str]) -> OutgoingMessage:
    moved = restated(source, topic, HALF_QUEUE_ID, raw, properties)
    moved.sys_flag = with_transaction_kind(source.sys_flag, SysFlag.TRANSACTION_NONE)
    moved.prepared_transaction_offset = 0
    return moved
