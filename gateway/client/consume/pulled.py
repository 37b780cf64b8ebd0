"""The messages of a pull answer, not parsed: each knows the place of its record and parses the record on demand.

Parsing a whole record takes several microseconds. Finding the end and the offset takes a small part of that time. A
listener that reads only bodies pays only for bodies. Tags are read only if a subscription asks for tags.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from gateway.client.compression import Allowance, Hold, RoomUsedUp, decompress
from gateway.client.errors import MessageRefused
from gateway.client.message import ReceivedMessage
from gateway.client.message_queue import MessageQueue
from wire.errors import BodyError, RecordError
from wire.message.batch import INNER_BATCH, MAX_INNER_MESSAGES, is_inner_batch, parse_batch
from wire.message.flags import SysFlag
from wire.message.record import HEADS, MAGIC_V1, MAGIC_V2, StoredMessage, parse_record
from wire.message.record_layout import HEAD_BY_BYTE

_log = logging.getLogger(__name__)

# These stand at the same place in all four heads: nothing of variable length comes before them.
_glance: Final = HEADS[0].picker(("total_size", "magic", "queue_offset", "sys_flag")).unpack_from
_BODY: Final = tuple((head.picker(("body_bytes",)).unpack_from, head.size) for head in HEAD_BY_BYTE)
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_COMPRESSED_OR_BATCH: Final = SysFlag.COMPRESSED | SysFlag.INNER_BATCH


class PulledMessage(ReceivedMessage):
    """A message whose record is parsed when it is first needed.

    The message keeps the whole pull answer in memory. To keep few of many messages for long, keep their bodies and drop
    the messages.
    """

    __slots__ = ("_at", "_buffer", "_flags", "_parsed", "attempts", "queue_offset")

    def __init__(
        self, buffer: bytes, at: int, flags: int, queue_offset: int, queue: MessageQueue, namespace: str
    ) -> None:
        # Not the parent's, which wants a record: one of these is made for every message.
        self._buffer = buffer
        self._at = at
        self._flags = flags
        self._queue = queue
        self._namespace = namespace
        self._body = None
        self._parsed: StoredMessage | None = None
        self.queue_offset: int = queue_offset
        self.attempts = 0
        """The number of failures on this client since the pull, because an orderly consumer sends no message back."""

    @property
    def record(self) -> StoredMessage:  # type: ignore[override]
        """The record as it is stored.

        :raises RecordError: the parts of the record do not fit together.
        """
        record = self._parsed
        if record is None:
            record = self._parsed = parse_record(self._buffer, self._at)
        return record

    def become(self, record: StoredMessage, hold: Hold) -> None:
        """Turn into one of the messages of an inner batch."""
        self._parsed = record
        self._hold = hold

    @property
    def body(self) -> bytes:
        """The body that was sent, decompressed."""
        body = self._body
        if body is None:
            flags = self._flags
            if flags & _COMPRESSED_OR_BATCH or self._parsed is not None:
                return super().body
            read_length, head_bytes = _BODY[flags & 0xFF]
            at = self._at
            start = at + head_bytes
            (length,) = read_length(self._buffer, at)
            body = self._buffer[start : start + length]
            if length < 0 or len(body) != length:
                return super().body  # says what is wrong
            self._body = body
        return body

    @property
    def reconsume_times(self) -> int:
        """The number of times this message was given to the group before."""
        return self.record.reconsume_times + self.attempts


RECORDS_FOR_ONE: Final = 2
"""The records of an answer that are taken for each message that was asked for; brokers answer one at most."""


class TakenMessages(NamedTuple):
    """The part of a pull answer that was taken."""

    messages: list[ReceivedMessage]
    sizes: list[int]
    """The bytes of the record of each message."""
    left_at: int | None = None
    """The offset of the first message that was not taken, and has to be asked for again; None if all were."""


def pulled_messages(
    body: bytes, queue: MessageQueue, namespace: str = "", *, asked: int, first_offset: int = 0
) -> TakenMessages:
    """Return the messages of a pull answer; inner batches are split.

    A broker that counts messages answers no more than one inner batch beyond ``asked``. What is more is left: a few KB
    of compressed batches may hold a million messages. What finds no room for its decompressed batch is left, too.

    :param asked: the number of messages in the request.
    :param first_offset: the offset of the request; of an inner batch that starts earlier, only later messages are
        returned.
    :raises RecordError: a record is cut off, or the bytes are not a record.
    :raises RoomUsedUp: there is no room for the first batch.
    """
    messages: list[ReceivedMessage] = []
    sizes: list[int] = []
    allowance = Allowance()
    at = 0
    length = len(body)
    records_left, most = asked * RECORDS_FOR_ONE, asked + MAX_INNER_MESSAGES
    inner: list[ReceivedMessage] | None
    while at < length:
        if length - at < HEADS[0].size:
            raise RecordError(f"cut off: {length - at} bytes at {at} are no record")
        size, magic, queue_offset, flags = _glance(body, at)
        if magic not in _MAGICS or size < HEADS[0].size or size > length - at:
            parse_record(body, at)
            raise RecordError(f"the record at {at} has magic {magic:#x} and {size} bytes of {length - at}")
        if not records_left:
            return TakenMessages(messages, sizes, max(queue_offset, first_offset))
        records_left -= 1
        if flags & SysFlag.INNER_BATCH and is_inner_batch(flags):
            try:
                inner = _unwrapped(body, at, first_offset, queue, namespace, allowance)
            except RoomUsedUp:
                if not messages:
                    raise
                inner = None
            if inner is None or (messages and len(messages) + len(inner) > most):
                return TakenMessages(messages, sizes, max(queue_offset, first_offset))
            messages += inner
            sizes += [size // max(1, len(inner))] * len(inner)
        else:
            messages.append(PulledMessage(body, at, flags, queue_offset, queue, namespace))
            sizes.append(size)
        at += size
    return TakenMessages(messages, sizes)


def _unwrapped(
    buffer: bytes, at: int, first_offset: int, queue: MessageQueue, namespace: str, allowance: Allowance
) -> list[ReceivedMessage]:
    """Return the messages of an inner batch from an offset on, or the record itself if it cannot be split.

    :raises RoomUsedUp: it can be split later.
    """
    record = parse_record(buffer, at)
    hold = Hold(allowance=allowance)
    try:
        inner = inner_messages(record, hold)
    except RoomUsedUp:
        raise
    except (BodyError, MessageRefused) as error:
        _log.warning("offset %d of %s is a batch that cannot be read: %s", record.queue_offset, queue, error)
        inner = [record]
    messages: list[ReceivedMessage] = []
    for each in inner:
        if each.queue_offset >= first_offset:
            message = PulledMessage(buffer, at, each.sys_flag, each.queue_offset, queue, namespace)
            message.become(each, hold)
            messages.append(message)
    return messages


_OF_THE_BATCH: Final = INNER_BATCH | SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK


def inner_messages(record: StoredMessage, hold: Hold | None = None) -> list[StoredMessage]:
    """Return the messages of an inner batch, each as a record.

    :param hold: must be kept as long as one of the messages.
    :raises BodyError: the body is not a batch; ``MessageRefused``: the body is compressed and cannot be read.
    """
    body = record.body
    if record.sys_flag & SysFlag.COMPRESSED:
        body = decompress(body, record.sys_flag, hold)
    return [
        StoredMessage(
            (
                record.total_size,
                record.magic,
                0,
                record.queue_id,
                part.flag,
                record.queue_offset + number,
                record.commit_log_offset,
                record.sys_flag & ~_OF_THE_BATCH,
                record.born_at_ms,
                record.born_host,
                record.stored_at_ms,
                record.store_host,
                record.reconsume_times,
                record.prepared_transaction_offset,
                len(part.body),
            ),
            part.body,
            record.topic,
            part.properties,
        )
        for number, part in enumerate(parse_batch(body))
    ]
