"""Op records: which half messages are settled, as Apache RocketMQ writes and reads them.

One record of the op topic, with the tag ``d``, lists the queue offsets of half messages:

    body         12,13,15,      5.x form, written here; 4.9 writes ``12``, one half message a record
    TAGS         d
    TRANSACTION_OUTCOMES  crd   ours: one letter for each offset of the body, in the same order
    TRANSACTION_CHECKS  0,2,0   ours: how often each was checked, in the same order; missing if none was

Readers of 5.x take both forms of the body and ignore our properties. A record without letters only says that its half
messages are settled, and not how.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from gateway.metadata.names import OP_HALF_TOPIC
from gateway.transaction.states import State
from wire.message.digits import decimal_digits, write_decimal
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage

OP_QUEUE_ID: Final = 0
OP_TAG: Final = "d"
SEPARATOR: Final = ","
OUTCOMES: Final = "TRANSACTION_OUTCOMES"
"""The name of our property with the outcomes. Never change the name: it is on disk."""
CHECKS: Final = "TRANSACTION_CHECKS"
"""The name of our property with the counts of checks. Never change the name: it is on disk."""
MAX_CHECKS_CHARACTERS: Final = 16_384
"""The largest length of a list of checks: half of the space for properties.

A longer list is left out, because only reports read it.
"""

MAX_ENTRIES: Final = 8_192
"""The largest number of half messages in one op record.

A letter for each half message fits into the properties beside the longest list of checks.
"""

# On disk: never change.
LETTERS: Final = {
    State.COMMITTED: "c",
    State.ROLLED_BACK: "r",
    State.DISCARDED: "d",
    State.REPLACED: "s",
    State.SETTLED: "u",
}
_STATES: Final = {letter: state for state, letter in LETTERS.items()}
_MAX_DIGITS: Final = 19
_SEPARATOR: Final = SEPARATOR.encode()


def entry_bytes(half_offset: i64) -> int:
    """Return how many bytes one half message takes in the body of an op record."""
    return decimal_digits(half_offset) + len(SEPARATOR)


def build_op(
    settled: Sequence[tuple[int, State]], *, host: bytes, now_ms: int, checks: Sequence[int] = ()
) -> OutgoingMessage:
    """Build one op record for many settled half messages (queue offset, terminal state).

    :param host: the broker's packed address.
    :param checks: how often each half message was checked; empty if not known.
    """
    body = BytesWriter()
    for offset, _ in settled:
        write_decimal(body, offset)
        body.write(_SEPARATOR)
    properties = {
        PropertyName.TAGS: OP_TAG,
        OUTCOMES: "".join([LETTERS[state] for _, state in settled]),
    }
    if any(checks):
        text = SEPARATOR.join([str(count) for count in checks])
        if len(text) <= MAX_CHECKS_CHARACTERS:
            properties[CHECKS] = text
    return OutgoingMessage(
        topic=OP_HALF_TOPIC,
        queue_id=OP_QUEUE_ID,
        flag=0,
        sys_flag=0,
        born_at_ms=now_ms,
        born_host=host,
        store_host=host,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body.getvalue(),
        properties=build_properties(properties),
        property_map=properties,
    )


def parse_op(body: bytes, outcomes: str | None) -> list[tuple[int, State]]:
    """Return the half offsets of an op record with their states; SETTLED if the record does not say which state.

    Lenient like upstream: an entry that is not a number is skipped. Letters count as missing if their number differs
    from the number of entries.
    """
    texts = body.decode("utf-8", "replace").split(SEPARATOR)
    offsets = [int(text) for text in map(str.strip, texts) if text.isdecimal() and len(text) <= _MAX_DIGITS]
    if outcomes is None or len(outcomes) != len(offsets):
        return [(offset, State.SETTLED) for offset in offsets]
    return [(offset, _STATES.get(letter, State.SETTLED)) for offset, letter in zip(offsets, outcomes, strict=True)]
