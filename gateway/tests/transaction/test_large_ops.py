"""Point 6 of what was left of the faults: op records of many half messages fit what a record's properties may take."""

from __future__ import annotations

from pathlib import Path

from gateway.tests.transaction.world import ROLLBACK, World
from gateway.transaction.limits import TransactionLimits
from gateway.transaction.records.op_messages import MAX_ENTRIES, build_op
from gateway.transaction.restart.migration import cut
from gateway.transaction.states import State

MAX_PROPERTIES_BYTES = 32_767


def test_point_6_the_outcomes_of_the_largest_op_records_fit_their_properties() -> None:
    parts = list(cut(((offset, State.ROLLED_BACK) for offset in range(40_000)), 1 << 20))
    assert sum(map(len, parts)) == 40_000
    for part in parts:
        op = build_op(part, host=b"\x7f\x00\x00\x01", now_ms=0, checks=[1] * len(part))
        assert len(op.properties) <= MAX_PROPERTIES_BYTES
    assert max(map(len, parts)) == MAX_ENTRIES


def test_an_op_record_stays_within_its_number_of_entries(tmp_path: Path) -> None:
    world = World(tmp_path, limits=TransactionLimits(op_entries=5))
    halves = [world.send(f"k{number}") for number in range(12)]
    for half in halves:
        world.end(half, ROLLBACK, oneway=True, turn=False)
    world.turn()
    assert world.ops() == ["0,1,2,3,4,", "5,6,7,8,9,", "10,11,"]
