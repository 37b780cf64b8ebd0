"""Message traces: the body and the keys of a trace message (upstream ``TraceDataEncoder``).

Records end with 0x02, and 0x01 separates their fields. The keys of a trace message are the ids and keys of the traced
messages, so that tools find the trace (``mqadmin queryMsgTraceById``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from gateway.client.message import Message, ReceivedMessage

MAX_RECORDS: Final = 20
"""The most records in one trace message (upstream ``AsyncTraceDispatcher``)."""
MAX_DATA_BYTES: Final = 128_000
"""The most bytes of one trace message, unless a single record is longer."""
MAX_WAITING: Final = 2048
"""The most records that wait to be sent; further records are dropped (upstream ``queueSize``)."""
FLUSH_INTERVAL: Final = 5.0
"""The most seconds that a record waits."""
DEFAULT_REGION: Final = "DefaultRegion"


class TraceMessageType(IntEnum):
    """The kind of message that a record describes (upstream ``MessageType``; the numbers are sent)."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3


class TraceRecord(NamedTuple):
    """A record: its fields in order, and the keys by which tools find the record."""

    fields: Sequence[object]
    keys: Sequence[str]

    def text(self) -> str:
        """Return the record as it is sent, with its end mark; characters that would break the format are left out."""
        return "\x01".join(_field(value) for value in self.fields) + "\x02"


def _field(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\x01", "").replace("\x02", "")


class Published(NamedTuple):
    """A message of a producer: its identity, and the place where it is stored."""

    message: Message | ReceivedMessage
    msg_id: str
    group: str
    region: str
    store_host: str

    def fields(self, at_ms: int) -> tuple[object, ...]:
        """Return the fields that records of sends and of outcomes share."""
        message = self.message
        keys = " ".join(message.keys)
        return at_ms, self.region, self.group, message.topic, self.msg_id, message.tags, keys, self.store_host

    def keys(self) -> tuple[str, ...]:
        """Return the keys by which tools find the record."""
        return self.msg_id, *self.message.keys


class Consumed(NamedTuple):
    """A message that a consumer got."""

    group: str
    request_id: str
    msg_id: str
    keys: Sequence[str]


def published(
    what: Published, *, at_ms: int, cost_ms: int, kind: TraceMessageType, offset_msg_id: str, success: bool
) -> TraceRecord:
    """Return the record of a send that succeeded or failed."""
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
    """Return the record of a message that is handed to a listener."""
    group, request_id, msg_id, keys = what
    fields = ("SubBefore", at_ms, region, group, request_id, msg_id, retry_times, " ".join(keys))
    return TraceRecord(fields, (msg_id, *keys))


def consumption_ended(what: Consumed, *, at_ms: int, cost_ms: int, success: bool, context_code: int) -> TraceRecord:
    """Return the record of a message that a listener has finished.

    :param context_code: 0 success, 1 time-out, 2 exception, 3 no result, 4 failed.
    """
    group, request_id, msg_id, keys = what
    fields = ("SubAfter", request_id, msg_id, cost_ms, success, " ".join(keys), context_code, at_ms, group)
    return TraceRecord(fields, (msg_id, *keys))


def transaction_ended(what: Published, *, at_ms: int, transaction_id: str, state: str, from_check: bool) -> TraceRecord:
    """Return the record of a transaction's outcome that was sent.

    :param state: Java's name of the outcome, such as ``COMMIT_MESSAGE``.
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
    """Return the record of a timer message that was recalled, or could not be recalled."""
    return TraceRecord(("Recall", at_ms, region, group, topic, msg_id, success), (msg_id,))


def trace_messages(topic: str, records: Iterable[TraceRecord]) -> list[Message]:
    """Return trace messages that hold all records, in their order, each filled up to the limits."""
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
