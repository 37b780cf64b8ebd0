"""A message for an arbitrary time: when it is due, how it waits, which message it becomes. Pure.

After upstream's ``HookUtils`` and ``TimerMessageStore.convert``: such a message waits in rmq_sys_wheel_timer, with its
real place and the slot of its time in properties. A slot is named after its start. Every message of a slot is due in
the unit of time that follows the start, including its end. Upstream delivers a whole slot at that end; the gateway
delivers each message at its own millisecond.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gateway.errors import RequestRefused
from gateway.metadata.names import NOT_ALLOWED_SEND_TOPICS, WHEEL_TIMER_TOPIC, topic_name_fault
from gateway.schedule.redirect import MAX_QUEUE_ID_DIGITS, TIMER_PROPERTIES
from gateway.settings.timer import TimerSettings
from wire.codes import ResponseCode
from wire.message.light_queues import room_for_offsets
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, build_properties
from wire.message.recall_handle import RecallHandle
from wire.message.record import OutgoingMessage, StoredMessage, restated

TIMER_QUEUE_ID = 0
TOPIC_DELETED = "TIMER_TOPIC_DELETED"
"""The property of a message that was stored again, to wait further, after its topic was deleted."""
DELETED_PLACE = -1
"""The place in the log, before all deletions, that stands for the place of such a message."""
_LONG = re.compile(r"[+-]?[0-9]{1,19}")
_MAX_LONG = (1 << 63) - 1


def wants_timer(message: OutgoingMessage) -> bool:
    """Return whether a message asks for a time and has to wait.

    A message that has already waited, and was sent on with its properties, does not wait again. The caller checks the
    delay level, which has priority.
    """
    properties = message.property_map
    return (
        not properties.keys().isdisjoint(TIMER_PROPERTIES)
        and PropertyName.TIMER_OUT_MS not in properties
        and message.topic != WHEEL_TIMER_TOPIC
    )


def deliver_at_ms(properties: Mapping[str, str], asked_at_ms: int) -> int:
    """Return when a message asks to be delivered, in milliseconds.

    :raises ValueError: the property that counts is not a number of Java's type long.
    """
    delay_s = properties.get(PropertyName.TIMER_DELAY_SEC)
    if delay_s is not None:
        return asked_at_ms + _long(delay_s) * 1_000
    delay_ms = properties.get(PropertyName.TIMER_DELAY_MS)
    if delay_ms is not None:
        return asked_at_ms + _long(delay_ms)
    return _long(properties.get(PropertyName.TIMER_DELIVER_MS, ""))


def slot_ms(due_ms: int, precision_ms: int) -> int:
    """Return the start of the slot of a time, TIMER_OUT_MS.

    A time exactly between two slots belongs to the earlier one.
    """
    return (due_ms - 1) // precision_ms * precision_ms


def placed_timed(
    message: OutgoingMessage,
    now_ms: int,
    settings: TimerSettings,
    *,
    waiting_in: Callable[[int], int],
    random_below: Callable[[int], int],
) -> OutgoingMessage:
    """Return a message that asks for a time as it waits; return the message itself if that time has come.

    :param waiting_in: returns how many messages wait in the slot that starts at a time.
    :raises RequestRefused: the time is too far away or not a number, timers are off, or too many messages wait in the
        slot.
    """
    if not settings.timer_wheel_enable:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, "timer messages are not enabled (timerWheelEnable=false); use a delay level"
        )
    properties = message.property_map
    try:
        due_ms = deliver_at_ms(properties, now_ms)
    except ValueError as error:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal: {error}") from error
    if due_ms <= now_ms:
        if PropertyName.TIMER_DEL_UNIQKEY in properties:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, "timer message illegal: the time of the message to take back is over"
            )
        return message
    longest_ms = settings.timer_max_delay_sec * 1_000
    if due_ms - now_ms > longest_ms:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"timer message illegal: a delay of {due_ms - now_ms} ms is over the limit of {longest_ms} ms "
            "(timerMaxDelaySec)",
        )
    out_ms = slot_ms(due_ms, settings.timer_precision_ms)
    if is_congested(waiting_in(out_ms), settings.timer_congest_num_each_slot, random_below):
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"timer message is under flow control: more than {settings.timer_congest_num_each_slot} messages are due "
            "in its second (timerCongestNumEachSlot)",
        )
    changed = {
        **properties,
        PropertyName.TIMER_OUT_MS: str(out_ms),
        PropertyName.REAL_TOPIC: message.topic,
        PropertyName.REAL_QID: str(message.queue_id),
    }
    return restated(message, WHEEL_TIMER_TOPIC, TIMER_QUEUE_ID, build_properties(changed), changed)


def is_congested(waiting: int, limit: int, random_below: Callable[[int], int]) -> bool:
    """Return whether a slot takes no more messages.

    The answer is never True up to the limit, always True from twice the limit on, and increasingly likely between.
    """
    if waiting <= limit:
        return False
    return waiting >= 2 * limit or random_below(limit) < waiting - limit


def recall_handle(waiting: OutgoingMessage, broker_name: str) -> str | None:
    """Return the handle that takes a waiting message back; None for any other message."""
    properties = waiting.property_map
    out_ms = properties.get(PropertyName.TIMER_OUT_MS, "")
    if waiting.topic != WHEEL_TIMER_TOPIC or not out_ms.isdecimal() or PropertyName.REAL_TOPIC not in properties:
        return None
    # One millisecond into the slot: a time that is exactly between two belongs to the one before.
    key = properties.get(PropertyName.UNIQ_KEY, "")
    return RecallHandle(properties[PropertyName.REAL_TOPIC], broker_name, str(int(out_ms) + 1), key).build()


def slot_asked(properties: Mapping[str, str]) -> int | None:
    """Return the start of the slot for which a message of the timer topic waits; None if it is not stated."""
    out_ms = properties.get(PropertyName.TIMER_OUT_MS, "")
    return int(out_ms) if out_ms.isdecimal() and out_ms.isascii() and len(out_ms) < 16 else None


def due_ms(properties: Mapping[str, str], out_ms: int, stored_at_ms: int, precision_ms: int) -> int:
    """Return the exact due time of a waiting message; the end of its slot if its properties do not say so."""
    try:
        due = deliver_at_ms(properties, stored_at_ms)
    except ValueError:
        return out_ms + precision_ms
    return due if out_ms < due <= out_ms + precision_ms else out_ms + precision_ms


def delivered(waiting: StoredMessage, now_ms: int) -> OutgoingMessage | None:
    """Return the message that consumers get for a waiting message; None if its real place is missing or not allowed.

    ``prepared_transaction_offset`` keeps the end of the waiting record, so that a start after a crash can see which
    messages are delivered. The start of the record would not do: it may be 0, which means "none".
    """
    properties = waiting.property_map
    topic, queue_id = properties.get(PropertyName.REAL_TOPIC), properties.get(PropertyName.REAL_QID, "")
    if not topic or topic in NOT_ALLOWED_SEND_TOPICS or topic_name_fault(topic) is not None:
        return None
    if not queue_id.isdecimal() or len(queue_id) > MAX_QUEUE_ID_DIGITS:
        return None
    return _again(waiting, topic, int(queue_id), _unmarked(properties), _times(waiting, now_ms))


def first_place(waiting: StoredMessage) -> int:
    """Return the commit log offset by which to judge whether the topic of a message was deleted after the send."""
    return DELETED_PLACE if TOPIC_DELETED in waiting.property_map else waiting.commit_log_offset


def rolled(waiting: StoredMessage, now_ms: int, *, is_deleted: bool = False) -> OutgoingMessage:
    """Return the same message, to wait further: its slot is too far away for one turn of the wheel.

    :param is_deleted: whether its topic was deleted and not made again. The copy says so: it lies after the deletion.
    """
    times = waiting.property_map.get(PropertyName.TIMER_ROLL_TIMES, "0")
    rolls = int(times) + 1 if times.isdecimal() and len(times) <= MAX_QUEUE_ID_DIGITS else 1
    added = {PropertyName.TIMER_ROLL_TIMES: str(rolls), **_times(waiting, now_ms)}
    if is_deleted:
        added[TOPIC_DELETED] = "true"
    return _again(waiting, waiting.topic, waiting.queue_id, _unmarked(waiting.property_map), added)


def delete_keys(properties: Mapping[str, str], *, topic_in_key: bool) -> tuple[str, ...]:
    """Return the keys with which a marker may take this waiting message back.

    Markers of Apache RocketMQ 5.3 name topic and key. Markers of 5.5 name the key alone, or topic and key if
    ``topic_in_key``.
    """
    key = properties.get(PropertyName.UNIQ_KEY)
    if not key:
        return ()
    both = f"{properties.get(PropertyName.REAL_TOPIC)}+{key}"
    return (both,) if topic_in_key else (key, both)


def _unmarked(properties: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in properties.items() if name != TOPIC_DELETED}


def _times(waiting: StoredMessage, now_ms: int) -> dict[str, str]:
    return {PropertyName.TIMER_ENQUEUE_MS: str(waiting.stored_at_ms), PropertyName.TIMER_DEQUEUE_MS: str(now_ms)}


def _again(
    waiting: StoredMessage, topic: str, queue_id: int, kept: Mapping[str, str], added: Mapping[str, str]
) -> OutgoingMessage:
    properties = {**kept, **added}
    raw = build_properties(properties)
    if len(raw) > MAX_PROPERTIES_BYTES - room_for_offsets(kept):  # rather without what says when than not at all
        properties = dict(kept)
        raw = build_properties(properties)
    again = restated(waiting, topic, queue_id, raw, properties)
    again.prepared_transaction_offset = waiting.commit_log_offset + waiting.total_size
    return again


def _long(text: str) -> int:
    if _LONG.fullmatch(text) is None or not -_MAX_LONG - 1 <= (number := int(text)) <= _MAX_LONG:
        raise ValueError(f"{text[:32]!r} is not a number of milliseconds or seconds")
    return number
