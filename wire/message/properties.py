"""The property string of a message: ``name 0x01 value 0x02 name 0x01 value 0x02 …``.

The writer ends every pair with 0x02, as 5.x does. 4.9.8 leaves out the last 0x02, so only ``append_properties`` and
``append_text`` may append. The reader is as lenient as upstream's ``MessageDecoder``: anything but a pair with a name
and a value is silently dropped. For this reason an empty value does not survive.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

MAX_PROPERTIES_BYTES: Final = 32_767
"""The most bytes of properties. Never change this limit: the length is a signed 16-bit number in the record."""

_NAME_END: Final = "\x01"
_PAIR_END: Final = "\x02"
_PAIR_END_BYTE: Final = 2
_MIN_PAIR_CHARS: Final = 3  # a character of name, 0x01, a character of value


class PropertyName:
    """The names that have a meaning to clients or brokers (upstream ``MessageConst``)."""

    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    WAIT: Final = "WAIT"
    DELAY: Final = "DELAY"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QID: Final = "REAL_QID"
    TRAN_MSG: Final = "TRAN_MSG"
    PGROUP: Final = "PGROUP"
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    BUYER_ID: Final = "BUYER_ID"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    ORIGIN_GROUP: Final = "ORIGIN_GROUP"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    MSG_REGION: Final = "MSG_REGION"
    TRACE_ON: Final = "TRACE_ON"
    TRACE_CONTEXT: Final = "TRACE_CONTEXT"
    UNIQ_KEY: Final = "UNIQ_KEY"
    EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
    CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_ID: Final = "__transactionId__"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    TRANS_OFFSET: Final = "TRANS_OFFSET"
    INSTANCE_ID: Final = "INSTANCE_ID"
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
    CLUSTER: Final = "CLUSTER"
    MSG_TYPE: Final = "MSG_TYPE"
    POP_CK: Final = "POP_CK"
    POP_CK_OFFSET: Final = "POP_CK_OFFSET"
    FIRST_POP_TIME: Final = "1ST_POP_TIME"
    SHARDING_KEY: Final = "__SHARDINGKEY"
    LITE_TOPIC: Final = "__LITE_TOPIC"
    PRIORITY: Final = "_SYS_MSG_PRIORITY_"
    FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT: Final = "REDIRECT"
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
    INNER_NUM: Final = "INNER_NUM"
    INNER_BASE: Final = "INNER_BASE"
    TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
    TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
    TIMER_ROLL_LABEL: Final = "TIMER_ROLL_LABEL"
    TIMER_OUT_MS: Final = "TIMER_OUT_MS"
    TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
    TIMER_ENGINE_TYPE: Final = "E_T"
    BORN_HOST: Final = "__BORNHOST"
    BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
    DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
    CRC32: Final = "__CRC32#"
    DUP_INFO: Final = "DUP_INFO"


KEYS_SEPARATOR = " "
"""The separator between the keys of one message in ``KEYS``."""


def parse_properties(raw: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Return the pairs of a property string in their order; the last pair of a repeated name wins.

    Reading never fails. Malformed pairs are dropped and malformed UTF-8 becomes U+FFFD, both as in Java.
    """
    text = raw if isinstance(raw, str) else str(raw, "utf-8", "replace")
    pairs = text.split(_PAIR_END)
    if not pairs[-1]:
        del pairs[-1]
    try:
        properties = dict([pair.split(_NAME_END, 1) for pair in pairs])
    except ValueError:
        return _parse_odd(pairs)
    return _parse_odd(pairs) if "" in properties or "\x01\x02" in text or text.endswith(_NAME_END) else properties


def _parse_odd(pairs: list[str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for pair in pairs:
        if len(pair) < _MIN_PAIR_CHARS:
            continue
        name, _, value = pair.partition(_NAME_END)
        if name and value:
            properties[name] = value
    return properties


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # a lone surrogate becomes "?", as String.getBytes() does


def build_properties(properties: Mapping[str, str]) -> bytes:
    """Return the property string of a map, with 0x02 after every pair; pairs that a reader would drop are left out.

    A 0x01 in a value does no harm, as upstream, because only the first 0x01 splits a pair. A 0x02 ends the value.
    """
    return _encode("".join([f"{name}\x01{value}\x02" for name, value in properties.items() if name and value]))


def append_properties(raw: bytes, pairs: dict[str, str] | Iterable[tuple[str, str]]) -> bytes:
    """Return ``raw`` followed by ``pairs``, with a 0x02 in between if the writer of ``raw`` left it out."""
    items = pairs.items() if isinstance(pairs, dict) else pairs
    return append_text(raw, "".join([f"{name}\x01{value}\x02" for name, value in items if name and value]))


def append_text(raw: bytes, added: str) -> bytes:
    """Return ``raw`` followed by a property string, with a 0x02 in between if the writer of ``raw`` left it out."""
    if raw and added and raw[-1] != _PAIR_END_BYTE:
        return raw + b"\x02" + _encode(added)
    return raw + _encode(added)
