"""The stored message: a record of the commit log, and the wire form of pull, pop and query results.

``record_layout.py`` declares the layout. The two types of a message, the quick writer and the quick reader are here.
The writer appends to earlier records by functions that are generated from the declaration. Writing follows upstream's
``MessageExtEncoder``, and reading its ``MessageDecoder``. Unlike upstream, reading refuses records whose parts do not
match their size (``record_check.py``). Names of the layout and of the check can be imported from here as well.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import struct
from typing import Final

from librt.strings import BytesWriter, write_i16_be
from mypy_extensions import mypyc_attr

from wire.checksum import crc32
from wire.errors import LocalError, RecordError
from wire.fixed_layout import Readable
from wire.layout_writers import write_record_head
from wire.message.flags import SysFlag
from wire.message.message_id import HOST_V4_BYTES, HOST_V6_BYTES, build_offset_message_id
from wire.message.properties import MAX_PROPERTIES_BYTES, PropertyName, parse_properties
from wire.message.record_check import BLANK as BLANK
from wire.message.record_check import check_record as check_record
from wire.message.record_check import checksum_text, damage_error
from wire.message.record_layout import END_OF_FILE_BYTES as END_OF_FILE_BYTES
from wire.message.record_layout import (
    FILLER_HEAD,
    FLAGS_AT,
    HEAD_BY_BYTE,
)
from wire.message.record_layout import HEADS as HEADS
from wire.message.record_layout import MAGIC_BLANK as MAGIC_BLANK
from wire.message.record_layout import MAGIC_V1 as MAGIC_V1
from wire.message.record_layout import MAGIC_V2 as MAGIC_V2
from wire.message.record_layout import MAX_TOPIC_BYTES as MAX_TOPIC_BYTES
from wire.message.record_layout import MAX_TOPIC_V1_BYTES as MAX_TOPIC_V1_BYTES
from wire.message.record_layout import MIN_RECORD_BYTES as MIN_RECORD_BYTES
from wire.message.record_layout import head_layout as head_layout

_UNPACK_BY_BYTE: Final = tuple((head.unpack_from, head.size) for head in HEAD_BY_BYTE)
_HOSTLESS_BYTES: Final = HEADS[0].size - 2 * HOST_V4_BYTES
"""The bytes of a head without its hosts."""
_HOST_BYTES: Final = (HOST_V4_BYTES, HOST_V6_BYTES)
_NO_HOST_FLAGS: Final = ~SysFlag.HOSTS_MASK

LARGE_BODY_BYTES: Final = 8 * 1024
"""The size from which a body is not copied without need, because a copy takes longer than another buffer."""
MAX_CACHED_TOPICS = 4096
"""The most topics whose encoded field is remembered; the cache is emptied when it is full."""
_topic_fields: Final[dict[str, tuple[int, bytes]]] = {}


NO_PROPERTIES: Final[dict[str, str]] = {}
"""The empty properties of a message that gets its own properties later.

The map is never changed: sharing one map takes no time.
"""


@mypyc_attr(acyclic=True)
class OutgoingMessage:
    """A message to store.

    The address bits of ``sys_flag`` need not be set, because a record takes them from the length of its hosts.

    :param born_host: the client's packed address, 8 or 20 bytes; ``store_host`` is the broker's in the same form.
    :param properties: the property string as the record stores it, at most 32767 bytes.
    :param property_map: the decoded properties; parsed from ``properties`` if left out.
    """

    # A plain class for speed: one is made for every message sent, and a frozen dataclass takes twice as long to make.
    __slots__ = (
        "body",
        "born_at_ms",
        "born_host",
        "flag",
        "prepared_transaction_offset",
        "properties",
        "property_map",
        "queue_id",
        "reconsume_times",
        "store_host",
        "sys_flag",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_at_ms: int,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int,
        prepared_transaction_offset: int,
        body: bytes,
        properties: bytes = b"",
        property_map: dict[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.flag = flag
        self.sys_flag = sys_flag
        self.born_at_ms = born_at_ms
        self.born_host = born_host
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        self.body = body
        self.properties = properties
        self.property_map = parse_properties(properties) if property_map is None else property_map

    def __repr__(self) -> str:
        return f"<OutgoingMessage {self.topic}/{self.queue_id} body {len(self.body)} bytes>"


@mypyc_attr(acyclic=True)
class StoredMessage:
    """A message read back from a record: the sent message, and the place and time of its storage."""

    # A plain class, as OutgoingMessage is.
    __slots__ = (
        "_property_map",
        "body",
        "body_bytes",
        "body_crc",
        "born_at_ms",
        "born_host",
        "commit_log_offset",
        "flag",
        "magic",
        "prepared_transaction_offset",
        "properties",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "store_host",
        "stored_at_ms",
        "sys_flag",
        "topic",
        "total_size",
    )

    def __init__(
        self,
        head: tuple[int, int, int, int, int, int, int, int, int, bytes, int, bytes, int, int, int],
        body: bytes,
        topic: str,
        properties: bytes,
        property_map: dict[str, str] | None = None,
    ) -> None:
        (
            self.total_size,
            self.magic,
            self.body_crc,
            self.queue_id,
            self.flag,
            self.queue_offset,
            self.commit_log_offset,
            self.sys_flag,
            self.born_at_ms,
            self.born_host,
            self.stored_at_ms,
            self.store_host,
            self.reconsume_times,
            self.prepared_transaction_offset,
            self.body_bytes,
        ) = head
        self.body = body
        self.topic = topic
        self.properties = properties
        self._property_map = property_map

    @property
    def property_map(self) -> dict[str, str]:
        """The decoded properties; parsed at first use."""
        properties = self._property_map
        if properties is None:
            properties = self._property_map = parse_properties(self.properties)
        return properties

    @property
    def has_body(self) -> bool:
        """True if the body was read too; readers of the two ends of a record leave out the body."""
        return len(self.body) == self.body_bytes

    @property
    def offset_message_id(self) -> str:
        """The id made from the broker's address and the commit log offset."""
        return build_offset_message_id(self.store_host, self.commit_log_offset)

    @property
    def unique_key(self) -> str | None:
        """The id from the producing client; None if the client gave no id."""
        return self.property_map.get(PropertyName.UNIQ_KEY)

    def __repr__(self) -> str:
        return (
            f"<StoredMessage {self.topic}/{self.queue_id} at {self.queue_offset}, "
            f"commit log {self.commit_log_offset}, {self.total_size} bytes>"
        )


MOST_TIMES = 2**31 - 1
"""The largest count of redeliveries that a record can hold; the count stays at this number."""


def once_more(reconsume_times: int) -> int:
    """Return the count of redeliveries after one more redelivery."""
    return min(reconsume_times, MOST_TIMES - 1) + 1


def restated(
    source: OutgoingMessage | StoredMessage,
    topic: str,
    queue_id: int,
    properties: bytes,
    property_map: dict[str, str] | None = None,
) -> OutgoingMessage:
    """Return a new message for another place, with other properties; body, flags, hosts and counts are kept.

    The caller sets further differences on the result.
    """
    return OutgoingMessage(
        topic,
        queue_id,
        source.flag,
        source.sys_flag,
        source.born_at_ms,
        source.born_host,
        source.store_host,
        source.reconsume_times,
        source.prepared_transaction_offset,
        source.body,
        properties,
        property_map,
    )


def topic_field(topic: str) -> tuple[int, bytes]:
    """Return the magic of records with this topic, and the topic field: the length and then the topic.

    :raises LocalError: the topic takes over 255 bytes.
    """
    return _topic_fields.get(topic) or _topic_field(topic)


def _topic_field(topic: str) -> tuple[int, bytes]:
    """Make the magic and the field of a topic, and remember them."""
    raw = topic.encode("utf-8", "replace")
    if len(raw) > MAX_TOPIC_BYTES:
        raise LocalError(f"topic takes {len(raw)} bytes, the limit is {MAX_TOPIC_BYTES}")
    if len(raw) <= MAX_TOPIC_V1_BYTES:
        field = MAGIC_V1, bytes((len(raw),)) + raw
    else:
        field = MAGIC_V2, len(raw).to_bytes(2, "big") + raw
    if len(_topic_fields) >= MAX_CACHED_TOPICS:
        _topic_fields.clear()
    _topic_fields[topic] = field
    return field


def address_flags(message: OutgoingMessage) -> int:
    """Return the address bits of a message's record, which select the record's head (``HEADS``).

    :raises LocalError: a host is neither 8 nor 20 bytes long.
    """
    born_bytes, store_bytes = len(message.born_host), len(message.store_host)
    flags = 0
    if born_bytes != HOST_V4_BYTES:
        flags = SysFlag.BORN_HOST_V6
    if store_bytes != HOST_V4_BYTES:
        flags |= SysFlag.STORE_HOST_V6
    if flags and not (born_bytes in _HOST_BYTES and store_bytes in _HOST_BYTES):
        raise LocalError(f"hosts take {born_bytes} and {store_bytes} bytes, not 8 or 20 each")
    return flags


def record_size(message: OutgoingMessage) -> int:
    """Return how many bytes a message's record will take.

    :raises LocalError: the topic is over 255 bytes, or a host is neither 8 nor 20 bytes long.
    """
    head = HEADS[address_flags(message)]
    _, topic = topic_field(message.topic)
    return head.size + len(message.body) + len(topic) + 2 + len(message.properties)


def write_record(
    out: BytesWriter, message: OutgoingMessage, queue_offset: int, commit_log_offset: int, stored_at_ms: int
) -> int:
    """Write the record of a message at its place, with body checksum and sizes; return how many bytes it takes.

    Nothing is written if an error is raised.

    :raises LocalError: the topic is over 255 bytes, the properties are over 32767 bytes, a host is neither 8 nor 20
        bytes long, or a number is out of its field's range.
    """
    field = _topic_fields.get(message.topic) or _topic_field(message.topic)
    start = len(out)
    try:
        size = _write_head(out, message, field, queue_offset, commit_log_offset, stored_at_ms)
        out.write(message.body)
        write_tail(out, field[1], message.properties)
    except BaseException:
        out.truncate(start)  # others follow, and each lies where the one before ends
        raise
    return size


def record_parts(
    message: OutgoingMessage, queue_offset: int, commit_log_offset: int, stored_at_ms: int
) -> tuple[bytes, bytes, bytes]:
    """Return the record as head, body and rest, for a body that is too large to copy.

    :raises LocalError: as ``write_record``.
    """
    field = topic_field(message.topic)
    head, tail = BytesWriter(), BytesWriter()
    _write_head(head, message, field, queue_offset, commit_log_offset, stored_at_ms)
    write_tail(tail, field[1], message.properties)
    return head.getvalue(), message.body, tail.getvalue()


def build_record(message: OutgoingMessage, queue_offset: int, commit_log_offset: int, stored_at_ms: int) -> bytes:
    """Return the record of a message by itself.

    :raises LocalError: as ``write_record``.
    """
    if len(message.body) >= LARGE_BODY_BYTES:
        return b"".join(record_parts(message, queue_offset, commit_log_offset, stored_at_ms))
    out = BytesWriter()
    write_record(out, message, queue_offset, commit_log_offset, stored_at_ms)
    return out.getvalue()


def _write_head(
    out: BytesWriter,
    message: OutgoingMessage,
    topic: tuple[int, bytes],
    queue_offset: int,
    commit_log_offset: int,
    stored_at_ms: int,
) -> int:
    """Write everything before the body; return the size of the whole record in bytes.

    :param topic: the result of ``topic_field``.
    """
    magic, topic_bytes = topic[0], len(topic[1])
    flags = address_flags(message)
    body = message.body
    born_host, store_host = message.born_host, message.store_host
    body_bytes, properties_bytes = len(body), len(message.properties)
    if properties_bytes > MAX_PROPERTIES_BYTES:
        raise LocalError(f"properties take {properties_bytes} bytes, the limit is {MAX_PROPERTIES_BYTES}")
    size = _HOSTLESS_BYTES + len(born_host) + len(store_host) + body_bytes + topic_bytes + 2 + properties_bytes
    try:
        write_record_head(
            out,
            size,
            magic,
            crc32(body) & 0x7FFFFFFF,
            message.queue_id,
            message.flag,
            queue_offset,
            commit_log_offset,
            message.sys_flag & _NO_HOST_FLAGS | flags,
            message.born_at_ms,
            born_host,
            stored_at_ms,
            store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            body_bytes,
        )
    except ValueError as error:
        raise LocalError(f"{message!r} does not fit a record: {error}") from error
    return size


def write_tail(out: BytesWriter, topic: bytes, properties: bytes) -> None:
    """Write everything after the body.

    :param topic: the bytes of ``topic_field``.
    :raises ValueError: the properties are over 32767 bytes.
    """
    out.write(topic)
    write_i16_be(out, len(properties))
    out.write(properties)


def build_blank(remaining: int) -> bytes:
    """Return the first 8 bytes of the filler that ends a commit log file with ``remaining`` bytes left."""
    if remaining < END_OF_FILE_BYTES:
        raise LocalError(f"a filler takes {END_OF_FILE_BYTES} bytes, {remaining} are left")
    return FILLER_HEAD.pack(remaining, MAGIC_BLANK)


_LOG_PLACE = struct.Struct(">qq")  # queue_offset and commit_log_offset are neighbours in every head
_STORED_AT = HEADS[0].packer("stored_at_ms")


def reposition(record: Readable, *, queue_offset: int, commit_log_offset: int, stored_at_ms: int) -> bytearray:
    """Return a copy of a record for another place; nothing else changes.

    :raises RecordError: the record is shorter than the smallest record.
    :raises LocalError: a number is out of range.
    """
    moved = bytearray(record)
    if len(moved) < MIN_RECORD_BYTES:
        raise RecordError(f"cut off: {len(moved)} bytes, a record takes at least {MIN_RECORD_BYTES}")
    head = HEAD_BY_BYTE[moved[FLAGS_AT]]
    try:
        _LOG_PLACE.pack_into(moved, head.offset("queue_offset"), queue_offset, commit_log_offset)
        _STORED_AT.pack_into(moved, head.offset("stored_at_ms"), stored_at_ms)
    except struct.error as error:
        raise LocalError(f"a record cannot be placed at {queue_offset}, {commit_log_offset}: {error}") from error
    return moved


def parse_record(
    buffer: Readable, offset: int = 0, *, check_crc: bool = False, with_body: bool = True
) -> StoredMessage:
    """Return the message whose record starts at ``offset``; anything may follow the record.

    :param check_crc: True also compares the body with its checksum.
    :param with_body: False leaves the body empty, for readers of head and properties.
    :raises RecordError: the record is cut off, has an unknown magic or a wrong checksum, its parts do not match its
        size, or its topic is not UTF-8.
    """
    try:
        unpack, head_bytes = _UNPACK_BY_BYTE[buffer[offset + FLAGS_AT]]
        head = unpack(buffer, offset)
        end = offset + head[0]
        body_at = offset + head_bytes
        topic_at = body_at + head[14]
        if topic_at < body_at or end > len(buffer):
            raise damage_error(buffer, offset)
        magic = head[1]
        if magic == MAGIC_V1:
            topic_bytes = buffer[topic_at]
            topic_at += 1
            if topic_bytes > MAX_TOPIC_V1_BYTES:
                raise damage_error(buffer, offset)
        elif magic == MAGIC_V2:
            topic_bytes = buffer[topic_at] << 8 | buffer[topic_at + 1]
            topic_at += 2
        else:
            raise damage_error(buffer, offset)
        topic_end = topic_at + topic_bytes
        properties_bytes = buffer[topic_end] << 8 | buffer[topic_end + 1]
        properties_at = topic_end + 2
        if properties_at + properties_bytes != end or properties_bytes > MAX_PROPERTIES_BYTES:
            raise damage_error(buffer, offset)
        topic = str(buffer[topic_at:topic_end], "utf-8")
    except (IndexError, struct.error) as error:
        raise damage_error(buffer, offset) from error
    except UnicodeDecodeError as error:
        raise RecordError("the topic is not UTF-8") from error
    body = bytes(buffer[body_at : body_at + head[14]]) if with_body or check_crc else b""
    if check_crc and crc32(body) & 0x7FFFFFFF != head[2]:
        raise RecordError(checksum_text(head[2], crc32(body) & 0x7FFFFFFF))
    return StoredMessage(head, body if with_body else b"", topic, bytes(buffer[properties_at:end]))


def tail_start(start: Readable) -> int:
    """Return the position in a record at which the topic starts, after the body.

    :raises RecordError: the start is shorter than a head, or gives the body a negative length.
    """
    try:
        layout = HEAD_BY_BYTE[start[FLAGS_AT]]
        body_bytes: int = layout.unpack_from(start, 0)[14]
    except (IndexError, struct.error) as error:
        raise damage_error(start, 0) from error
    if body_bytes < 0:
        raise damage_error(start, 0)
    return layout.size + body_bytes


def parse_record_ends(start: Readable, tail: Readable) -> StoredMessage:
    """Return the message of a record whose body was not read, with an empty body.

    :param start: the first bytes of the record, at least its head.
    :param tail: everything after the body.
    :raises RecordError: as ``parse_record``.
    """
    tail_at = tail_start(start)
    layout = HEAD_BY_BYTE[start[FLAGS_AT]]
    total_size, *fields, _ = layout.unpack_from(start, 0)
    if total_size != tail_at + len(tail):
        raise damage_error(start, 0)
    bodiless = layout.pack(layout.size + len(tail), *fields, 0)
    message = parse_record(bodiless + bytes(tail))
    message.total_size = total_size
    message.body_bytes = tail_at - layout.size
    return message


def parse_records(buffer: Readable) -> list[StoredMessage]:
    """Return every message of a row of records that fills the buffer, as in a pull answer.

    :raises RecordError: a record is damaged, or bytes are left over.
    """
    messages: list[StoredMessage] = []
    offset = 0
    while offset < len(buffer):
        message = parse_record(buffer, offset)
        messages.append(message)
        offset += message.total_size
    return messages
