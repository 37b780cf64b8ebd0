"""Op records, ours and those of Apache RocketMQ."""

from __future__ import annotations

import pytest

from gateway.metadata.names import OP_HALF_TOPIC
from gateway.transaction.records.op_messages import CHECKS, OUTCOMES, build_op, entry_bytes, parse_op
from gateway.transaction.states import State

HOST = bytes(8)


def test_an_op_record_has_the_form_of_5x() -> None:
    op = build_op([(12, State.COMMITTED), (3, State.ROLLED_BACK), (4, State.DISCARDED)], host=HOST, now_ms=99)
    assert (op.topic, op.queue_id, op.body) == (OP_HALF_TOPIC, 0, b"12,3,4,")
    assert op.property_map == {"TAGS": "d", OUTCOMES: "crd"}
    assert op.properties == b"TAGS\x01d\x02" + OUTCOMES.encode() + b"\x01crd\x02"


def test_the_checks_of_each_half_message_are_written_if_there_were_any() -> None:
    settled = [(12, State.COMMITTED), (3, State.ROLLED_BACK)]
    assert build_op(settled, host=HOST, now_ms=0, checks=[0, 2]).property_map[CHECKS] == "0,2"
    assert CHECKS not in build_op(settled, host=HOST, now_ms=0, checks=[0, 0]).property_map
    many = [(number, State.COMMITTED) for number in range(20_000)]
    assert CHECKS not in build_op(many, host=HOST, now_ms=0, checks=[1] * len(many)).property_map


def test_what_was_written_is_read() -> None:
    settled = [(1, State.COMMITTED), (10**12, State.REPLACED), (7, State.SETTLED)]
    op = build_op(settled, host=HOST, now_ms=0)
    assert parse_op(op.body, op.property_map[OUTCOMES]) == settled
    assert sum(entry_bytes(offset) for offset, _ in settled) == len(op.body)


@pytest.mark.parametrize(
    ("body", "outcomes", "expected"),
    [
        (b"12", None, [(12, State.SETTLED)]),
        (b"12,13,", None, [(12, State.SETTLED), (13, State.SETTLED)]),
        (b"12, 13", None, [(12, State.SETTLED), (13, State.SETTLED)]),
        (b"12,13,", "c", [(12, State.SETTLED), (13, State.SETTLED)]),
        (b"12,13,", "c?", [(12, State.COMMITTED), (13, State.SETTLED)]),
        (b"12,x,-1,13,", None, [(12, State.SETTLED), (13, State.SETTLED)]),
        (b"9" * 5_000, None, []),
        (b"", None, []),
        (b"\xff\xfe", None, []),
    ],
)
def test_forms_of_other_brokers_and_damaged_ones(
    body: bytes, outcomes: str | None, expected: list[tuple[int, State]]
) -> None:
    assert parse_op(body, outcomes) == expected
