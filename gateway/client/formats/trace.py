"""Message traces: the body and the keys of a trace message (upstream ``TraceDataEncoder``).

Records end with 0x02, their fields are separated by 0x01. The keys of a trace message are the ids and keys of the
messages it tells of: that is how tools find it (``mqadmin queryMsgTraceById``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from gateway.client.message import Message, ReceivedMessage

MAX_RECORDS: Final = 20
"""Contexts in one trace message (upstream ``AsyncTraceDispatcher``)."""
MAX_DATA_BYTES: Final = 128_000
"""Bytes of one trace message."""
MAX_WAITING: Final = 2048
"""Records that wait to be sent; more are dropped (upstream ``queueSize``)."""
FLUSH_INTERVAL: Final = 5.0
"""Seconds a record waits at most."""
DEFAULT_REGION: Final = "DefaultRegion"


class TraceMessageType(IntEnum):
    """What kind of message a record tells of (upstream ``MessageType``; the numbers travel)."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3


class TraceRecord(NamedTuple):
    """One record: its fields in their order, and by what it is found."""

    fields: Sequence[object]
    keys: Sequence[str]

    def text(self) -> str:
        """As it is sent, its end included; what would break the form is left out."""
        return "\x01".join(_field(value) for value in self.fields) + "\x02"


def _field(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\x01", "").replace("\x02", "")


class Published(NamedTuple):
    """A message of a producer: which it is, and where it is stored."""

    message: Message | ReceivedMessage
    msg_id: str
    group: str
    region: str
    store_host: str

    def fields(self, at_ms: int) -> tuple[object, ...]:
        """Return what records of sends and of outcomes have in common."""
        message = self.message
        keys = " ".join(message.keys)
        return at_ms, self.region, self.group, message.topic, self.msg_id, message.tags, keys, self.store_host

    def keys(self) -> tuple[str, ...]:
        """Return by what the record is found."""
        return self.msg_id, *self.message.keys


class Consumed(NamedTuple):
    """A message that a consumer was given."""

    group: str
    request_id: str
    msg_id: str
    keys: Sequence[str]


def published(
    what: Published, *, at_ms: int, cost_ms: int, kind: TraceMessageType, offset_msg_id: str, success: bool
) -> TraceRecord:
    """A message was sent, or could not be."""
    fields = (
        "Pub",
        *what.fields(at_ms),
        len(what.message.body),
        cost_ms,
        int(kind),
        offset_msg_id,
        success,
    )
    return TraceRecord(fields, what.keys())


def consumption_begins(what: Consumed, *, at_ms: int, region: str, retry_times: int) -> TraceRecord:
    """A message is handed to a listener."""
    group, request_id, msg_id, keys = what
    fields = ("SubBefore", at_ms, region, group, request_id, msg_id, retry_times, " ".join(keys))
    return TraceRecord(fields, (msg_id, *keys))


def consumption_ended(what: Consumed, *, at_ms: int, cost_ms: int, success: bool, context_code: int) -> TraceRecord:
    """A listener is done with a message.

    :param context_code: 0 success, 1 time-out, 2 exception, 3 no result, 4 failed.
    """
    group, request_id, msg_id, keys = what
    fields = ("SubAfter", request_id, msg_id, cost_ms, success, " ".join(keys), context_code, at_ms, group)
    return TraceRecord(fields, (msg_id, *keys))


def transaction_ended(what: Published, *, at_ms: int, transaction_id: str, state: str, from_check: bool) -> TraceRecord:
    """The outcome of a transaction was sent.

    :param state: Java's name of it, such as ``COMMIT_MESSAGE``.
    """
    kind = int(TraceMessageType.TRANSACTION_COMMIT)
    fields = (
        "EndTransaction",
        *what.fields(at_ms),
        kind,
        transaction_id,
        state,
        from_check,
    )
    return TraceRecord(fields, what.keys())


def recalled(*, at_ms: int, region: str, group: str, topic: str, msg_id: str, success: bool) -> TraceRecord:
    """A timer message was taken back, or could not be."""
    return TraceRecord(("Recall", at_ms, region, group, topic, msg_id, success), (msg_id,))


def trace_messages(topic: str, records: Iterable[TraceRecord]) -> list[Message]:
    """Trace messages that hold all records, as few as the limits allow."""
    messages: list[Message] = []
    texts: list[str] = []
    keys: dict[str, None] = {}
    size = 0
    for record in records:
        text = record.text()
        text_bytes = len(text.encode())
        if texts and (len(texts) == MAX_RECORDS or size + text_bytes > MAX_DATA_BYTES):
            messages.append(_message(topic, texts, keys))
            texts, keys, size = [], {}, 0
        texts.append(text)
        keys.update(dict.fromkeys(key for key in record.keys if key))
        size += text_bytes
    if texts:
        messages.append(_message(topic, texts, keys))
    return messages


def _message(topic: str, texts: Sequence[str], keys: Iterable[str]) -> Message:
    return Message(topic, "".join(texts).encode(), keys=tuple(keys))
