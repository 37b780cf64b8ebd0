from __future__ import annotations

import pytest
from construct import ConstructError
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import LocalError, RecordError
from wire.message.record import (
    BLANK,
    END_OF_FILE_BYTES,
    StoredMessage,
    build_blank,
    build_record,
    check_record,
    parse_record,
)
from wire.message.record_check import first_damage
from wire.tests.message.layouts import declared_record
from wire.tests.message.samples import CLIENT_V6, VECTOR, message, patched, record
from wire.tests.message.strategies import QUICK

RECORD = declared_record()


def test_a_filler_says_how_much_room_it_takes() -> None:
    assert build_blank(4096).hex() == "00001000" + "cbd43194"
    assert check_record(build_blank(4096) + bytes(92), 0, 0) == BLANK
    assert check_record(VECTOR + build_blank(8), len(VECTOR), None) == BLANK
    with pytest.raises(LocalError, match="7 are left"):
        build_blank(END_OF_FILE_BYTES - 1)


V2 = record(topic="%RETRY%" + "g" * 200)
V6 = record(born_host=CLIENT_V6)

DAMAGED: list[tuple[bytes, str]] = [
    (b"", "cut off: 0 bytes left, a record takes at least 91"),
    (VECTOR[:7], "cut off: 7 bytes left, a record takes at least 91"),
    (VECTOR[:8], "cut off: 8 bytes left of 115"),
    (VECTOR[:40], "cut off: 40 bytes left of 115"),
    (VECTOR[:-1], "cut off: 114 bytes left of 115"),
    (bytes(200), "nothing is written here"),
    (patched(4, "00000000"), "unknown magic 0x00000000"),
    (patched(4, "daa320a8"), "unknown magic 0xdaa320a8"),
    (patched(0, "00000000"), "size 0 is below the least, 91"),
    (patched(0, "ffffffff"), "size -1 is below the least, 91"),
    (patched(0, "0000005a"), "size 90 is below the least, 91"),
    (patched(0, "00000072"), "the parts take 115 bytes, the record says 114"),
    (patched(0, "00000074") + b"\x00", "the parts take 115 bytes, the record says 116"),
    (patched(0, "00000060", V6), "size 96 is below the least with these hosts, 103"),
    (patched(36, "00000010"), "body of"),
    (patched(84, "ffffffff"), "a body of -1 bytes does not fit into 115"),
    (patched(84, "7fffffff"), "a body of 2147483647 bytes does not fit into 115"),
    (patched(84, "00000019"), "a body of 25 bytes does not fit into 115"),
    (patched(93, "7f"), "a topic of 127 bytes does not fit into 115"),
    (patched(93, "80"), "the topic length -128 is negative"),
    (patched(103, "ffff"), "the parts take 104 bytes, the record says 115"),
    (patched(103, "000b"), "the parts take 116 bytes, the record says 115"),
    (patched(93, "01ff", V2), "a topic of 511 bytes does not fit"),
    (V2[:94], "cut off: 94 bytes left of"),
]


@pytest.mark.parametrize(("raw", "reason"), DAMAGED, ids=[reason for _, reason in DAMAGED])
def test_a_damaged_record_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    for read in (parse_record, lambda buffer: check_record(buffer, 0, None)):
        with pytest.raises(RecordError, match=reason):
            read(raw)
    with pytest.raises(RecordError, match=reason):
        parse_record(memoryview(raw))


def test_a_wrong_checksum_is_found_when_it_is_looked_at() -> None:
    raw = patched(88, "68")
    reason = "body checksum is 0x3610a686, the record says 0x77d18982"
    assert parse_record(raw).body == b"hello"
    assert check_record(raw, 0, 1234, check_crc=False) == 115
    with pytest.raises(RecordError, match=reason):
        parse_record(raw, check_crc=True)
    with pytest.raises(RecordError, match=reason):
        check_record(raw, 0, 1234)


def test_a_record_that_lies_elsewhere_is_found() -> None:
    with pytest.raises(RecordError, match="the record says it lies at 1234, found at 4096"):
        check_record(VECTOR, 0, 4096)
    assert check_record(VECTOR, 0, 1234) == 115


def test_a_filler_is_no_record() -> None:
    with pytest.raises(RecordError, match="end-of-file filler"):
        parse_record(build_blank(200) + bytes(192))


mutations = st.lists(st.tuples(st.integers(0, 160), st.integers(0, 255)), max_size=4)


@QUICK
@given(st.sampled_from([VECTOR, V2, V6]), mutations, st.integers(0, 400), st.binary(max_size=120))
def test_any_bytes_are_a_record_or_a_record_error(
    source: bytes, changes: list[tuple[int, int]], length: int, tail: bytes
) -> None:
    raw = bytearray(source)
    for at, value in changes:
        if at < len(raw):
            raw[at] = value
    buffer = bytes(raw[:length] + tail)
    try:
        stored = parse_record(buffer)
    except RecordError:
        stored = None
    try:
        size = check_record(buffer, 0, None, check_crc=False)
    except RecordError:
        assert stored is None
        return
    if stored is not None:
        assert size == stored.total_size <= len(buffer)
        assert_as_declared(stored, buffer)


def assert_as_declared(stored: StoredMessage, buffer: bytes) -> None:
    try:
        declared = RECORD.parse(buffer)
    except ConstructError as error:
        raise AssertionError("the specification refuses what the quick reader takes") from error
    assert declared.topic.decode() == stored.topic
    assert declared.properties == stored.properties
    assert declared.body == stored.body


@QUICK
@given(st.binary(max_size=200))
def test_garbage_is_a_record_error(raw: bytes) -> None:
    with pytest.raises(RecordError):
        parse_record(raw)
    with pytest.raises(RecordError):
        check_record(raw, 0, None)


def _row(count: int) -> bytes:
    row = b""
    for number in range(count):
        row += build_record(message(body=b"%d" % number * 20), number, 5000 + len(row), 1)
    return row


def test_a_row_of_intact_records_has_no_damage() -> None:
    row = _row(4)
    assert first_damage(row, 5000) is None
    assert first_damage(b"", 5000) is None
    assert first_damage(row, 5001) == (5001, "the record says it lies at 5000, found at 5001")


@pytest.mark.parametrize("number", [0, 2])
def test_the_first_damaged_record_of_a_row_is_found(number: int) -> None:
    row = _row(4)
    at = len(_row(number))
    body_at = at + 90
    found = first_damage(row[:body_at] + bytes((row[body_at] ^ 1,)) + row[body_at + 1 :], 5000)
    assert found is not None
    assert found[0] == 5000 + at
    assert found[1].startswith("body checksum is ")
    assert first_damage(row[: at + 50], 5000) == (5000 + at, "cut off: 50 bytes left of 130")
    assert first_damage(row[:at] + bytes(200), 5000) == (5000 + at, "nothing is written here")
