"""Messages as applications see them: a message to send, a received message, and the queue of a message.

``Message`` checks its parts when it is made, by the rules of the Java client and of the property list. So an illegal
message cannot exist. ``ReceivedMessage`` reads a part from the stored record at the first use of the part: a consumer
that needs only the body pays for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from gateway.client.compression import Hold, decompress
from gateway.client.errors import MessageRefused, MessageTooLarge
from gateway.client.message_queue import MessageQueue as MessageQueue
from gateway.client.names import check_topic, without_namespace
from wire.message.flags import SysFlag
from wire.message.message_id import unpack_host
from wire.message.properties import KEYS_SEPARATOR, PropertyName
from wire.message.record import StoredMessage
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

MAX_DELAY_LEVEL: Final = 64
"""The highest delay level of a message. Brokers lower a level to their own highest (18 by default).

Messages with a higher level are refused, since such a level is a mistake.
"""
MAX_CHECKED_TOPICS: Final = 4096

_OWN_NAMES: Final = frozenset(("CHECK_IMMUNITY_TIME_IN_SECONDS", "__SHARDINGKEY", "TRACE_CONTEXT"))
# Upstream's reserved set (``MessageConst.STRING_HASH_SET``): every name with a meaning but a few for applications.
RESERVED_PROPERTIES: Final = (
    frozenset(value for key, value in vars(PropertyName).items() if key.isupper())
    - _OWN_NAMES
    - {"TRANSACTION_CHECK_TIMES", "PROPERTY_FORWARD_QUEUE_ID", "REDIRECT", "INNER_MULTI_DISPATCH", "__LITE_TOPIC"}
)
"""The property names that an application may not set."""

_checked_topics: set[str] = set()


class _TopicAndBody(msgspec.Struct, frozen=True, gc=False):
    topic: str
    body: bytes


# A msgspec struct and not a dataclass: one is made for every message, and a frozen dataclass takes four times as long.
class Message(_TopicAndBody, frozen=True, kw_only=True, gc=False):
    """A message to send.

    :param topic: 1 to 127 characters of letters, digits, ``%|_-``.
    :param body: at least one byte; ``str`` is refused: encode the text. The upper limit is the producer's setting
        ``max_message_size``, 4 MiB as a default.
    :param tags: one tag, by which consumers filter.
    :param keys: texts by which tools find the message; no white space inside a key.
    :param properties: further pairs of text for the consumer; reserved names are refused.
    :param delay_level: 1 … 18 for the broker's delay levels (1 s 5 s 10 s 30 s 1 m … 2 h), 0 for no delay.
    :param deliver_at: the time of delivery, an aware ``datetime`` or seconds since the epoch (timer message, 5.x).
    :param delay: the time until delivery, seconds or a ``timedelta`` (timer message, 5.x).
    :param sharding_key: messages with equal keys go to the same queue.
    :param flag: 32 bits for the application's use.
    :param wait_store_msg_ok: False lets a broker with SYNC_FLUSH answer before the message is on disk.
    :raises MessageRefused: a parameter breaks one of these rules.
    """

    tags: str = ""
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = {}
    delay_level: int = 0
    deliver_at: datetime | float | None = None
    delay: timedelta | float | None = None
    sharding_key: str = ""
    flag: int = 0
    wait_store_msg_ok: bool = True

    def __post_init__(self) -> None:
        if self.topic not in _checked_topics:
            _check_topic(self.topic)
        body = self.body
        if type(body) is not bytes:
            _refuse_body(body)
        if not body:
            raise MessageRefused("body", "is empty: the protocol has no empty messages, send at least one byte")
        if self.keys or self.properties or self.tags or self.sharding_key:
            _normalise(self)
        if self.delay_level or self.deliver_at is not None or self.delay is not None:
            _check_delay(self)
        if self.flag:
            _check_number("flag", self.flag, -(2**31), 2**31 - 1)

    @property
    def is_delayed(self) -> bool:
        """True if the message has a delay or a time of delivery."""
        return bool(self.delay_level) or self.deliver_at is not None or self.delay is not None


def message_properties(message: Message) -> dict[str, str]:
    """Return the properties of a message as the Java client writes them.

    The properties that a producer adds at sending are not included.
    """
    properties = dict(message.properties)
    if message.keys:
        properties[PropertyName.KEYS] = KEYS_SEPARATOR.join(message.keys)
    if message.tags:
        properties[PropertyName.TAGS] = message.tags
    if message.sharding_key:
        properties[PropertyName.SHARDING_KEY] = message.sharding_key
    if message.delay_level:
        properties[PropertyName.DELAY] = str(message.delay_level)
    if message.deliver_at is not None:
        properties[PropertyName.TIMER_DELIVER_MS] = str(_epoch_ms(message.deliver_at))
    if message.delay is not None:
        properties[PropertyName.TIMER_DELAY_MS] = str(round(_seconds(message.delay) * 1000))
    properties[PropertyName.WAIT] = "true" if message.wait_store_msg_ok else "false"
    return properties


class ReceivedMessage:
    """A message as a consumer gets it. Each part is read when the application asks for the part.

    A plain class for speed, since one object is made for each received message.
    """

    __slots__ = ("_body", "_hold", "_namespace", "_queue", "record")

    def __init__(self, record: StoredMessage, broker_name: str, *, namespace: str = "") -> None:
        self.record = record
        """The record as it is stored."""
        self._queue: MessageQueue | str = broker_name
        self._namespace = namespace
        self._body: bytes | None = None

    @property
    def topic(self) -> str:
        """The topic of the message; for a redelivered message the original topic, not the retry topic."""
        record = self.record
        topic = record.topic
        if topic.startswith(RETRY_TOPIC_PREFIX):
            topic = record.property_map.get(PropertyName.RETRY_TOPIC, topic)
        return without_namespace(self._namespace, topic) if self._namespace else topic

    @property
    def body(self) -> bytes:
        """The sent body, decompressed.

        :raises MessageRefused: a package for this kind of compression is missing, the data is damaged, or decompressed
            bodies take too much memory.
        """
        body = self._body
        if body is None:
            record = self.record
            body = record.body
            if record.sys_flag & SysFlag.COMPRESSED:
                hold = Hold()
                body = decompress(body, record.sys_flag, hold)
                self._hold = hold  # lives as long as the body; a slot without a value until then
            self._body = body
        return body

    @property
    def queue(self) -> MessageQueue:
        """The queue from which the message was read: a queue of the retry topic for a redelivered message."""
        queue = self._queue
        if isinstance(queue, str):
            queue = self._queue = MessageQueue(self.record.topic, queue, self.record.queue_id)
        return queue

    @property
    def queue_offset(self) -> int:
        """The offset of the message in its queue."""
        return self.record.queue_offset

    @property
    def tags(self) -> str:
        """The tag of the message, empty without a tag."""
        return self.record.property_map.get(PropertyName.TAGS, "")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the message."""
        return tuple(self.record.property_map.get(PropertyName.KEYS, "").split())

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, including the properties of the protocol."""
        return self.record.property_map

    @property
    def sharding_key(self) -> str:
        """The key by which the producer chose the queue, empty without a key."""
        return self.record.property_map.get(PropertyName.SHARDING_KEY, "")

    @property
    def msg_id(self) -> str:
        """The id that the producer gave; the offset id if the producer gave no id."""
        return self.record.unique_key or self.record.offset_message_id

    @property
    def offset_msg_id(self) -> str:
        """The id that consists of the broker's address and the place in the broker's log."""
        return self.record.offset_message_id

    @property
    def reconsume_times(self) -> int:
        """The number of earlier deliveries to this group."""
        return self.record.reconsume_times

    @property
    def born_at_ms(self) -> int:
        """The time of sending by the producer's clock, in milliseconds since the epoch."""
        return self.record.born_at_ms

    @property
    def born_host(self) -> str:
        """The ``host:port`` of the producer."""
        return host_text(self.record.born_host)

    @property
    def stored_at_ms(self) -> int:
        """The time at which the broker stored the message, in milliseconds since the epoch."""
        return self.record.stored_at_ms

    @property
    def store_host(self) -> str:
        """The ``host:port`` of the broker that stored the message."""
        return host_text(self.record.store_host)

    @property
    def commit_log_offset(self) -> int:
        """The place of the message in the broker's log."""
        return self.record.commit_log_offset

    @property
    def transaction_id(self) -> str | None:
        """The transaction id of a message that was sent within a transaction; None for other messages."""
        record = self.record
        properties = record.property_map
        if PropertyName.TRANSACTION_ID in properties:
            return properties[PropertyName.TRANSACTION_ID]
        return record.unique_key if record.sys_flag & SysFlag.TRANSACTION_MASK else None

    @property
    def sys_flag(self) -> int:
        """The stored system flag."""
        return self.record.sys_flag

    @property
    def flag(self) -> int:
        """The 32 bits of the application."""
        return self.record.flag

    def __repr__(self) -> str:
        return f"<ReceivedMessage {self.msg_id} {self.queue} offset {self.queue_offset}>"


def _check_topic(topic: str) -> None:
    check_topic(topic)
    if len(_checked_topics) >= MAX_CHECKED_TOPICS:
        _checked_topics.clear()
    _checked_topics.add(topic)


def _refuse_body(body: object) -> None:
    hint = ": encode it, for example body.encode()" if isinstance(body, str) else ""
    raise MessageRefused("body", f"is {type(body).__name__}, not bytes{hint}")


def _normalise(message: Message) -> None:
    """Check the texts, and keep keys as a tuple and properties as a copy, so that later changes have no effect."""
    if message.keys:
        _check_kind("keys", message.keys, Iterable, "text or a sequence of texts")
        keys = (message.keys,) if isinstance(message.keys, str) else tuple(message.keys)
        for key in keys:
            _check_word("key", key)
        msgspec.structs.force_setattr(message, "keys", keys)
    if message.properties:
        _check_kind("properties", message.properties, Mapping, "a mapping of texts")
        properties = dict(message.properties)
        for name, value in properties.items():
            _check_property(name, value)
        msgspec.structs.force_setattr(message, "properties", properties)
    if message.tags:
        _check_text("tags", message.tags)
    if message.sharding_key:
        _check_text("sharding_key", message.sharding_key)


def _check_property(name: str, value: str) -> None:
    part = f"property {name!r}"
    _check_text(part, name)
    _check_text(part, value)
    if not name or not value:
        raise MessageRefused(part, "has an empty name or value: every reader would drop it")
    if name in RESERVED_PROPERTIES:
        raise MessageRefused(part, "is reserved by RocketMQ: choose another name, or the parameter made for it")


def _check_kind(part: str, value: object, kind: type | tuple[type, ...], wanted: str) -> None:
    if not isinstance(value, kind):
        raise MessageRefused(part, f"is {type(value).__name__}, not {wanted}")


def _check_word(part: str, text: str) -> None:
    _check_text(part, text)
    if not text or text.split() != [text]:
        raise MessageRefused(part, f"{text!r} is empty or has white space, which separates keys")


def _check_text(part: str, text: str) -> None:
    _check_kind(part, text, str, "str")
    if "\x01" in text or "\x02" in text:
        raise MessageRefused(part, f"{text[:40]!r} has the character 0x01 or 0x02, which separates properties")
    if not text.isprintable() and any("\ud800" <= char <= "\udfff" for char in text):
        raise MessageRefused(part, f"{text[:40]!r} has a lone surrogate, which UTF-8 cannot carry")


def _check_number(part: str, number: int, least: int, most: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise MessageRefused(part, f"is {number!r}: it takes a whole number from {least} to {most}")


def _check_delay(message: Message) -> None:
    _check_number("delay_level", message.delay_level, 0, MAX_DELAY_LEVEL)
    given = (message.delay_level or None, message.deliver_at, message.delay)
    if sum(value is not None for value in given) > 1:
        raise MessageRefused("delay", "is given twice: choose one of delay_level, deliver_at and delay")
    at = message.deliver_at
    if at is not None:
        _check_kind("deliver_at", at, (datetime, float, int), "an aware datetime or epoch seconds")
    if message.delay is not None:
        _check_kind("delay", message.delay, (timedelta, float, int), "a timedelta or seconds")
    if isinstance(at, datetime) and at.tzinfo is None:
        raise MessageRefused("deliver_at", "has no time zone: use datetime.now(timezone.utc) + …")
    if message.delay is not None and not _seconds(message.delay) >= 0:
        raise MessageRefused("delay", f"is {message.delay!r}: it takes seconds of 0 or more, or a timedelta")
    if at is not None and not _epoch_ms(at) > 0:
        raise MessageRefused("deliver_at", f"is {at!r}: it takes a time after 1970")


def _seconds(duration: timedelta | float) -> float:
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def _epoch_ms(moment: datetime | float) -> int:
    return round((moment.timestamp() if isinstance(moment, datetime) else moment) * 1000)


def check_is_message(message: object) -> None:
    """Refuse an object that is not a ``Message``.

    :raises MessageRefused: the object is, for example, a string or a received message.
    """
    if not isinstance(message, Message):
        raise MessageRefused("argument", f"is {type(message).__name__}, not Message: make one, as Message(topic, body)")


def check_size(message: Message, limit_bytes: int) -> None:
    """Refuse a body over the limit.

    :raises MessageTooLarge: the body is over the limit.
    """
    if len(message.body) > limit_bytes:
        raise MessageTooLarge(
            "body",
            len(message.body),
            limit_bytes,
            "raise max_message_size of the producer and maxMessageSize of the broker, or send a reference to the data",
        )


def host_text(host: bytes) -> str:
    """Return a packed address as ``host:port``; an IPv6 address is in brackets."""
    ip, port = unpack_host(host)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
