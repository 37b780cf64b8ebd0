"""Properties taken out of a string say the same as the whole string taken apart."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.transaction.records.property_scan import (
    COMMIT_LOG_OFFSET,
    QUEUE_OFFSET,
    STORED_AT_MS,
    TOTAL_SIZE,
    WANTED,
    parse_head,
    scan_properties,
)
from wire.errors import RecordError
from wire.message.properties import build_properties, parse_properties
from wire.message.record import OutgoingMessage, build_record, parse_record

names = st.one_of(st.sampled_from(WANTED), st.sampled_from(["TAGS", "XPGROUP", "PGROUPX", "KEYS", ""]))
values = st.text(st.sampled_from("ab\x01é"), max_size=3)
pieces = st.one_of(
    st.tuples(names, st.just("\x01"), values, st.just("\x02")).map("".join),
    st.sampled_from(["\x02", "\x01", "PGROUP", "PGROUP\x01", "\x01\x02"]),
)


def wanted(raw: bytes) -> dict[str, str]:
    return {name: value for name, value in parse_properties(raw).items() if name in WANTED}


@given(st.lists(pieces, max_size=6).map("".join).map(str.encode))
def test_the_scan_finds_what_the_parser_finds(raw: bytes) -> None:
    assert scan_properties(raw) == wanted(raw)


@given(st.binary(max_size=30))
def test_bytes_that_are_no_text_are_read_alike(raw: bytes) -> None:
    assert scan_properties(b"PGROUP\x01" + raw) == wanted(b"PGROUP\x01" + raw)


def test_the_properties_of_a_half_message_are_found() -> None:
    raw = build_properties({"UNIQ_KEY": "K", "PGROUP": "g", "REAL_TOPIC": "orders", "REAL_QID": "3"})
    assert scan_properties(raw) == {"PGROUP": "g", "REAL_TOPIC": "orders", "REAL_QID": "3"}


def record_of(topic: str, body: bytes, raw: bytes, host: bytes) -> bytes:
    message = OutgoingMessage(topic, 3, 4, 8, 5, host, host, 6, 7, body, raw)
    return build_record(message, 11, 2**40, 1_750_000_000_000)


@pytest.mark.parametrize("topic", ["orders", "ü", "x" * 127, "y" * 200])
@pytest.mark.parametrize("host", [bytes(8), bytes(20)])
def test_the_head_says_what_the_whole_record_says(topic: str, host: bytes) -> None:
    raw = build_properties({"PGROUP": "g", "KEYS": "k" * 400})
    part = b"before" + record_of(topic, b"body", raw, host) + b"behind"
    head, properties = parse_head(part, 6)
    record = parse_record(part, 6)
    assert properties == raw == record.properties
    assert (head[TOTAL_SIZE], head[QUEUE_OFFSET]) == (record.total_size, 11)
    assert (head[COMMIT_LOG_OFFSET], head[STORED_AT_MS]) == (2**40, 1_750_000_000_000)


@given(st.data())
def test_a_damaged_record_is_refused_as_the_parser_refuses_it(data: st.DataObject) -> None:
    good = record_of("orders", b"body", build_properties({"PGROUP": "g"}), bytes(8))
    at = data.draw(st.integers(0, len(good) - 1))
    part = bytearray(good[: data.draw(st.sampled_from([len(good), at]))])
    if len(part) == len(good):
        part[at] ^= data.draw(st.integers(1, 255))
    try:
        expected = parse_record(bytes(part), 0, with_body=False)
    except RecordError:
        # A topic that is no text is the one thing that is not looked at.
        with suppress(RecordError):
            head, _ = parse_head(bytes(part), 0)
            assert head[TOTAL_SIZE] == len(part)
        return
    head, properties = parse_head(bytes(part), 0)
    assert (head[QUEUE_OFFSET], properties) == (expected.queue_offset, expected.properties)
