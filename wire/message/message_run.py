"""The messages of a batch send as they go to the log: a row of records of one queue, packed in one step.

They share all but flag, body and properties, and of their properties mostly all but the unique key
(``property_form``). Each keeps the property string it came with: neither those of the batch nor those that a broker
gives to a single message are added. Their records are byte for byte those that ``build_record`` makes of each.
Upstream: ``MessageExtEncoder.encode`` for batches.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Final

from wire.errors import LocalError
from wire.message.batch import split_batch
from wire.message.flags import SysFlag
from wire.message.properties import parse_properties
from wire.message.property_form import PropertyForm
from wire.message.record import OutgoingMessage, address_flags, topic_field
from wire.message.record_layout import HEADS

# A head in three: what is of the message, what all messages of the row share, and the length of the body.
_OWN_PARTS: Final = {flags: head.part("total_size", "commit_log_offset") for flags, head in HEADS.items()}
_SHARED_PARTS: Final = {flags: head.part("sys_flag", "prepared_transaction_offset") for flags, head in HEADS.items()}
_NO_ADDRESS_FLAGS: Final = ~SysFlag.HOSTS_MASK
_BODY_BYTES: Final = HEADS[0].packer("body_bytes")
_PROPERTIES_BYTES: Final = struct.Struct(">h")
_TOPIC_TAIL_BYTES: Final = _PROPERTIES_BYTES.size


class MessageRun:
    """A batch taken apart. A plain class: thousands are made a second.

    ``sizes`` are those of the records, ``size`` is that of all of them and ``largest`` that of the largest.
    ``unique_keys`` and ``forms`` are one a message. ``names_light_queues``: some message is to be put into light
    queues.

    :param batch: topic, queue, flags, hosts and times of all messages, and as body the row of messages.
    :param check: raises for the properties of a message that its topic does not take; asked once for messages that
        differ in their unique keys only.
    :raises BodyError: the body is no row of messages.
    :raises LocalError: topic over 255 bytes, or a host that is neither 8 nor 20 bytes.
    """

    __slots__ = (
        "_checksums",
        "_parts",
        "batch",
        "count",
        "forms",
        "largest",
        "names_light_queues",
        "size",
        "sizes",
        "unique_keys",
    )

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
        checksum = zlib.crc32
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
            self._checksums.append(checksum(body) & 0x7FFFFFFF)
            self.unique_keys.append(key)
            self.forms.append(form)
        self.size = total
        self.largest = largest

    def build(self, queue_offset: int, commit_log_offset: int, stored_at_ms: int) -> bytes:
        """The records, the first one at these offsets, the others behind it.

        :raises LocalError: a number is out of its field's range.
        """
        batch = self.batch
        flags = address_flags(batch)
        magic, topic = topic_field(batch.topic)
        queue_id = batch.queue_id
        sizes, checksums = self.sizes, self._checksums
        pack = _OWN_PARTS[flags].pack
        pieces: list[bytes] = []
        tail = shared_head = b""
        last_body_bytes = last_properties_bytes = -1
        try:
            shared = _SHARED_PARTS[flags].pack(
                batch.sys_flag & _NO_ADDRESS_FLAGS | flags,
                batch.born_at_ms,
                batch.born_host,
                stored_at_ms,
                batch.store_host,
                batch.reconsume_times,
                batch.prepared_transaction_offset,
            )
            for number, (flag, body, raw) in enumerate(self._parts):  # by number: compiled, zip() makes a tuple each
                size = sizes[number]
                body_bytes = len(body)
                if body_bytes != last_body_bytes:
                    shared_head = shared + _BODY_BYTES.pack(body_bytes)
                    last_body_bytes = body_bytes
                properties_bytes = len(raw)
                if properties_bytes != last_properties_bytes:
                    tail = topic + _PROPERTIES_BYTES.pack(properties_bytes)
                    last_properties_bytes = properties_bytes
                head = pack(size, magic, checksums[number], queue_id, flag, queue_offset, commit_log_offset)
                pieces.append(head)
                pieces.append(shared_head)
                pieces.append(body)
                pieces.append(tail)
                pieces.append(raw)
                queue_offset += 1
                commit_log_offset += size
        except struct.error as error:
            raise LocalError(f"{self!r} does not fit records: {error}") from error
        return b"".join(pieces)

    def message(self, number: int) -> OutgoingMessage:
        """One of the messages, as it would be sent alone."""
        batch = self.batch
        flag, body, raw = self._parts[number]
        return OutgoingMessage(
            batch.topic,
            batch.queue_id,
            flag,
            batch.sys_flag,
            batch.born_at_ms,
            batch.born_host,
            batch.store_host,
            batch.reconsume_times,
            batch.prepared_transaction_offset,
            body,
            raw,
        )

    def messages(self) -> list[OutgoingMessage]:
        """All of them."""
        return [self.message(number) for number in range(self.count)]

    def __repr__(self) -> str:
        return f"<MessageRun {self.batch.topic}/{self.batch.queue_id} {self.count} messages, {self.size} bytes>"
