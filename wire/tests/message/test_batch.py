from __future__ import annotations

import pytest
from construct import Bytes, GreedyRange, Int16sb, Struct, this
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import BodyError, LocalError
from wire.message import batch
from wire.message.batch import PART_HEAD, BatchPart, build_batch, parse_batch
from wire.message.properties import build_properties
from wire.tests.message.layouts import assert_declared_and_derived_agree, declared, values_of
from wire.tests.message.strategies import QUICK, int32s, property_maps

parts = st.lists(
    st.builds(BatchPart, flag=int32s, body=st.binary(max_size=40), properties=property_maps.map(build_properties)),
    max_size=5,
)
DECLARED = GreedyRange(
    Struct(
        *declared(PART_HEAD).subcons,
        "body" / Bytes(this.body_bytes),
        "properties_bytes" / Int16sb,
        "properties" / Bytes(this.properties_bytes),
    )
)
TWO = bytes.fromhex("0000001a00000000000000000000000700000002 6869 0002 6101") + bytes.fromhex(
    "00000017000000000000000000000000000000016a0000"
)


def test_a_batch_is_its_messages_one_after_the_other() -> None:
    expected = [BatchPart(7, b"hi", b"a\x01"), BatchPart(0, b"j", b"")]
    assert parse_batch(TWO) == expected
    assert build_batch(expected) == TWO
    assert parse_batch(memoryview(TWO)) == expected
    assert parse_batch(b"") == []


@QUICK
@given(parts)
def test_batches_come_back_and_are_as_declared(messages: list[BatchPart]) -> None:
    raw = build_batch(messages)
    assert parse_batch(raw) == messages
    declared = DECLARED.parse(raw)
    assert [(part.flag, part.body, part.properties) for part in declared] == messages


@QUICK
@given(values_of(PART_HEAD))
def test_declared_and_derived_heads_agree(values: tuple[int, ...]) -> None:
    assert_declared_and_derived_agree(PART_HEAD, values)


def _with(field: str, value: int) -> bytes:
    raw = bytearray(TWO)
    PART_HEAD.packer(field).pack_into(raw, PART_HEAD.offset(field), value)
    return bytes(raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (TWO[:21], "message 0 is cut off: 21 bytes left"),
        (TWO[:23], "message 0: size 26 and body of 2 bytes do not fit into the 23 bytes left"),
        (TWO[:-1], "message 1"),
        (TWO + b"\x00", "message 2 is cut off: 1 bytes left"),
        (_with("total_size", 0), "size 0"),
        (_with("total_size", -1), "size -1"),
        (_with("total_size", 25), "its parts take 26 bytes, it says 25"),
        (_with("total_size", 2**31 - 1), "do not fit"),
        (_with("body_bytes", -1), "body of -1 bytes"),
        (_with("body_bytes", 2**31 - 1), "do not fit"),
        (TWO[:22] + b"\xff\xff" + TWO[24:], "its parts take 23 bytes"),
    ],
)
def test_a_damaged_batch_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(BodyError, match=reason):
        parse_batch(raw)


@QUICK
@given(
    st.binary(max_size=100)
    | st.tuples(parts.map(build_batch), st.integers(0, 99), st.binary(max_size=3)).map(
        lambda found: found[0][: found[1]] + found[2] + found[0][found[1] + len(found[2]) :]
    )
)
def test_any_bytes_are_a_batch_or_a_body_error(raw: bytes) -> None:
    try:
        messages = parse_batch(raw)
    except BodyError:
        return
    assert sum(22 + len(part.body) + len(part.properties) for part in messages) == len(raw)


def test_a_batch_of_too_many_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MAX_BATCH_PARTS", 2)
    three = build_batch([BatchPart(0, b"", b"")] * 3)
    assert len(parse_batch(three[:44])) == 2
    with pytest.raises(BodyError, match="more than 2 messages"):
        parse_batch(three)


def test_properties_over_the_limit_are_not_built() -> None:
    with pytest.raises(LocalError, match="32768 bytes, the limit is 32767"):
        build_batch([BatchPart(0, b"", bytes(32768))])
