"""The messages of a batch send on their way to the log: a row of records of one queue, packed in one step.

The messages share everything but flag, body and properties. Mostly their properties differ only in the unique key: one
property string is parsed, and the others are compared with its form. Each message keeps its own property string.
Neither the properties of the batch nor those that a broker gives to a single message are added. The records equal, byte
for byte, those that ``build_record`` makes of each message. Upstream: ``MessageExtEncoder.encode`` for batches.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i32, i64

from wire.checksum import crc32
from wire.errors import LocalError
from wire.layout_writers import write_record_head
from wire.message.batch import split_batch
from wire.message.flags import SysFlag
from wire.message.properties import PropertyName, parse_properties
from wire.message.record import OutgoingMessage, address_flags, restated, topic_field, write_tail
from wire.message.record_layout import HEADS
from wire.message.tags import tags_code

_PAIR_END: Final = 2
_UNIQUE_KEY: Final = PropertyName.UNIQ_KEY
_KEYS: Final = PropertyName.KEYS
_TAGS: Final = PropertyName.TAGS
_LIGHT_QUEUES: Final = PropertyName.INNER_MULTI_DISPATCH
_KEY_MARK: Final = f"{_UNIQUE_KEY}\x01".encode()


class PropertyForm:
    """The form of a property string, taken from a sample. A plain class for speed: every message of a batch uses one.

    ``keys``, ``tag`` and its ``code`` are equal in all messages of the form. ``names_light_queues`` is True if the
    messages name light queues.

    :param raw: the property string of the sample.
    :param own: the decoded properties of the sample.
    """

    def __init__(self, raw: bytes, own: Mapping[str, str]) -> None:
        self.keys: str | None = own.get(_KEYS)
        self.tag: str | None = own.get(_TAGS)
        self.code = tags_code(self.tag)
        self.names_light_queues = _LIGHT_QUEUES in own
        key = own.get(_UNIQUE_KEY)
        self._key = key or ""
        self._length = len(raw)
        start = -1 if key is None else _key_start(raw, key)
        self._start = start
        self._end = end = start + len(self._key)
        # Without a key that can be cut out, only the very same string is of the form.
        self._head = raw if start < 0 else raw[:start]
        self._tail = b"" if start < 0 else raw[end:]

    def key_in(self, raw: bytes) -> str | None:
        """Return the unique key in a property string, "" if there is no key; None if the string has another form."""
        if len(raw) != self._length or not raw.startswith(self._head):
            return None
        if self._start < 0:
            return self._key
        key = raw[self._start : self._end]
        # Letters and digits: nothing that would end the value, or the name of another.
        return key.decode() if key.isalnum() and raw.endswith(self._tail) else None


def _key_start(raw: bytes, key: str) -> int:
    """Return the start of the unique key's value, which alone may differ; −1 if the string is not plain enough."""
    at = raw.find(_KEY_MARK)
    if at < 0 or (at > 0 and raw[at - 1] != _PAIR_END) or raw.count(_KEY_MARK) != 1:
        return -1
    if not key.isascii() or not key.isalnum():
        return -1
    start = at + len(_KEY_MARK)
    end = start + len(key)
    if raw[start:end] != key.encode() or (end < len(raw) and raw[end] != _PAIR_END):
        return -1
    return start


_NO_ADDRESS_FLAGS: Final = ~SysFlag.HOSTS_MASK
_TOPIC_TAIL_BYTES: Final = 2
"""The bytes of the properties' length, which follows the topic."""


class MessageRun:
    """The messages of a batch, taken apart. A plain class for speed, because thousands are made a second.

    ``sizes`` has the sizes of the records in bytes, ``size`` is their sum, and ``largest`` is the largest of them.
    ``unique_keys`` and ``forms`` have one element for each message. ``names_light_queues`` is True if a message names
    light queues.

    :param batch: topic, queue, flags, hosts and times of all messages, with the row of messages as its body.
    :param check: raises an error for properties that the topic does not take; called once for messages that differ only
        in their unique keys.
    :raises BodyError: the body is not a row of messages.
    :raises LocalError: the topic is over 255 bytes, or a host is neither 8 nor 20 bytes long.
    """

    def __init__(self, batch: OutgoingMessage, check: Callable[[Mapping[str, str]], None] | None = None) -> None:
        self.batch = batch
        self._parts = parts = split_batch(batch.body)
        self.count = len(parts)
        self._checksums: list[int] = []
        self.unique_keys: list[str] = []
        self.forms: list[PropertyForm] = []
        self.sizes: list[int] = []
        self.names_light_queues = False
        fixed_bytes = HEADS[address_flags(batch)].size + len(topic_field(batch.topic)[1]) + _TOPIC_TAIL_BYTES
        form: PropertyForm | None = None
        total = largest = 0
        for _, body, raw in parts:
            key = None if form is None else form.key_in(raw)
            if form is None or key is None:
                own = parse_properties(raw)
                if check is not None:
                    check(own)
                form = PropertyForm(raw, own)
                key = form.key_in(raw)
                assert key is not None, "it was taken from this string"
                if form.names_light_queues:
                    self.names_light_queues = True
            size = fixed_bytes + len(body) + len(raw)
            total += size
            largest = max(largest, size)
            self.sizes.append(size)
            self._checksums.append(crc32(body) & 0x7FFFFFFF)
            self.unique_keys.append(key)
            self.forms.append(form)
        self.size = total
        self.largest = largest

    def build(self, queue_offset: int, commit_log_offset: int, stored_at_ms: int) -> bytes:
        """Return the records; the first record is at these offsets, and the others follow.

        :raises LocalError: a number is out of its field's range.
        """
        out = BytesWriter()
        try:
            self._write(out, queue_offset, commit_log_offset, stored_at_ms)
        except ValueError as error:
            raise LocalError(f"{self!r} does not fit records: {error}") from error
        return out.getvalue()

    def _write(self, out: BytesWriter, first_queue_offset: i64, first_log_offset: i64, stored_at_ms: i64) -> None:
        """Write the records.

        :raises ValueError: a number is out of its field's range.
        """
        batch = self.batch
        flags = address_flags(batch)
        magic, topic = topic_field(batch.topic)
        born_host, store_host = batch.born_host, batch.store_host
        # As numbers once and not for each message.
        row_magic: i32 = magic
        queue_id: i32 = batch.queue_id
        sys_flag: i32 = batch.sys_flag & _NO_ADDRESS_FLAGS | flags
        born_at_ms: i64 = batch.born_at_ms
        reconsume_times: i32 = batch.reconsume_times
        prepared_transaction_offset: i64 = batch.prepared_transaction_offset
        queue_offset, commit_log_offset = first_queue_offset, first_log_offset
        sizes, checksums = self.sizes, self._checksums
        for number, (flag, body, raw) in enumerate(self._parts):  # by number: compiled, zip() makes a tuple each
            size = sizes[number]
            write_record_head(
                out,
                size,
                row_magic,
                checksums[number],
                queue_id,
                flag,
                queue_offset,
                commit_log_offset,
                sys_flag,
                born_at_ms,
                born_host,
                stored_at_ms,
                store_host,
                reconsume_times,
                prepared_transaction_offset,
                len(body),
            )
            out.write(body)
            write_tail(out, topic, raw)
            queue_offset += 1
            commit_log_offset += size

    def message(self, number: int) -> OutgoingMessage:
        """Return one of the messages in the form of a single send."""
        batch = self.batch
        flag, body, raw = self._parts[number]
        message = restated(batch, batch.topic, batch.queue_id, raw)
        message.flag, message.body = flag, body
        return message

    def messages(self) -> list[OutgoingMessage]:
        """Return all messages, each in the form of a single send."""
        return [self.message(number) for number in range(self.count)]

    def __repr__(self) -> str:
        return f"<MessageRun {self.batch.topic}/{self.batch.queue_id} {self.count} messages, {self.size} bytes>"
