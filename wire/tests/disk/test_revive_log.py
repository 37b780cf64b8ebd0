"""Records of the revive topic: Apache RocketMQ's are understood, ours are read by it, damage is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.disk.revive_log import (
    AckRecord,
    BatchAckRecord,
    CheckPointRecord,
    ReviveRecord,
    StateRecord,
)
from wire.errors import LayoutError

CHECK_POINT = CheckPointRecord(
    topic="orders",
    group="mail",
    queue_id=2,
    start_offset=5,
    popped_at_ms=1_750_000_000_000,
    invisible_ms=60_000,
    count=2,
    acked=1,
    diffs=[0, 3],
    broker_name="broker-a",
    next_offset=9,
)
ACK = AckRecord(topic="orders", group="mail", queue_id=2, start_offset=5, popped_at_ms=17, offset=8)
BATCH = BatchAckRecord(topic="orders", group="mail", queue_id=2, start_offset=5, popped_at_ms=17, offsets=[5, 8])
STATE = StateRecord(topic="orders", group="mail", queue_id=2, next_offset=9, order="{}")


@pytest.mark.parametrize(
    ("record", "parse"),
    [
        (CHECK_POINT, CheckPointRecord.parse),
        (ACK, AckRecord.parse),
        (BATCH, BatchAckRecord.parse),
        (STATE, StateRecord.parse),
    ],
)
def test_a_record_survives_being_bytes(record: ReviveRecord, parse: object) -> None:
    assert callable(parse)
    assert parse(record.build()) == record


def test_members_have_the_names_that_apache_rocketmq_gives_them() -> None:
    assert json.loads(CHECK_POINT.build()) == {
        "t": "orders",
        "c": "mail",
        "q": 2,
        "so": 5,
        "pt": 1_750_000_000_000,
        "it": 60_000,
        "n": 2,
        "bm": 1,
        "d": [0, 3],
        "bn": "broker-a",
        "no": 9,
    }
    assert set(json.loads(ACK.build())) == {"t", "c", "q", "so", "pt", "ao"}
    assert set(json.loads(BATCH.build())) == {"t", "c", "q", "so", "pt", "aol"}


def test_a_check_point_of_apache_rocketmq_is_understood() -> None:
    text = (
        b'{"bm":0,"bn":"broker-a","c":"mail","d":[0,1],"it":60000,"n":2,"pt":1750000000000,"q":0,"ro":0,'
        b'"rp":null,"rt":1750000060000,"so":17,"t":"orders"}'
    )
    record = CheckPointRecord.parse(text)
    assert (record.start_offset, record.count, record.diffs, record.next_offset) == (17, 2, [0, 1], None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"t":"orders"}',
        b"\xff\xfe",
        CHECK_POINT.build().replace(b'"n":2', b'"n":33'),
        CHECK_POINT.build().replace(b'"n":2', b'"n":-1'),
        CHECK_POINT.build().replace(b'"n":2', b'"n":1'),
        CHECK_POINT.build().replace(b'"so":5', b'"so":-5'),
        CHECK_POINT.build().replace(b"[0,3]", b'["x",3]'),
        CHECK_POINT.build()[:-1],
    ],
)
def test_a_damaged_check_point_is_refused(body: bytes) -> None:
    with pytest.raises(LayoutError):
        CheckPointRecord.parse(body)


@given(st.binary(max_size=200))
def test_nothing_but_layout_errors_comes_of_any_bytes(body: bytes) -> None:
    for parse in (CheckPointRecord.parse, AckRecord.parse, BatchAckRecord.parse, StateRecord.parse):
        try:
            parse(body)
        except LayoutError:
            continue
